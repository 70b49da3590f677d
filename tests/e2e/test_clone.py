"""A stranger's first minutes: a clone into an empty folder, and the README's first command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [str(part) for part in command], capture_output=True, text=True, **options
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_clone_shows_its_demo_with_one_command(tmp_path: Path) -> None:
    if run("git", "-C", ROOT, "rev-parse").returncode:
        pytest.skip("not a git checkout")
    if not shutil.which("uv"):
        pytest.skip("without uv the packages would have to be fetched again")
    clone = tmp_path / "clone"
    assert run("git", "clone", "-q", ROOT, clone).returncode == 0
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("HARDPOINT_", "VIRTUAL_"))}
    # What this environment was installed from is still in uv's cache; nothing else is asked for.
    env = {
        **kept,
        "UV_OFFLINE": "1",
        "HARDPOINT_VENV": str(tmp_path / "venv"),
        "HARDPOINT_HOME": str(tmp_path / "home"),
    }

    done = run(sys.executable, clone / "dev", "demo", cwd=tmp_path, env=env)

    if done.returncode and re.search(r"offline|not found in the cache", done.stderr):
        pytest.skip("the packages are not in uv's cache")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\n\d+ real calls in [\d.]+ s\n$", done.stdout)
    assert run("git", "-C", clone, "status", "--porcelain").stdout == ""


def test_the_demo_shows_every_way_in_which_a_call_can_go(tmp_path: Path) -> None:
    env = {**os.environ, "HARDPOINT_HOME": str(tmp_path / "home")}
    hardpoint = Path(sys.executable).parent / "hardpoint"

    shown = run(hardpoint, "demo", "--json", cwd=tmp_path, env=env)
    told = run(hardpoint, "demo", cwd=tmp_path, env=env)

    outcomes = [json.loads(line) for line in shown.stdout.splitlines()]
    kinds = [None if each["ok"] else each["error"]["kind"] for each in outcomes]
    assert shown.returncode == told.returncode == 0
    assert kinds.count(None) >= 4
    assert {"invalid_parameters", "not_found", "not_authorized", "rate_limited"} <= set(kinds)
    limited = next(each for each in outcomes if not each["ok"] and each["error"]["retry_after"])
    assert 0 < limited["error"]["retry_after"] <= 60
    denied = next(each for each in outcomes if "decision" in each.get("error", {}))
    assert denied
    for words in (
        "a call that succeeds",
        "repaired by the schema",
        "config.toml:",
        "answer: yes, once (by the script)",
        "third-party plugin",
        "retry after",
        "what the audit holds",
    ):
        assert words in told.stdout, words
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "home"])
