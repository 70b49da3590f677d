"""End work at its time-out. How long it may take is decided elsewhere.

The work runs in its caller's task: what never waits costs nothing here, since nothing could stop
it anyway. At the time-out it is cancelled like any coroutine. What ignores that for a second is
closed: it is never resumed, and the caller goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Callable, Coroutine, Generator
from datetime import timedelta
from typing import Any, Final, TypeVar

from hardpoint.errors import ExecutionFailed, ToolTimeout

T = TypeVar("T")

ABANDON_AFTER: Final = 1.0
"""Seconds that cancelled work may take to end before it is closed."""


@types.coroutine
def within(
    timeout: timedelta,
    work: Coroutine[Any, Any, T],
    *,
    grace: float = 0.0,
    paused: Callable[[], float] | None = None,
) -> Generator[Any, Any, T]:
    """Run the work for at most `timeout`.

    Args:
        timeout: How long it may take.
        work: A coroutine that nobody awaits yet.
        grace: Seconds more for work that ends itself at the time-out.
        paused: Seconds so far that do not count; they may grow while the work runs.

    Raises:
        ToolTimeout: It took longer.
        CancelledError: The caller was cancelled.
        ExecutionFailed: The work says that it was cancelled, and nobody did that.
    """
    task = asyncio.current_task()
    assert task is not None
    # Counted before the first step: a signal may cancel the caller while that step runs.
    cancelled_before = task.cancelling()
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    except asyncio.CancelledError as error:
        if task.cancelling() > cancelled_before:
            raise
        raise _cancelled_itself() from error
    watch = _Watch(task, cancelled_before, timeout.total_seconds() + grace, paused)
    failure: BaseException | None = None
    try:
        while not watch.abandoned:
            try:
                sent = yield waits_for
            except GeneratorExit:  # the caller itself is being closed
                work.close()
                raise
            except BaseException as error:
                if not watch.abandoned:
                    watch.hurry()
                    waits_for = work.throw(error)
            else:
                waits_for = work.send(sent)
        _close(work)
    except StopIteration as done:
        result = done.value
    except Exception as error:
        failure = error
    except asyncio.CancelledError as error:
        failure = error
    finally:
        watch.end()
    if watch.caller_is_cancelled:
        raise failure if isinstance(failure, asyncio.CancelledError) else asyncio.CancelledError
    if failure is None and not watch.abandoned:
        return result  # also when it ended while it was being stopped
    if watch.timed_out and not isinstance(failure, ToolTimeout):
        raise ToolTimeout(timeout) from failure
    if isinstance(failure, asyncio.CancelledError):
        raise _cancelled_itself() from failure
    assert failure is not None
    raise failure


class _Watch:
    """Cancels the current task when its time is up, and takes that back in the end."""

    def __init__(
        self,
        task: asyncio.Task[Any],
        cancelled_before: int,
        seconds: float,
        paused: Callable[[], float] | None,
    ) -> None:
        self._task = task
        self._before = cancelled_before
        self._requests = 0
        self._paused = paused
        self._granted = 0.0
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._stop)
        self._hurried = False
        self.timed_out = False
        self.abandoned = False
        self.caller_is_cancelled = False

    def hurry(self) -> None:
        """The work was told to end, by whomever; from now on it has a second."""
        if not self._hurried:
            self._hurried = True
            self._timer.cancel()
            self._timer = self._loop.call_later(ABANDON_AFTER, self._abandon)

    def end(self) -> None:
        self._timer.cancel()
        for _ in range(self._requests):
            self._task.uncancel()
        self.caller_is_cancelled = self._task.cancelling() > self._before

    def _stop(self) -> None:
        extra = self._paused() if self._paused is not None else 0.0
        if extra > self._granted:
            self._timer = self._loop.call_later(extra - self._granted, self._stop)
            self._granted = extra
            return
        self.timed_out = True
        self._cancel()

    def _abandon(self) -> None:
        self.abandoned = True
        self._cancel()

    def _cancel(self) -> None:
        self._requests += 1
        self._task.cancel()


def _close(work: Coroutine[Any, Any, Any]) -> None:
    """End work that goes on although it was cancelled; what it still awaits is left alone."""
    with contextlib.suppress(Exception):  # it is foreign code, to the last
        work.close()


def _cancelled_itself() -> ExecutionFailed:
    return ExecutionFailed("it says that it was cancelled, and nobody cancelled it")
