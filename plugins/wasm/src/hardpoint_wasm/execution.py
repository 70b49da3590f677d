"""One run of a tool: its deadline, its budget of host calls, and the reason why it was stopped.

An execution knows nothing of engines. `slot` runs it and lends it a way to interrupt the guest;
host functions wait through it, so that whatever a guest waits for ends when its time is up.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from hardpoint_wasm.limits import Limits

Reason = Literal["timeout", "cancelled", "host_calls", "closed"]
T = TypeVar("T")


class Stopped(Exception):
    """The execution was stopped; whatever it was doing is over."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class Execution:
    """One run of one tool. Made on the event loop's thread, used on a slot's thread."""

    def __init__(
        self,
        limits: Limits,
        host: Any = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        deadline: float | None = None,
    ) -> None:
        self.limits = limits
        self.host = host
        self.reason: Reason | None = None
        self.stderr = b""
        self.fault: BaseException | None = None
        """What a host function raised though it must not; a bug of ours or of the core's."""
        self.deadline = time.monotonic() + limits.timeout
        """Monotonic seconds."""
        if deadline is not None:
            self.deadline = min(self.deadline, deadline)
        self._loop = loop
        self._calls_left = limits.host_calls
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._interrupts: list[Callable[[], object]] = []

    def stop(self, reason: Reason) -> None:
        """End it as soon as the guest can be interrupted; the first reason is kept."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            interrupts = list(self._interrupts)
        self._ended.set()
        for interrupt in interrupts:
            interrupt()

    @contextmanager
    def interruptible(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Call `interrupt`, from any thread, when the execution is stopped inside the block.

        Raises:
            Stopped: It already is stopped.
        """
        with self._lock:
            if self.reason is not None:
                raise Stopped(self.reason)
            self._interrupts.append(interrupt)
        try:
            yield
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)

    # for host functions, on the slot's thread

    def count_host_call(self) -> None:
        """Use up one host call.

        Raises:
            Stopped: The budget is used up, or the execution was stopped before.
        """
        self._calls_left -= 1
        if self._calls_left < 0:
            self.stop("host_calls")
        if self.reason is not None:
            raise Stopped(self.reason)

    def sleep(self, seconds: float) -> None:
        """Wait, but not past the end of the execution.

        Raises:
            Stopped: The execution ended first.
        """
        if self._ended.wait(min(seconds, threading.TIMEOUT_MAX)):
            assert self.reason is not None
            raise Stopped(self.reason)

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the call and wait for it.

        Raises:
            Stopped: The execution ended first; the coroutine was cancelled.
        """
        if self._loop is None:
            work.close()
            raise RuntimeError("this execution has no event loop")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        with self.interruptible(future.cancel):
            try:
                return future.result()
            except CancelledError:
                raise Stopped(self.reason or "cancelled") from None

    @contextmanager
    def clock_paused(self) -> Iterator[None]:
        """Do not count the time inside the block: a nested call has limits of its own."""
        started, watchdog = time.monotonic(), shared_watchdog()
        watchdog.release(self)
        try:
            yield
        finally:
            self.deadline += time.monotonic() - started
            watchdog.watch(self)


# deadlines -------------------------------------------------------------------------------------


class Watchdog:
    """Stops executions at their deadlines, from one thread that depends on no event loop."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: set[Execution] = set()
        self._wakes_at: float | None = None
        self._thread: threading.Thread | None = None

    def watch(self, execution: Execution) -> None:
        with self._changed:
            self._watched.add(execution)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="hardpoint-wasm-watchdog", daemon=True
                )
                self._thread.start()
            if self._wakes_at is None or execution.deadline < self._wakes_at:
                self._changed.notify()

    def release(self, execution: Execution) -> None:
        with self._changed:
            self._watched.discard(execution)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for execution in [e for e in self._watched if e.deadline <= now]:
                    self._watched.discard(execution)
                    execution.stop("timeout")
                self._wakes_at = min((e.deadline for e in self._watched), default=None)
                self._changed.wait(None if self._wakes_at is None else self._wakes_at - now)


_watchdog: Watchdog | None = None
_watchdog_lock = threading.Lock()


def shared_watchdog() -> Watchdog:
    global _watchdog
    with _watchdog_lock:
        if _watchdog is None:
            _watchdog = Watchdog()
        return _watchdog
