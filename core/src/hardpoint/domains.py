"""Run an approved call until its time-out. Which domain a tool belongs to, the tool says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from hardpoint.errors import ExecutionFailed, ToolTimeout
from hardpoint.interfaces import ExecutionDomain, Invocation
from hardpoint.parts import ToolOutput

logger = logging.getLogger(__name__)

ABANDON_AFTER: Final = 1.0
"""Seconds that a cancelled tool may take to end before it is left alone."""
KILL_GRACE: Final = 5.0
"""Seconds beyond the time-out in which a killable domain must have ended the work itself."""
MAX_ABANDONED: Final = 8
"""Runs of one tool that may be left running; beyond it the tool is refused."""


class OrchestratorDomain(ExecutionDomain):
    """This process. It contains nothing: what runs here is trusted code."""

    async def run(self, invocation: Invocation) -> ToolOutput:
        return await invocation.tool.execute(invocation.params, invocation.context)

    def explain(self) -> Mapping[str, Any]:
        return {"contains": "nothing; plugin code runs with the rights of this process"}


class Deadlines:
    """Ends calls at their time-out and keeps count of those that would not end."""

    def __init__(self) -> None:
        self._left_running: dict[str, set[asyncio.Future[Any]]] = {}

    def abandoned(self, name: str, tool: Any) -> int:
        """How many timed-out runs of a tool are still going."""
        return len(self._left_running.get(name, ())) + getattr(tool, "abandoned_runs", 0)

    def refuse_runaway(self, name: str, tool: Any) -> None:
        """Refuse a tool that does not stop.

        Raises:
            ExecutionFailed: Too many runs were left running.
        """
        running = self.abandoned(name, tool)
        if running > MAX_ABANDONED:
            raise ExecutionFailed(
                f"{name!r} is refused: {running} timed-out runs are still going",
                hint="wait until they end, or move the tool to a domain that can stop its work",
            )

    async def within(
        self,
        timeout: timedelta,
        name: str,
        tool: Any,
        work: Awaitable[ToolOutput],
        *,
        killable: bool = False,
        paused: Callable[[], float] | None = None,
    ) -> ToolOutput:
        """Await the work for at most `timeout`.

        Args:
            timeout: How long it may take.
            name: The tool's registered name.
            tool: The tool.
            work: Its run.
            killable: The domain ends the work itself; it gets a little longer.
            paused: Seconds that do not count, so far; they may grow while the work runs.

        Raises:
            ToolTimeout: It took longer. `still_running` says that it could not be stopped.
        """
        seconds = timeout.total_seconds()
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)
        ended: asyncio.Future[None] = loop.create_future()

        def settle(_: Any = None) -> None:
            if not ended.done():
                ended.set_result(None)

        timer: asyncio.TimerHandle
        timed_out = False
        granted = 0.0

        def stop() -> None:
            nonlocal timed_out, timer, granted
            extra = paused() if paused is not None else 0.0
            if extra > granted:
                timer = loop.call_later(extra - granted, stop)
                granted = extra
                return
            timed_out = True
            task.cancel()
            timer = loop.call_later(ABANDON_AFTER, settle)

        task.add_done_callback(settle)
        timer = loop.call_later(seconds + KILL_GRACE if killable else seconds, stop)
        try:
            await ended
        except asyncio.CancelledError:
            await self._cancel(name, task, ended)
            raise
        finally:
            timer.cancel()
        if not timed_out:
            return task.result()
        if not task.done():
            self._leave_running(name, task)
            raise ToolTimeout(timeout, still_running=True, hint=_STILL_RUNNING)
        if not task.cancelled() and task.exception() is None:
            return task.result()  # it finished while it was being stopped
        still_running = getattr(tool, "abandoned_runs", 0) > 0
        raise ToolTimeout(
            timeout, still_running=still_running, hint=_STILL_RUNNING if still_running else None
        )

    async def _cancel(
        self, name: str, task: asyncio.Future[Any], ended: asyncio.Future[None]
    ) -> None:
        """The caller was cancelled: take the tool down with it, but do not wait for ever."""
        task.cancel()
        await asyncio.wait({task}, timeout=ABANDON_AFTER)
        if not task.done():
            self._leave_running(name, task)

    def _leave_running(self, name: str, task: asyncio.Future[Any]) -> None:
        running = self._left_running.setdefault(name, set())
        running.add(task)

        def forget(done: asyncio.Future[Any]) -> None:
            running.discard(done)
            if not done.cancelled():
                done.exception()  # retrieved, so that asyncio does not complain

        task.add_done_callback(forget)


_STILL_RUNNING: Final = (
    "it could not be stopped and is still running; a tool in the container or wasm domain is ended"
)
