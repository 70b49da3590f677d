"""Many threads, and many broken modules. A tenth of it in CI; all of it with HARDPOINT_SOAK=1."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
import threading
from typing import Any

import pytest
import wasmtime
from wasm_guests import other, wat
from wasm_services import CAPABILITIES, Services

from hardpoint import HardpointError, JobContext
from hardpoint.interfaces import CallHandle
from hardpoint_wasm.limits import Limits
from hardpoint_wasm.runtime import WasmRuntime
from hardpoint_wasm.tool import WasmTool

SHARE = 1.0 if os.environ.get("HARDPOINT_SOAK") else 0.1
THREADS, CALLS, MUTATIONS = 16, int(5000 * SHARE), int(10_000 * SHARE)


# threads ---------------------------------------------------------------------------------------


@pytest.mark.timeout(3600)
async def test_sixteen_threads_get_every_result_and_only_their_own(
    load: Any,
) -> None:
    echo = await load(wat.tool(), name="echo")
    plenty = {"requests_per_minute": 10**6, "requests_per_hour": 10**6}
    asked = {**CAPABILITIES}
    asked["http"] = {**asked["http"], "rate_limit": plenty}
    asked["tool_invoke"] = {**asked["tool_invoke"], "rate_limit": plenty}
    tour = await load(wat.tour(), asked, name="tour")
    crash = await load(wat.tool("unreachable"), name="crash")
    wrong: list[Any] = []

    async def work(number: int) -> None:
        services = Services()
        services.tools["add"] = lambda params: number
        context = JobContext(user_id=f"user{number}").bound(CallHandle("c", services))
        for call in range(CALLS):
            if call % 10 == 0:
                answer = (await tour.execute({}, context)).result
                if (answer["sum"], answer["answer"]) != (number, "pong"):
                    wrong.append(answer)
            elif call % 10 == 1:
                try:
                    await crash.execute({}, context)
                    wrong.append("a crash went unnoticed")
                except HardpointError as error:
                    if "crash aborted" not in error.message:
                        wrong.append(error)
            else:
                sent = {"thread": number, "call": call, "text": "x" * (call % 50)}
                answer = (await echo.execute(sent, context)).result
                if answer != {"echo": sent}:
                    wrong.append((sent, answer))

    def run(number: int) -> None:
        try:
            asyncio.run(work(number))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            await asyncio.sleep(0.05)
    finally:
        sys.setswitchinterval(switch)

    assert wrong == []


async def test_thousands_of_calls_leave_nothing_behind(load: Any, context: JobContext) -> None:
    tool = await load(wat.tool(), name="echo")
    crash = await load(wat.tool("unreachable"), name="crash")

    async def calls(count: int) -> None:
        for number in range(count):
            await tool.execute({"n": number}, context)
            with pytest.raises(HardpointError):
                await crash.execute({}, context)

    await calls(200)
    files, memory = len(os.listdir("/proc/self/fd")), _memory()
    await calls(1000)

    assert len(os.listdir("/proc/self/fd")) <= files + 2
    assert _memory() - memory < 30 << 20


def _memory() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


# broken modules --------------------------------------------------------------------------------


def _mutations(seed: int, count: int) -> list[bytes]:
    """Valid modules, each damaged a little."""
    chance = random.Random(seed)
    sources = (
        wat.tour(), wat.tour("0.4.1"), wat.tool(), other.ECHO, other.sleeper(), other.NAP,
    )  # fmt: skip
    valid = [bytes(wasmtime.wat2wasm(source)) for source in sources]
    made = []
    for _ in range(count):
        wasm = bytearray(chance.choice(valid))
        for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
            at = chance.randrange(len(wasm))
            match chance.randrange(5):
                case 0:
                    wasm[at] ^= 1 << chance.randrange(8)
                case 1:
                    wasm[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
                case 2:
                    del wasm[at : at + chance.randrange(1, 16)]
                case 3:
                    wasm[at:at] = chance.randbytes(chance.randrange(1, 16))
                case 4:
                    length = chance.randrange(1, 32)
                    other_at = chance.randrange(len(wasm))
                    wasm[at : at + length] = wasm[other_at : other_at + length]
            if not wasm:
                wasm = bytearray(b"\0")
        made.append(bytes(wasm))
    return made


@pytest.mark.timeout(3600)
async def test_damaged_modules_end_in_errors_and_never_in_a_crash(
    tmp_path: Any, context: JobContext
) -> None:
    runtime = WasmRuntime(tmp_path, limits=Limits(timeout=0.5, memory=16 << 20), compile_timeout=20)
    loaded = refused = 0

    for wasm in _mutations(20_261_130, MUTATIONS):
        try:
            tool = await WasmTool.load(wasm, "damaged", runtime=runtime)
            loaded += 1
            await tool.execute({"op": "x"}, context)
        except HardpointError:
            refused += 1
        if len(runtime._modules) > 50:
            runtime.close()

    runtime.close()
    assert refused > MUTATIONS // 4
    assert loaded > MUTATIONS // 50
