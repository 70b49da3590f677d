"""Every case file that has an adapter, whole, through the judge that comes with the cases."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parents[1] / "data" / "acceptance"
ADAPTERS = Path(__file__).with_name("adapters.py")


def files_with_an_adapter() -> list[str]:
    tree = ast.parse(ADAPTERS.read_text(encoding="utf-8"))
    names = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return sorted(file.stem for file in CASES.glob("*.jsonl") if file.stem in names)


@pytest.mark.parametrize("name", files_with_an_adapter())
def test_every_case_is_answered_rightly(name: str) -> None:
    # A process of its own: the judge sets alarms and runs its own event loop. Its two seconds for
    # an answer are for a machine of one's own; here other checks, and their containers, run too.
    patience = {**os.environ, "CASE_SECONDS": "20"}
    judged = subprocess.run(
        [sys.executable, CASES / "run.py", ADAPTERS, name, "--show", "1000"],
        capture_output=True,
        text=True,
        timeout=110,
        env=patience,
        check=False,
    )

    assert judged.returncode == 0, judged.stdout + judged.stderr
