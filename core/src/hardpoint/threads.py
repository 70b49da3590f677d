"""Run blocking functions on reused daemon threads, which never keep the process from ending."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio

IDLE_SECONDS: Final = 10.0


class _Job:
    """One function on its way through a thread."""

    __slots__ = ("abandoned", "context", "done", "function", "future", "lock", "loop")

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.function = function
        self.context = contextvars.copy_context()
        self.loop = loop
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.lock = threading.Lock()
        self.done = False
        self.abandoned: Callable[[], None] | None = None

    def run(self) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = self.context.run(self.function)
        except BaseException as caught:  # foreign code; it must reach the waiting coroutine
            error = caught
        with self.lock:
            self.done = True
            abandoned = self.abandoned
        if abandoned is not None:
            abandoned()
            return
        try:
            self.loop.call_soon_threadsafe(self._settle, result, error)
        except RuntimeError:
            pass  # the loop was closed meanwhile; nobody waits any more

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        elif isinstance(error, StopIteration):
            self.future.set_exception(RuntimeError("the function raised StopIteration"))
        else:
            self.future.set_exception(error)


class DaemonThreads:
    """As many threads as there are blocking calls at one time; idle ones are used again."""

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[_Job]] = []
        self._lock = threading.Lock()

    def submit(self, job: _Job) -> None:
        with self._lock:
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue()
            threading.Thread(
                target=self._work, args=(queue,), name="hardpoint-tool", daemon=True
            ).start()
        queue.put(job)

    def _work(self, queue: SimpleQueue[_Job]) -> None:
        while True:
            try:
                job = queue.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if queue in self._idle:
                        self._idle.remove(queue)
                        return
                continue  # taken from the idle list a moment ago: a job is on its way
            job.run()
            del job
            with self._lock:
                self._idle.append(queue)


_threads = DaemonThreads()


def _after_fork() -> None:
    # The child has none of the parent's threads.
    global _threads
    _threads = DaemonThreads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


async def run_blocking(
    function: Callable[[], Any],
    *,
    on_abandon: Callable[[], None] | None = None,
    on_end: Callable[[], None] | None = None,
) -> Any:
    """Run `function` on a thread and wait for it.

    A cancelled wait leaves the thread running, since Python cannot stop one. `on_abandon` is called
    then, and `on_end` when the abandoned function ends after all.
    """
    import asyncio  # only where a loop runs already; listings do without

    job = _Job(function, asyncio.get_running_loop())
    _threads.submit(job)
    try:
        return await job.future
    except asyncio.CancelledError:
        with job.lock:
            left_running = not job.done
            if left_running:
                job.abandoned = on_end or (lambda: None)
        if left_running and on_abandon is not None:
            on_abandon()
        raise
