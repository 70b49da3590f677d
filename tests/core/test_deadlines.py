"""Work that ends, or is ended, at its time-out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from hardpoint import ExecutionFailed, ToolTimeout
from hardpoint.deadlines import within

LONG = timedelta(seconds=30)
SHORT = timedelta(seconds=0.02)


async def forever() -> None:
    await asyncio.Event().wait()


async def test_work_that_never_waits_gives_its_value_at_once() -> None:
    async def value() -> int:
        return 5

    before = asyncio.all_tasks()
    assert await within(LONG, value()) == 5
    assert asyncio.all_tasks() == before


async def test_work_that_waits_gives_its_value() -> None:
    async def value() -> int:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return 5

    assert await within(LONG, value()) == 5


@pytest.mark.parametrize("waits", [0, 1])
async def test_what_the_work_raises_comes_out(waits: int) -> None:
    async def failing() -> None:
        for _ in range(waits):
            await asyncio.sleep(0)
        raise KeyError("x")

    with pytest.raises(KeyError):
        await within(LONG, failing())


async def test_work_that_takes_too_long_is_cancelled() -> None:
    seen: list[str] = []

    async def slow() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("cleaned up")
            raise

    with pytest.raises(ToolTimeout) as caught:
        await within(SHORT, slow())

    assert caught.value.timeout == SHORT
    assert seen == ["cancelled", "cleaned up"]


async def test_a_value_that_comes_while_stopping_is_a_value() -> None:
    async def late() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            return "saved"
        return "never"

    assert await within(SHORT, late()) == "saved"


async def test_the_works_own_time_out_is_the_one_that_is_told() -> None:
    async def killed() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            raise ToolTimeout(SHORT, partial="so far") from None

    with pytest.raises(ToolTimeout) as caught:
        await within(SHORT, killed())

    assert caught.value.partial == "so far"


async def ignores_cancellation() -> None:
    while True:
        try:
            await forever()
        except asyncio.CancelledError:
            continue


async def ignores_everything() -> None:
    while True:
        try:
            await forever()
        except BaseException:
            continue


Work = Callable[[], Coroutine[Any, Any, None]]


@pytest.mark.parametrize("work", [ignores_cancellation, ignores_everything])
@pytest.mark.filterwarnings("ignore:.*coroutine ignored GeneratorExit")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_work_that_does_not_end_is_closed_and_the_caller_goes_on(work: Work) -> None:
    with pytest.raises(ToolTimeout):
        await within(SHORT, work())

    await asyncio.sleep(0)  # the caller's own task is not left cancelled


async def test_the_caller_can_be_cancelled() -> None:
    seen: list[str] = []
    started = asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await forever()
        finally:
            seen.append("ended")

    task = asyncio.create_task(_wrapped(LONG, slow()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert seen == ["ended"]
    assert task.cancelled()


async def _wrapped(timeout: timedelta, work: Coroutine[Any, Any, Any]) -> Any:
    return await within(timeout, work)


async def test_work_cannot_swallow_the_cancellation_of_its_caller() -> None:
    started = asyncio.Event()

    async def swallow() -> str:
        started.set()
        try:
            await forever()
        except asyncio.CancelledError:
            return "nothing happened"
        return ""

    task = asyncio.create_task(_wrapped(LONG, swallow()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_ignores_its_callers_cancellation_is_closed() -> None:
    task = asyncio.create_task(_wrapped(LONG, ignores_cancellation()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_outer_time_out_stays_the_outer_one() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await within(LONG, forever())

    with pytest.raises(ToolTimeout):
        async with asyncio.timeout(30):
            await within(SHORT, forever())


async def test_time_outs_and_groups_inside_the_work_are_its_own() -> None:
    async def inner() -> str:
        try:
            async with asyncio.timeout(0.01):
                await forever()
        except TimeoutError:
            pass
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0, n)) for n in range(3)]
        return str([task.result() for task in tasks])

    assert await within(LONG, inner()) == "[0, 1, 2]"


async def test_a_group_inside_the_work_ends_at_the_time_out() -> None:
    ended: list[int] = []

    async def child(number: int) -> None:
        try:
            await forever()
        finally:
            ended.append(number)

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(3):
                tasks.create_task(child(number))

    with pytest.raises(ToolTimeout):
        await within(SHORT, group())

    assert sorted(ended) == [0, 1, 2]


@pytest.mark.parametrize("waits", [0, 1])
async def test_work_that_cancels_itself_is_a_failure_not_a_cancellation(waits: int) -> None:
    async def hostile() -> None:
        for _ in range(waits):
            await asyncio.sleep(0)
        raise asyncio.CancelledError

    with pytest.raises(ExecutionFailed):
        await within(LONG, hostile())


async def test_waiting_for_a_person_does_not_count() -> None:
    async def work() -> str:
        await asyncio.sleep(0.1)
        return "done"

    assert await within(SHORT, work(), paused=lambda: 10.0) == "done"


async def test_work_that_ends_itself_gets_a_little_longer() -> None:
    async def work() -> str:
        await asyncio.sleep(0.06)
        return "done"

    assert await within(SHORT, work(), grace=10.0) == "done"


async def test_many_at_once_end_at_their_own_time_outs() -> None:
    async def one(number: int) -> str:
        try:
            await within(SHORT if number % 2 else LONG, asyncio.sleep(0.1 if number % 2 else 0))
        except ToolTimeout:
            return "timed out"
        return "done"

    ends = await asyncio.gather(*(one(number) for number in range(200)))

    assert ends == ["done", "timed out"] * 100


def test_a_caller_that_is_closed_closes_the_work() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await forever()
        finally:
            seen.append("closed")

    async def main() -> None:
        caller = _wrapped(LONG, work())
        caller.send(None)
        caller.close()

    asyncio.run(main())

    assert seen == ["closed"]
