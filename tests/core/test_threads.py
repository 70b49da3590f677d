"""Blocking functions on threads of our own."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hardpoint.threads import run_blocking


async def test_the_value_comes_back() -> None:
    assert await run_blocking(lambda: 5) == 5


@pytest.mark.parametrize("error", [ValueError("x"), StopIteration(5), KeyboardInterrupt()])
async def test_what_is_raised_comes_back(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises((ValueError, RuntimeError, KeyboardInterrupt)):
        await run_blocking(fail)


async def test_the_loop_goes_on_meanwhile() -> None:
    release = threading.Event()

    waiting = asyncio.create_task(run_blocking(release.wait))
    await asyncio.sleep(0)
    release.set()

    assert await waiting


async def test_threads_are_used_again_and_grow_with_what_blocks() -> None:
    threads = {await run_blocking(threading.get_ident) for _ in range(20)}
    barrier = threading.Barrier(10, timeout=30)

    await asyncio.gather(*(run_blocking(barrier.wait) for _ in range(10)))

    assert len(threads) <= 3


async def test_context_variables_are_those_of_the_caller() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("v", default="outside")
    variable.set("mine")

    assert await run_blocking(variable.get) == "mine"


async def test_an_abandoned_function_tells_when_it_ends() -> None:
    release = threading.Event()
    told: list[str] = []
    ended = threading.Event()

    def end() -> None:
        told.append("ended")
        ended.set()

    waiting = asyncio.create_task(
        run_blocking(release.wait, on_abandon=lambda: told.append("abandoned"), on_end=end)
    )
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    before = list(told)
    release.set()
    assert ended.wait(30)

    assert before == ["abandoned"]
    assert told == ["abandoned", "ended"]


def test_a_loop_that_was_closed_meanwhile_is_no_error() -> None:
    release, started, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        release.wait()

    async def main() -> None:
        task = asyncio.create_task(run_blocking(work, on_end=done.set))
        while not started.is_set():
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(main())
    release.set()

    assert done.wait(30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_threads_of_its_own(tmp_path: Path) -> None:
    code = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore")
from hardpoint.threads import run_blocking
asyncio.run(run_blocking(lambda: None))
child = os.fork()
if child == 0:
    print(asyncio.run(run_blocking(lambda: "in the child")), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.stdout == "in the child\n"
