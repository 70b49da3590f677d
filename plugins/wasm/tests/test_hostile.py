"""Hostile guests: each ends in a clear error within its limit, while other calls go on."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from wasm_guests import other, wat
from wasm_services import SECRET

from hardpoint import JobContext, SandboxError, ToolError, ToolTimeout

MIB = 1 << 20


def _say() -> tuple[wat.Text, str]:
    text = wat.Text()
    return text, f"(call $log (i32.const 2) {text('x')})"


def _world(body: str, **options: Any) -> str:
    return wat.tool(body, **options)


TEXT, SAY = _say()
GROW = "(loop $x (br_if $x (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable"
RECURSE = "(func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (i32.const 1)))"
TABLE = "(table $t 1 funcref)"
GROW_TABLE = (
    "(loop $x (br_if $x (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))"
    " unreachable"
)
BIG_LOG = (
    "(drop (memory.grow (i32.const 160))) (loop $x (call $log (i32.const 2) (i32.const 262144)"
    " (i32.const 8388608)) (br $x))"
)
BIG_ANSWER = "(drop (memory.grow (i32.const 800))) (global.set $end (i32.const 50000000))"

WORLD = {
    "endless loop": (_world("(loop $x (br $x))"), {"timeout": 0.3}, ToolTimeout, "stopped after"),
    "loop without fuel": (_world("(loop $x (br $x))"), {"fuel": 10_000_000}, SandboxError, "fuel"),
    "endless host calls": (
        _world(f"(loop $x {SAY} (br $x))", text=TEXT), {}, SandboxError, "10000 host calls"
    ),
    "host calls without fuel": (
        _world(f"(loop $x {SAY} (br $x))", text=TEXT),
        {"fuel": 30_000}, SandboxError, "fuel of 30000",
    ),
    "memory bomb": (_world(GROW), {"memory": 4 * MIB}, SandboxError, "aborted"),
    "table bomb": (_world(GROW_TABLE, extra=TABLE), {}, SandboxError, "aborted"),
    "recursion": (
        _world("(drop (call $deep (i32.const 1)))", extra=RECURSE), {}, SandboxError, "stack"
    ),
    "giant strings out": (_world(BIG_LOG), {"timeout": 0.5}, ToolTimeout, "stopped after"),
    "giant answer": (_world(BIG_ANSWER + "(call $put (i32.const 0) (i32.const 1))"), {},
                     SandboxError, "more than"),
    "answer outside the memory": (
        _world("(global.set $end (i32.const 2147483647)) (drop (global.get $out))"
               "(i32.store (i32.const 32) (i32.const 1)) (i32.store (i32.const 36)"
               "(i32.const 4096)) (i32.store (i32.const 40) (i32.const 2147483647))"
               "(i32.store (i32.const 44) (i32.const 0)) (return (i32.const 32))"),
        {}, SandboxError, "outside its memory",
    ),
    "unreachable": (_world("unreachable"), {}, SandboxError, "aborted"),
    "division by zero": (
        _world("(drop (i32.div_u (i32.const 1) (i32.const 0)))"), {}, SandboxError, "divide"
    ),
    "memory out of bounds": (
        _world("(i32.store (i32.const -4) (i32.const 1))"), {}, SandboxError, "does not have"
    ),
    "missing function": (
        _world("(call_indirect $t (i32.const 0))", extra=TABLE), {}, SandboxError, "element"
    ),
    "invalid UTF-8 in a log": (
        _world(f"(call $log (i32.const 2) {TEXT(bytes([255, 254]))})", text=TEXT),
        {}, SandboxError, "UTF-8",
    ),
    "invalid UTF-8 in the answer": (
        _world(f"(call $put {TEXT(bytes([195, 40]))})", text=TEXT), {}, SandboxError, "UTF-8"
    ),
    "text outside the memory": (
        _world("(call $log (i32.const 2) (i32.const -16) (i32.const 256))"),
        {}, SandboxError, "outside its memory",
    ),
    "a level that is none": (
        _world(f"(call $log (i32.const 99) {TEXT('x')})", text=TEXT), {}, SandboxError, "value"
    ),
    "a component that sleeps for an hour": (
        other.sleeper(), {"timeout": 0.3}, ToolTimeout, "stopped after"
    ),
    "a command that sleeps for an hour": (
        other.SLEEP, {"timeout": 0.3}, ToolTimeout, "stopped after"
    ),
    "a gigabyte of output": (other.FLOOD, {}, SandboxError, "more than its 1048576 bytes"),
    "an answer at an odd address": (
        _world("(return (i32.const 33))"), {}, SandboxError, "pointer not aligned"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WORLD)
async def test_a_hostile_tool_ends_in_a_clear_error_while_others_go_on(
    load: Any, context: JobContext, what: str
) -> None:
    source, limits, error, words = WORLD[what]
    # Describing the tool is a call of its own; these guests behave there.
    hostile = await load(source, name="hostile", **limits)

    outcome = await _among_others(load, context, _outcome(hostile, context))

    assert isinstance(outcome, error), outcome
    assert words in outcome.message
    assert outcome.message.startswith("hostile ")


async def _among_others(load: Any, context: JobContext, attack: Coroutine[Any, Any, Any]) -> Any:
    """What comes of an attack while 50 other calls go on, each of which gives what it should."""
    bystander = await load(wat.tool(), name="bystander")
    async with asyncio.TaskGroup() as group:
        others = [group.create_task(bystander.execute({"n": n}, context)) for n in range(50)]
        attacking = group.create_task(attack)
    assert [task.result().result for task in others] == [{"echo": {"n": n}} for n in range(50)]
    assert (await bystander.execute({}, context)).result == {"echo": {}}
    return attacking.result()


async def _outcome(tool: Any, context: JobContext, params: Any = None) -> ToolError | Any:
    try:
        return await tool.execute(params or {"nanoseconds": 3_600_000_000_000}, context)
    except ToolError as error:
        return error


START = (
    "(func $begin (loop $x (br $x))) (start $begin)",
    "(func $begin unreachable) (start $begin)",
)


@pytest.mark.parametrize("start", START)
async def test_a_hostile_start_function_stops_the_installation(
    load: Any, context: JobContext, start: str
) -> None:
    error = await _among_others(load, context, _loading(load, wat.tool(start=start), timeout=0.3))

    assert isinstance(error, ToolTimeout | SandboxError)
    assert "guest" in error.message


async def _loading(load: Any, source: Any, **limits: Any) -> ToolError | Any:
    try:
        return await load(source, **limits)
    except ToolError as error:
        return error


BIG = "x" * (8 * MIB)


@pytest.mark.parametrize("way", ["arguments", "a document", "an answer of a server", "a result"])
async def test_giant_strings_for_the_guest_end_at_its_limits(
    load: Any, context: JobContext, services: Any, capabilities: Any, way: str
) -> None:
    import httpx2

    services.workspace.documents["notes/a.txt"] = BIG[: 4 * MIB]
    services.answer = lambda request: httpx2.Response(200, content=BIG)
    services.tools["add"] = lambda params: BIG
    text = wat.Text()
    none = "(i32.const 0) (i32.const 0) (i32.const 0)"
    url = text("https://api.example.com/v1/x")
    body = {
        "arguments": "",
        "a document": f"(loop $x (call $read {text('notes/a.txt')} (local.get $r)) (br $x))",
        "an answer of a server": f"""(loop $x (call $http {text("GET")} {url} {text("{}")} {none}
            (i32.const 0) (i32.const 0) (local.get $r)) (br $x))""",
        "a result": f"""(loop $x (call $invoke {text("adder")} {text('{"a":1,"b":2}')}
            (local.get $r)) (br $x))""",
    }[way]
    limits = {"timeout": 1.0, "memory": 4 * MIB}
    tool = await load(wat.tool(body, text=text), capabilities, "hostile", **limits)
    params = {"text": BIG} if way == "arguments" else {}

    outcome = await _among_others(load, context, _outcome(tool, context, params))

    assert isinstance(outcome, ToolError), outcome
    assert outcome.message.startswith("hostile ")


@pytest.mark.parametrize("count", [2, 200])
async def test_more_memories_or_instances_than_allowed_are_refused(load: Any, count: int) -> None:
    inner = "(core module $extra (memory 1))" + "".join(
        f"(core instance $x{n} (instantiate $extra))" for n in range(count)
    )

    with pytest.raises(SandboxError, match="more instances, memories or tables"):
        await load(wat.tool(more_imports=inner))


@pytest.mark.parametrize(("source", "words"), [
    (wat.tool(memory="2000"), "more memory to start"),
    (wat.tool(extra="(table 2000000 funcref)"), "larger table"),
])  # fmt: skip
async def test_what_asks_for_too_much_at_the_start_is_refused(
    load: Any, source: str, words: str
) -> None:
    with pytest.raises(SandboxError, match=words):
        await load(source, memory=4 * MIB)


# waiting ---------------------------------------------------------------------------------------


async def test_a_component_can_sleep_within_its_time(load: Any, context: JobContext) -> None:
    tool = await load(other.sleeper("0.2.0"))

    slept = (await tool.execute({"nanoseconds": 2_000_000}, context)).result

    assert slept >= 2_000_000


async def test_a_cancelled_call_ends_its_guest(load: Any, context: JobContext) -> None:
    tool = await load(wat.tool("(loop $x (br $x))"))
    task = asyncio.create_task(tool.execute({}, context))
    await asyncio.sleep(0.05)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    module = await tool.module()
    assert module.busy == 0


async def test_a_request_that_is_never_answered_ends_with_the_call(
    load: Any, context: JobContext, services: Any, capabilities: Any
) -> None:
    async def never(request: Any) -> Any:
        await asyncio.Event().wait()

    services.answer = never
    tool = await load(wat.tour(), capabilities, timeout=0.3)

    outcome = await _outcome(tool, context)

    assert isinstance(outcome, ToolTimeout) or "no complete answer" in str(outcome.result)


# output ----------------------------------------------------------------------------------------


async def test_logs_are_counted_and_cut(load: Any, context: JobContext) -> None:
    text = wat.Text()
    body = f"""(loop $x {f"(call $log (i32.const 2) {text('ä' * 3000)})"}
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $x (i32.lt_u (local.get $i) (i32.const 1500))))"""
    tool = await load(wat.tool(body, text=text))

    output = await tool.execute({}, context)

    assert output.meta["wasm"]["logs"] == 1500


# host functions that fail ----------------------------------------------------------------------


class _Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError("x"), KeyError(1), _Odd(), KeyboardInterrupt()])
async def test_a_host_function_that_raises_stops_the_guest_and_leaks_nothing(
    load: Any, context: JobContext, services: Any, capabilities: Any, error: BaseException
) -> None:
    def fail(text: str) -> str:
        raise error

    services.leaks.redact = fail
    tool = await load(wat.tour(), capabilities)

    outcome = await _among_others(load, context, _outcome(tool, context))

    assert isinstance(outcome, SandboxError)
    assert "a function of its host failed" in outcome.message


# secrets ---------------------------------------------------------------------------------------


async def test_a_guest_that_searches_its_whole_memory_never_finds_a_secret(
    load: Any, context: JobContext, services: Any, capabilities: Any
) -> None:
    """The server sends the credential back in every place, and the guest asks in every way."""
    import httpx2

    def echo(request: httpx2.Request) -> httpx2.Response:
        assert SECRET in request.headers["authorization"]
        return httpx2.Response(
            200, headers={"x-echo": SECRET}, content=f"{SECRET} {request.headers}"
        )

    services.answer = echo
    services.workspace.documents["notes/a.txt"] = f"the key is {SECRET}"
    services.tools["add"] = lambda params: SECRET
    text = wat.Text()
    none = "(i32.const 0) (i32.const 0) (i32.const 0)"
    url = text("https://api.example.com/v1/x?key={API_KEY}")
    needle = int.from_bytes(SECRET[-8:].encode(), "little")
    body = f"""
      (call $http {text("GET")} {url} {text('{"x":"{API_KEY}"}')} {none}
        (i32.const 0) (i32.const 0) (local.get $r))
      (call $read {text("notes/a.txt")} (local.get $r))
      (call $read {text("../secrets.json")} (local.get $r))
      (call $invoke {text("adder")} {text('{"a":1,"b":2}')} (local.get $r))
      (call $invoke {text("secret_list")} {text("{}")} (local.get $r))
      (drop (call $secret {text("api_key")}))
      (loop $x
        (if (i64.eq (i64.load (local.get $i)) (i64.const {needle})) (then unreachable))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $x (i32.lt_u (local.get $i)
          (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 8)))))
      (call $put {text("nothing found")})"""
    tool = await load(wat.tool(body, text=text), capabilities)

    outcome = await _among_others(load, context, _outcome(tool, context))

    assert outcome.result == "nothing found"
    assert len(services.requests) == 1
    assert [name for name, _ in services.calls] == ["add"]


async def test_the_search_would_find_what_is_in_the_memory(load: Any, context: JobContext) -> None:
    """The test above can fail: the same search finds what the guest itself holds."""
    text = wat.Text()
    text(SECRET)
    needle = int.from_bytes(SECRET[-8:].encode(), "little")
    body = f"""(loop $x
        (if (i64.eq (i64.load (local.get $i)) (i64.const {needle})) (then unreachable))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $x (i32.lt_u (local.get $i) (i32.const 131064))))"""

    outcome = await _outcome(await load(wat.tool(body, text=text)), context)

    assert isinstance(outcome, SandboxError)


# modules that are none -------------------------------------------------------------------------

BROKEN = {
    "nothing": b"",
    "text": b"(module)",
    "noise": bytes(range(256)),
    "header only": b"\0asm\1\0\0\0",
    "component header only": b"\0asm\x0d\0\1\0",
    "another version": b"\0asm\2\0\0\0",
    "cut": b"\0asm\1\0\0\0\1\x7f",
    "giant section": b"\0asm\1\0\0\0\1\xff\xff\xff\xff\x0f",
    "elf": b"\x7fELF" + bytes(60),
    "compiled code": struct.pack("<Q", 0x464C457F) * 10,
}


@pytest.mark.parametrize("what", BROKEN)
async def test_what_is_no_tool_is_refused(load: Any, context: JobContext, what: str) -> None:
    error = await _among_others(load, context, _loading(load, BROKEN[what]))

    assert isinstance(error, SandboxError)


@pytest.mark.parametrize(
    "name", ["wasi:http/outgoing-handler@0.2.0", "evil:pkg/x@1.0.0", "wasi:sockets/tcp@9.0.0"]
)
async def test_a_module_that_imports_what_no_tool_gets_is_refused_by_name(
    load: Any, context: JobContext, name: str
) -> None:
    source = wat.tool(more_imports=f'(import "{name}" (instance))')

    error = await _among_others(load, context, _loading(load, source))

    assert isinstance(error, SandboxError)
    assert name in error.message


async def test_a_module_above_the_size_limit_is_refused_unread(load: Any) -> None:
    with pytest.raises(SandboxError, match="at most"):
        await load(b"\0asm\1\0\0\0" + bytes(65 << 20))


# the end of the process ------------------------------------------------------------------------

PROGRAM = """
import asyncio, pathlib, sys
sys.path.insert(0, {tests!r})
import wasmtime
from wasm_guests import other, wat
from hardpoint import JobContext
from hardpoint_wasm import WasmRuntime, WasmTool

async def main():
    runtime, context = WasmRuntime(pathlib.Path({cache!r})), JobContext(user_id="x")
    for source in (wat.tool("(loop $x (br $x))"), other.SLEEP, other.FLOOD):
        wasm = bytes(wasmtime.wat2wasm(source))
        tool = await WasmTool.load(wasm, "guest", runtime=runtime)
        asyncio.ensure_future(tool.execute({{}}, context))
    await asyncio.sleep(0.1)

asyncio.new_event_loop().run_until_complete(main())
print("left")
"""


@pytest.mark.parametrize("attempt", range(3))
def test_a_process_ends_in_peace_while_guests_still_run(cache_dir: Path, attempt: int) -> None:
    program = PROGRAM.format(tests=str(Path(__file__).parent), cache=str(cache_dir))

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr
    assert "panic" not in done.stderr
