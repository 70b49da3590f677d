"""WASI commands on wasmer-sdk: in a process that is killed in time and limited in memory."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cattrs
import pytest
import wasmtime
from wasm_guests import other, wat

from hardpoint import DomainUnavailable, ExecutionFailed, JobContext, SandboxError, ToolTimeout
from hardpoint.errors import ConfigError
from hardpoint_wasm.install import granted, inspect, make_store, make_tools
from hardpoint_wasm.runtime import WasmRuntime
from hardpoint_wasm.settings import WasmConfig
from hardpoint_wasm.sources import Found

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("wasmer_sdk") is None, reason="wasmer-sdk is not installed"
)

LOOP = other.command("(loop $x (br $x))")
GROW = other.command(
    """(loop $x (br_if $x (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
    (memory.fill (i32.const 0) (i32.const 1) (i32.mul (memory.size) (i32.const 65535)))
    (call $exit (i32.const 0))"""
)


@pytest.fixture
def wasm_runtime(cache_dir: Path) -> Iterator[WasmRuntime]:
    runtime = WasmRuntime(cache_dir)
    yield runtime
    runtime.close()


@pytest.fixture
def load(tmp_path: Path, wasm_runtime: WasmRuntime) -> Any:
    """A tool whose engine the configuration sets to wasmer."""

    async def load(source: str, **settings: Any) -> Any:
        table = {"folder": tmp_path / "tools", "tools": {"guest": {"engine": "wasmer"} | settings}}
        config = cattrs.structure(table, WasmConfig)
        found = Found("guest", bytes(wasmtime.wat2wasm(source)), {}, "here")
        record = granted(await inspect(found, config, wasm_runtime), ())
        make_store(config).add(record, found.wasm)
        return make_tools(record, make_store(config), config, wasm_runtime)["guest"]

    return load


async def test_a_command_answers_and_its_process_is_used_again(
    load: Any, context: JobContext
) -> None:
    tool = await load(other.ECHO)

    answers = [(await tool.execute({"n": n, "text": "grüße"}, context)).result for n in range(3)]

    assert answers == [{"echo": {"n": n, "text": "grüße"}} for n in range(3)]


async def test_exit_codes_and_standard_error_come_back(load: Any, context: JobContext) -> None:
    tool = await load(other.EXIT)

    with pytest.raises(ExecutionFailed, match=r"exit code 7(.|\n)*no good"):
        await tool.execute({}, context)


@pytest.mark.parametrize("source", [LOOP, other.SLEEP])
async def test_the_process_is_killed_at_the_time_out(
    load: Any, context: JobContext, source: str
) -> None:
    tool = await load(source, timeout=3.0)

    with pytest.raises(ToolTimeout, match="stopped after 3 s"):
        await tool.execute({}, context)

    assert not _children()


async def test_the_process_is_killed_when_the_call_is_cancelled(
    load: Any, context: JobContext
) -> None:
    tool = await load(LOOP)
    task = asyncio.create_task(tool.execute({}, context))
    while not _children():
        await asyncio.sleep(0.01)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _children()


async def test_the_memory_of_the_process_is_limited(load: Any, context: JobContext) -> None:
    tool = await load(GROW, memory=16 << 20)
    task = asyncio.create_task(tool.execute({}, context))

    most = 0
    while not task.done():
        most = max([most, *(_memory(child) for child in _children())])
        await asyncio.sleep(0.005)
    await asyncio.gather(task, return_exceptions=True)

    assert 0 < most < 600 << 20


@pytest.mark.parametrize(("source", "words"), [
    (other.FLOOD, "more than its 1048576 bytes"), (other.command("unreachable"), "unreachable"),
])  # fmt: skip
async def test_floods_and_traps_are_told(
    load: Any, context: JobContext, source: str, words: str
) -> None:
    tool = await load(source)

    with pytest.raises(SandboxError, match=words):
        await tool.execute({}, context)


async def test_components_are_refused(load: Any, context: JobContext) -> None:
    tool = await load(wat.tool())

    with pytest.raises(SandboxError, match="runs WASI commands"):
        await tool.execute({}, context)


@pytest.mark.parametrize("settings", [{"fuel": 1000}, {"stack": 65536}, {"table_elements": 5}])
def test_limits_that_wasmer_cannot_hold_are_refused(settings: dict[str, int]) -> None:
    [name] = settings

    with pytest.raises(ConfigError, match=f"cannot enforce {name}"):
        cattrs.Converter(detailed_validation=False).structure(
            {"tools": {"guest": {"engine": "wasmer"} | settings}}, WasmConfig
        )


async def test_a_missing_library_says_how_to_install_it(
    load: Any, context: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = await load(other.ECHO)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(DomainUnavailable) as caught:
        await tool.execute({}, context)

    assert "hardpoint-wasm[wasmer]" in (caught.value.hint or "")


def _children() -> list[int]:
    """Our running wasmer processes."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1] if command else ""
        except OSError:
            continue
        if b"wasmer_child" in command and int(parent) == os.getpid():
            found.append(int(entry.name))
    return found


def _memory(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096
    except (OSError, IndexError):
        return 0
