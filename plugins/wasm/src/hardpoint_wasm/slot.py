"""Run guests: each slot has an engine and a thread of its own, and runs one execution at a time.

The engine's epoch is the slot's stop button: raising it ends the guest in this slot and no other.
Every execution gets a fresh store and instance, so nothing of one call is left for the next. Which
functions a guest sees and which of its exports is called is decided by the slot's `Guest`.
"""

from __future__ import annotations

import asyncio
import atexit
import queue
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from hardpoint.errors import ToolError
from hardpoint_wasm.capture import Streams
from hardpoint_wasm.execution import Execution, Stopped, shared_watchdog
from hardpoint_wasm.hardening import conversion_budget
from hardpoint_wasm.limits import INSTANCES, LIST_ITEMS, MEMORIES, TABLES
from hardpoint_wasm.traps import explain

if TYPE_CHECKING:
    from wasmtime import Engine, Store

ABANDON_AFTER = 1.0
"""Seconds that a cancelled or timed-out guest has to end before its slot is given up."""


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


class Guest(Protocol):
    """Code loaded into the engine of one slot."""

    wasi: bool
    """Whether it uses WASI at all; what does not needs no streams."""
    stdout_bytes: int
    """How much of standard output is kept; 0 throws it away."""

    def call(self, store: Store, request: Any) -> Any:
        """Make an instance in this store and call it."""
        ...


class Slot(Worker):
    """One engine with its code, and the thread that runs it."""

    def __init__(self, load: Callable[[Callable[[], Execution]], tuple[Engine, Guest]]) -> None:
        super().__init__()
        self._load = load
        self._loaded: tuple[Engine, Guest] | None = None

    def _current(self) -> Execution:
        assert self._execution is not None, "host functions run only inside an execution"
        return self._execution

    def run(self, execution: Execution, request: Any, tool: str = "the tool") -> Any:
        self._execution = execution
        streams = None
        try:
            if self._loaded is None:
                self._loaded = self._load(self._current)
            engine, guest = self._loaded
            if guest.wasi:
                streams = Streams(guest.stdout_bytes, execution.limits.stderr_bytes)
            answer = self._call(engine, guest, execution, request, streams)
            if streams is None:
                return answer
            execution.stderr = streams.stderr()
            return (answer, *streams.stdout()) if guest.stdout_bytes else answer
        except ToolError:
            raise
        # The engine raises its errors and traps, host functions end in any of them.
        except (Exception, Stopped) as error:
            if streams is not None:
                execution.stderr = streams.stderr()
            raise explain(error, execution, tool) from error
        finally:
            if streams is not None:
                streams.close()
            self._execution = None

    def _call(
        self,
        engine: Engine,
        guest: Guest,
        execution: Execution,
        request: Any,
        streams: Streams | None,
    ) -> Any:
        from wasmtime import Store

        limits, watchdog = execution.limits, shared_watchdog()
        with Store(engine) as store:
            if streams is not None:
                streams.attach(store, request)
            store.set_limits(
                memory_size=limits.memory,
                table_elements=limits.table_elements,
                instances=INSTANCES,
                tables=TABLES,
                memories=MEMORIES,
            )
            if limits.fuel is not None:
                store.set_fuel(limits.fuel)
            # Before the execution can be stopped: a stop raises the epoch by one.
            store.set_epoch_deadline(1)
            with execution.interruptible(engine.increment_epoch):
                watchdog.watch(execution)
                try:
                    with conversion_budget(LIST_ITEMS):
                        answer = guest.call(store, request)
                finally:
                    watchdog.release(execution)
        if execution.reason is not None:
            raise Stopped(execution.reason)
        return answer


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
