"""Guests in every language that `hardpoint wasm new` knows, built from source, in the engine."""

from __future__ import annotations

from typing import Any

import pytest
from wasm_guests import builds

from hardpoint import ExecutionFailed, JobContext, SandboxError, ToolTimeout

LANGUAGES = ("c", "rust", "zig", "js", "python")


@pytest.fixture(params=LANGUAGES)
def wasm(request: pytest.FixtureRequest) -> bytes:
    return _guest(request.param)


def _guest(language: str) -> bytes:
    reason = builds.missing(language)
    if reason is not None:
        pytest.skip(reason)
    return builds.guest(language)


@pytest.mark.timeout(600)  # the first build of a language may compile its runtime
async def test_every_language_uses_every_host_function(
    load: Any, context: JobContext, services: Any, capabilities: Any, wasm: bytes
) -> None:
    tool = await load(wasm, capabilities)

    result = (await tool.execute({"op": "tour"}, context)).result

    assert "allow-list" in result.pop("denied")
    assert result == {
        "now": True,
        "document": "hello notes",
        "missing": None,
        "secret": True,
        "no_secret": False,
        "status": 200,
        "answer": "pong",
        "sum": 3,
    }
    assert services.requests[0].headers["x-a"] == "1"
    assert services.calls == [("add", {"a": 1, "b": 2})]


async def test_every_language_is_described_and_gets_its_arguments(
    load: Any, context: JobContext, wasm: bytes
) -> None:
    tool = await load(wasm)

    output = await tool.execute({"op": "echo", "text": "grüße"}, context)

    assert tool.description.startswith("a tool in ")
    assert tool.parameters_schema()["properties"] == {"op": {"type": "string"}}
    assert output.result == {"echo": {"op": "echo", "text": "grüße"}}


async def test_every_language_is_stopped_in_an_endless_loop(
    load: Any, context: JobContext, wasm: bytes
) -> None:
    tool = await load(wasm, timeout=0.5)

    with pytest.raises(ToolTimeout):
        await tool.execute({"op": "loop"}, context)


async def test_every_language_reports_a_crash_and_its_own_errors(
    load: Any, context: JobContext, wasm: bytes
) -> None:
    tool = await load(wasm)

    with pytest.raises(SandboxError, match="guest aborted"):
        await tool.execute({"op": "crash"}, context)
    with pytest.raises(ExecutionFailed, match="told to fail"):
        await tool.execute({"op": "fail"}, context)


async def test_every_language_ends_at_its_memory_limit(
    load: Any, context: JobContext, wasm: bytes
) -> None:
    tool = await load(wasm, memory=32 << 20)

    with pytest.raises((SandboxError, ExecutionFailed)):
        await tool.execute({"op": "memory"}, context)


async def test_a_whole_python_finds_nothing_of_the_machine(load: Any, context: JobContext) -> None:
    tool = await load(_guest("python"))

    found = (await tool.execute({"op": "outside"}, context)).result

    assert found["env"] == {}
    assert found["random"] == 4
    assert found["time"] is True
    for attempt in ("root", "passwd", "write", "connect", "name"):
        assert isinstance(found[attempt], str), found[attempt]
        assert "Error" in found[attempt]


async def test_a_python_guest_sleeps_within_its_time_and_no_longer(
    load: Any, context: JobContext
) -> None:
    tool = await load(_guest("python"), timeout=2.0)

    assert (await tool.execute({"op": "sleep", "seconds": 0.01}, context)).result["slept"] == 0.01
    with pytest.raises(ToolTimeout):
        await tool.execute({"op": "sleep", "seconds": 3600}, context)


async def test_the_error_text_of_a_crashed_python_guest_is_shown(
    load: Any, context: JobContext
) -> None:
    tool = await load(_guest("python"))

    with pytest.raises(SandboxError, match="RuntimeError: told to crash"):
        await tool.execute({"op": "crash"}, context)
