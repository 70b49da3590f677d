"""Threads that run executions: one at a time each, and as many of them as a module may use at once.

What a thread runs is decided by its subclass: a guest in an engine (`slot`), or another process
(`wasmer`). No thread outlives the interpreter: inside the engine it would bring the process down.
"""

from __future__ import annotations

import asyncio
import atexit
import queue
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from hardpoint.errors import SandboxError
from hardpoint_wasm.execution import Execution

ABANDON_AFTER = 1.0
"""Seconds that a cancelled guest has to end before its worker is given up."""


class Worker(ABC):
    """A thread that runs one execution at a time. How it runs one is up to the subclass."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._execution: Execution | None = None
        self._thread: threading.Thread | None = None
        weakref.finalize(self, self._work.put, None)

    @abstractmethod
    def run(self, execution: Execution, request: Any, tool: str = "the tool") -> Any:
        """Run one execution to its end on this thread.

        Raises:
            ToolError: Saying why the guest ended early.
        """

    def submit(self, execution: Execution, request: Any, tool: str) -> asyncio.Future[Any]:
        """Start an execution; the future has its result or one of our errors."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def work() -> None:
            result, error = None, None
            try:
                result = self.run(execution, request, tool)
            # Whatever went wrong belongs to the caller's future; this thread goes on.
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(settle, result, error)
            except RuntimeError:
                pass  # the loop was closed meanwhile: nobody waits any more

        if self._thread is None:
            self._thread = threading.Thread(
                target=_serve, args=(self._work,), name="hardpoint-wasm", daemon=True
            )
            self._thread.start()
            _workers.add(self)
        self._work.put(work)
        return future

    def close(self) -> None:
        """Stop what runs here and end the thread."""
        execution = self._execution
        if execution is not None:
            execution.stop("closed")
        self._work.put(None)

    def join(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)


def _serve(work: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    # Holds the queue and not the worker, so that a forgotten worker can go and end this thread.
    while (job := work.get()) is not None:
        job()
        del job


# A thread inside the engine must not outlive the interpreter: it would bring the process down.
_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    workers = list(_workers)
    for worker in workers:
        worker.close()
    for worker in workers:
        worker.join(2.0)


class Pool:
    """The workers of one module. Safe from several event loops."""

    def __init__(self, make: Callable[[], Worker], most: int) -> None:
        self._make, self._most = make, most
        self._lock = threading.Lock()
        self._free: list[Worker] = []
        self._all: set[Worker] = set()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[Worker]]] = []
        self._closed = False

    async def take(self, *, nested: bool) -> Worker:
        """A worker that is free. Waits for one, unless the call is nested.

        Raises:
            SandboxError: The module was closed.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._closed:
                raise SandboxError("this tool was removed while it was called")
            if self._free:
                return self._free.pop()
            # A nested call must not wait for the worker of its own caller.
            if nested or len(self._all) < self._most:
                worker = self._make()
                self._all.add(worker)
                return worker
            waiter: asyncio.Future[Worker] = loop.create_future()
            self._waiting.append((loop, waiter))
        try:
            return await waiter
        except asyncio.CancelledError:
            with self._lock:
                self._waiting = [entry for entry in self._waiting if entry[1] is not waiter]
            if waiter.done() and not waiter.cancelled():
                self.give_back(waiter.result())
            raise

    def give_back(self, worker: Worker) -> None:
        with self._lock:
            if self._closed or (not self._waiting and len(self._all) > self._most):
                self._all.discard(worker)
                worker.close()
                return
            if not self._waiting:
                self._free.append(worker)
                return
            loop, waiter = self._waiting.pop(0)

        def hand_over() -> None:
            if waiter.cancelled():
                self.give_back(worker)
            else:
                waiter.set_result(worker)

        try:
            loop.call_soon_threadsafe(hand_over)
        except RuntimeError:  # that loop was closed with its caller still waiting
            self.give_back(worker)

    def abandon(self, worker: Worker) -> None:
        """Forget a worker whose guest does not end; another may take its place."""
        with self._lock:
            self._all.discard(worker)
        worker.close()

    @property
    def busy(self) -> int:
        with self._lock:
            return len(self._all) - len(self._free)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            workers, self._free = list(self._all), []
        for worker in workers:
            worker.close()
