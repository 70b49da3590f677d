"""Several processes write memory at once, and some of them die."""

import subprocess
import sys

WRITER = """
import asyncio, sys
from pathlib import Path
from hardpoint import Config, Runtime
from hardpoint.config import StoreConfig

place, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
where = {"url": place} if "://" in place else {"path": Path(place)}

async def main():
    config = Config(store=StoreConfig(**where), load_only=frozenset({"builtin"}))
    async with Runtime(config, installed_plugins=True) as runtime:
        workspace = runtime.services.workspace
        for number in range(count):
            await workspace.write("ana", "shared.md", f"{name}-{number}", append=True)
            await workspace.write("ana", f"{name}/{number}.md", f"zeppelin {name} {number}")
            print(number, flush=True)

asyncio.run(main())
"""


def start(place, name, count):
    command = [sys.executable, "-c", WRITER, place, name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def test_eight_processes_lose_nothing(place, runtime_at):
    writers = [start(place, f"w{number}", 12) for number in range(8)]
    codes = [(writer.communicate(timeout=100), writer.returncode)[1] for writer in writers]

    async with runtime_at() as runtime:
        workspace = runtime.services.workspace
        lines = (await workspace.read("ana", "shared.md")).splitlines()
        paths = await workspace.list("ana")
        numbers = [each.version for each in await workspace.versions("ana", "shared.md")]
        hits = await workspace.search("ana", "w7 11")

    assert codes == [0] * 8
    assert sorted(lines) == sorted(f"w{writer}-{n}" for writer in range(8) for n in range(12))
    assert len(paths) == 1 + 8 * 12
    assert numbers == list(range(1, 8 * 12 + 1))
    assert hits[0]["path"] == "w7/11.md"


async def test_a_killed_writer_loses_nothing_that_was_acknowledged(place, runtime_at):
    acknowledged = {}
    for name in ("a", "b", "c"):
        writer = start(place, name, 100_000)
        for line in writer.stdout:
            acknowledged[name] = int(line)
            if acknowledged[name] >= 15:
                break
        writer.kill()
        writer.communicate(timeout=30)

    async with runtime_at() as runtime:
        workspace = runtime.services.workspace
        lines = set((await workspace.read("ana", "shared.md")).splitlines())
        paths = set(await workspace.list("ana"))
        hits = await workspace.search("ana", "zeppelin", limit=20)
        await workspace.write("ana", "after.md", "still writable")

    for name, last in acknowledged.items():
        assert {f"{name}-{number}" for number in range(last + 1)} <= lines
        assert {f"{name}/{number}.md" for number in range(last + 1)} <= paths
    assert len(hits) == 20
