"""Run guests: each slot is a worker with an engine of its own, and runs one execution at a time.

The engine's epoch is the slot's stop button: raising it ends the guest in this slot and no other.
Every execution gets a fresh store and instance, so nothing of one call is left for the next. Which
functions a guest sees and which of its exports is called is decided by the slot's `Guest`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from hardpoint.errors import ToolError
from hardpoint_wasm.capture import Streams
from hardpoint_wasm.execution import Execution, Stopped, shared_watchdog
from hardpoint_wasm.hardening import conversion_budget
from hardpoint_wasm.limits import INSTANCES, LIST_ITEMS, MEMORIES, TABLES
from hardpoint_wasm.traps import explain
from hardpoint_wasm.workers import Worker

if TYPE_CHECKING:
    from wasmtime import Engine, Store


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
