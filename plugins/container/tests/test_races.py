"""Between check and use: somebody swaps links for files as fast as possible and never wins."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from hardpoint.errors import HardpointError
from hardpoint_container import ApplyPatchTool, FileReadTool, FileWriteTool, ListDirTool

pytestmark = pytest.mark.podman

SWAPS = 10_000
SWAPPER = f"""
    import itertools, os, sys
    target = sys.argv[1]
    os.mkdir("kept")
    serial, swaps = itertools.count(), 0
    while swaps < {SWAPS}:
        # The same names are in turn a file and a link out of here, a folder and a link out of here.
        for name, link in (("f", target), ("d", os.path.dirname(target))):
            new, old = f"kept/new{{next(serial)}}", f"kept/old{{next(serial)}}"
            if swaps % 2: os.symlink(link, new)
            elif name == "f": open(new, "w").write("inside")
            else: os.mkdir(new)
            try:
                if os.path.lexists(name): os.rename(name, old)
                os.rename(new, name)
                if os.path.islink(old) or os.path.isfile(old): os.unlink(old)
            except OSError:
                continue  # a tool made a folder of that name in this very moment
            swaps += 1
"""


async def test_ten_thousand_swaps_never_win(kit: Any, workspace: Path, tmp_path: Path) -> None:
    outside = tmp_path / "secret.txt"
    outside.write_text("outside")
    swapper = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SWAPPER), str(outside)], cwd=workspace
    )
    read, write, patch, ls = FileReadTool(), FileWriteTool(), ApplyPatchTool(), ListDirTool()
    tries = [
        (read, {"path": "f", "line_numbers": False}),
        (write, {"path": "f", "content": "inside"}),
        (patch, {"path": "f", "old_string": "inside", "new_string": "inside."}),
        (read, {"path": "d/f", "line_numbers": False}),
        (write, {"path": "d/new.txt", "content": "inside"}),
        (ls, {"path": "d"}),
    ]
    answers = refusals = 0
    try:
        while swapper.poll() is None:
            for tool, params in tries:
                try:
                    result = await kit.tool(tool, **params)
                except HardpointError:
                    refusals += 1
                    continue
                answers += 1
                assert "outside" not in str(result.get("content", ""))
                assert "secret.txt" not in str(result.get("entries", ""))
            await asyncio.sleep(0)
    finally:
        swapper.kill()
        swapper.wait()

    assert swapper.returncode == 0
    assert outside.read_text() == "outside"
    assert os.listdir(tmp_path) == ["secret.txt"]
    assert answers
    assert refusals
