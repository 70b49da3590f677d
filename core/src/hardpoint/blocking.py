"""A runtime for code without an event loop: the loop runs on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Protocol, Self, TypeVar

from hardpoint.calls import CallOutcome
from hardpoint.config import Config
from hardpoint.context import JobContext
from hardpoint.errors import HardpointError
from hardpoint.parts import ToolOutput

T = TypeVar("T")


class AsyncRuntime(Protocol):
    """What is needed of a `Runtime`."""

    async def __aenter__(self) -> Any: ...

    async def aclose(self) -> None: ...

    async def call(self, tool: Any, params: Any, context: Any) -> ToolOutput: ...

    async def run(self, tool: Any, params: Any, context: Any) -> CallOutcome: ...

    async def handle(self, provider: str, tool_calls: Any, context: Any) -> list[Any]: ...

    async def reload(self, config: Config | None = None) -> None: ...

    def stream(self, tool: Any, params: Any, context: Any) -> AsyncGenerator[Any, None]: ...


class SyncRuntime:
    """The verbs of a `Runtime` as plain calls. Safe to use from several threads."""

    def __init__(self, make: Callable[[], AsyncRuntime]) -> None:
        self._make = make
        self._runtime: AsyncRuntime | None = None

    @property
    def runtime(self) -> Any:
        """The `Runtime` behind it, for everything that never waits."""
        return self._running

    @property
    def _running(self) -> AsyncRuntime:
        if self._runtime is None:
            raise HardpointError("not open yet: use `with Runtime.sync() as rt:`")
        return self._runtime

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="hardpoint-runtime", daemon=True
        )
        self._thread.start()
        try:
            self._runtime = self._wait(self._open())
        except BaseException:
            self._end_loop()
            raise
        return self

    def __exit__(self, *exc_info: Any) -> None:
        try:
            self._wait(self._running.aclose())
        finally:
            self._end_loop()

    def call(self, tool: str, params: Any = None, context: JobContext | None = None) -> ToolOutput:
        """As `Runtime.call`."""
        return self._wait(self._running.call(tool, params, context))

    def run(self, tool: str, params: Any = None, context: JobContext | None = None) -> CallOutcome:
        """As `Runtime.run`."""
        return self._wait(self._running.run(tool, params, context))

    def handle(self, provider: str, tool_calls: Any, context: JobContext) -> list[Any]:
        """As `Runtime.handle`."""
        return self._wait(self._running.handle(provider, tool_calls, context))

    def reload(self, config: Config | None = None) -> None:
        """As `Runtime.reload`."""
        self._wait(self._running.reload(config))

    def stream(
        self, tool: str, params: Any = None, context: JobContext | None = None
    ) -> Iterator[Any]:
        """As `Runtime.stream`."""
        events = self._running.stream(tool, params, context)
        try:
            while True:
                try:
                    yield self._wait(anext(events))
                except StopAsyncIteration:
                    return
        finally:
            self._wait(events.aclose())

    def __getattr__(self, name: str) -> Any:
        # registry, definitions, plugins, usage: nothing of them waits.
        return getattr(self.runtime, name)

    async def _open(self) -> AsyncRuntime:
        runtime = self._make()
        await runtime.__aenter__()
        return runtime

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
