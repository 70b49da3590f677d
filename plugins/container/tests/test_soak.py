"""Many sessions and calls of all kinds: no wrong output, nothing left over. A tenth of it in CI.

`HARDPOINT_SOAK=1` runs the whole: 100 sessions, 2,000 calls.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from hardpoint.errors import HardpointError
from hardpoint_container import (
    ApplyPatchTool,
    FileReadTool,
    FileWriteTool,
    GlobTool,
    GrepTool,
    ListDirTool,
    ShellTool,
)

pytestmark = [pytest.mark.podman, pytest.mark.podman_only, pytest.mark.slow]

WHOLE = os.environ.get("HARDPOINT_SOAK") == "1"
SESSIONS, CALLS = (100, 2000) if WHOLE else (10, 200)
shell, read, write = ShellTool(), FileReadTool(), FileWriteTool()
patch, ls, grep, glob = ApplyPatchTool(), ListDirTool(), GrepTool(), GlobTool()


@attrs.define
class Person:
    """One session, and what its workspace must hold."""

    kit: Any
    number: int
    files: dict[str, str] = attrs.field(factory=dict)

    async def act(self, chance: random.Random) -> None:
        kind = chance.choice(
            ["write", "read", "echo", "list", "patch", "grep", "glob", "bad", "late"]
        )
        await getattr(self, kind)(chance)

    async def write(self, chance: random.Random) -> None:
        name = f"f{chance.randrange(5)}.txt"
        text = f"session {self.number} says {chance.random()}\n" * chance.randrange(1, 50)
        await self.kit.tool(write, path=name, content=text)
        self.files[name] = text

    async def read(self, _: random.Random) -> None:
        for name, text in self.files.items():
            found = await self.kit.tool(read, path=name, line_numbers=False)
            assert found["content"] == text

    async def echo(self, chance: random.Random) -> None:
        word = f"{self.number}-{chance.random()}"
        found = await self.kit.tool(
            shell, command=["sh", "-c", 'echo "$1"; sleep 100 &', "sh", word]
        )
        assert found["output"] == f"{word}\n"

    async def list(self, _: random.Random) -> None:
        found = await self.kit.tool(ls, path=".")
        assert {entry.split()[0] for entry in found["entries"]} == set(self.files)

    async def patch(self, _: random.Random) -> None:
        for name, text in self.files.items():
            edit = {"old_string": "says", "new_string": "said", "replace_all": True}
            if "says" in text:
                await self.kit.tool(patch, path=name, **edit)
                self.files[name] = text.replace("says", "said")

    async def grep(self, _: random.Random) -> None:
        found = await self.kit.tool(grep, pattern=f"^session {self.number} ", output_mode="count")
        assert found["matches"] == sorted(f"{n}:{t.count(chr(10))}" for n, t in self.files.items())

    async def glob(self, _: random.Random) -> None:
        found = await self.kit.tool(glob, pattern="*.txt")
        assert set(found["files"]) == set(self.files)

    async def bad(self, _: random.Random) -> None:
        with pytest.raises(HardpointError):
            await self.kit.tool(read, path="../../etc/passwd")
        assert (await self.kit.tool(shell, command="kill -9 $$"))["signal"] == "SIGKILL"

    async def late(self, _: random.Random) -> None:
        with pytest.raises(HardpointError, match="did not finish"):
            await self.kit.tool(shell, command="sleep 100", timeout=0.05)


@pytest.fixture
def folders() -> Iterator[list[Path]]:
    made = [Path(tempfile.mkdtemp(prefix="hp-soak-")) for _ in range(SESSIONS)]
    yield made
    for folder in made:
        shutil.rmtree(folder)


def usage() -> tuple[int, int]:
    """Open files and resident kilobytes of this process."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return len(os.listdir("/proc/self/fd")), int(resident.split()[1])


@pytest.mark.timeout(1800)
async def test_many_sessions_leave_nothing(make_kit: Any, folders: list[Path], mine: Any) -> None:
    kit = await make_kit(max_sandboxes=8, idle=1.0)
    people = [
        Person(kit.named(session_id=str(number), workspace=folder), number)
        for number, folder in enumerate(folders)
    ]
    chance = random.Random(7)
    lock = {person.number: asyncio.Lock() for person in people}
    await people[0].echo(chance)
    files, memory = usage()

    async def one() -> None:
        # Mostly the same few people, so that sandboxes stay warm, and all of them in time.
        person = people[min(chance.randrange(SESSIONS), chance.randrange(SESSIONS))]
        async with lock[person.number]:
            await person.act(chance)

    turns = asyncio.Semaphore(6)

    async def turn() -> None:
        async with turns:
            await one()

    async with asyncio.TaskGroup() as group:
        for _ in range(CALLS):
            group.create_task(turn())
    for person in people:
        await person.read(chance)

    await kit.domain.__aexit__(None, None, None)
    assert mine() == set()
    files_after, memory_after = usage()
    assert files_after <= files + 2
    assert memory_after < memory + 60_000
