"""The domain that the core itself has, and what holds for tools in it. Others come from plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hardpoint.errors import ExecutionFailed
from hardpoint.interfaces import ExecutionDomain, Invocation
from hardpoint.parts import ToolOutput

KILL_GRACE: Final = 5.0
"""Seconds beyond the time-out in which a killable domain must have ended the work itself."""
MAX_ABANDONED: Final = 8
"""Runs of one tool that may be left running; beyond it the tool is refused."""
STILL_RUNNING: Final = (
    "it could not be stopped and is still running; a tool in the container or wasm domain is ended"
)


class OrchestratorDomain(ExecutionDomain):
    """This process. It contains nothing: what runs here is trusted code."""

    async def run(self, invocation: Invocation) -> ToolOutput:
        return await invocation.tool.execute(invocation.params, invocation.context)

    def explain(self) -> Mapping[str, Any]:
        return {"contained": "nothing: plugin code runs with the rights of this process"}


def left_running(tool: Any) -> int:
    """How many timed-out runs of a tool still go on: threads, which nothing can stop."""
    return getattr(tool, "abandoned_runs", 0)


def refuse_runaway(name: str, tool: Any) -> None:
    """Refuse a tool that does not stop.

    Raises:
        ExecutionFailed: Too many runs were left running.
    """
    running = left_running(tool)
    if running > MAX_ABANDONED:
        raise ExecutionFailed(
            f"{name!r} is refused: {running} timed-out runs are still going",
            hint="wait until they end, or move the tool to a domain that can stop its work",
        )
