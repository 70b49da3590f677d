"""Where tools run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Self

import attrs

from hardpoint.context import ExecResult, FileEntry, JobContext, Sandbox
from hardpoint.interfaces.installers import LockEntry
from hardpoint.parts import ToolOutput
from hardpoint.tools import Subject, Tool

__all__ = ["ExecResult", "ExecutionDomain", "FileEntry", "Invocation", "Sandbox"]


@attrs.frozen
class Invocation:
    """One approved call on its way into a domain."""

    tool: Tool
    name: str
    """The registered name."""
    params: dict[str, Any]
    context: JobContext
    """Bound to the call; without a sandbox until the domain gives one."""
    timeout: timedelta
    """What is left for this call."""
    subjects: tuple[Subject, ...] = ()
    """What was approved: a domain opens exactly this or refuses."""
    digest: str = ""

    async def execute(self, sandbox: Sandbox | None = None) -> ToolOutput:
        """Run the tool's body, in this process, with the sandbox bound to its context."""
        context = self.context
        if sandbox is not None and context.handle is not None:
            context = context.bound(attrs.evolve(context.handle, sandbox=sandbox))
        return await self.tool.execute(self.params, context)


class ExecutionDomain(ABC):
    """A place where tools run, with limits of its own.

    Entered at its first call; left when the runtime closes. `killable` domains stop the work at the
    time-out themselves and raise `ToolTimeout` with the partial output.
    """

    killable: ClassVar[bool] = False

    @abstractmethod
    async def run(self, invocation: Invocation) -> ToolOutput:
        """Run one call.

        Raises:
            DomainUnavailable: The domain is not there; nothing was started.
            SandboxError: A limit of the domain stopped the call.
            ToolTimeout: Only from killable domains.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        """End every process and remove everything temporary."""

    def credential_problem(self, secret: str) -> str | None:
        """Why its tools cannot use a secret through `context.credentials`; None when they can.

        Whoever says None gives them something that is exchanged for the secret on its way to the
        hosts that it is for, and never the secret itself.
        """
        return "it gives its tools no secrets"

    async def lock_entries(self) -> Sequence[LockEntry]:
        """What of this domain belongs into the lock file: the digest of its image."""
        return ()

    def explain(self) -> Mapping[str, Any]:
        """What this domain does and does not contain, for `explain` and `doctor`."""
        return {}


Run = Callable[[Invocation], Awaitable[ToolOutput]]
