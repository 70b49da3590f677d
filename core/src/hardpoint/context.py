"""Who calls, and what the core offers to a running call. What a caller may do is in `policy`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import attrs

from hardpoint.calls import CallOutcome
from hardpoint.errors import DomainUnavailable
from hardpoint.parts import Part, ToolOutput

Origin = Literal["library", "cli", "gateway", "job", "tool", "builder"]
Mode = Literal["default", "plan", "auto", "locked"]
Progress = Callable[[float, float | None, str | None], None]


# what a running call may use --------------------------------------------------------------------


@attrs.frozen
class ExecResult:
    """How a command in a sandbox ended."""

    exit_code: int | None
    """None when a signal ended the command."""
    stdout: bytes = b""
    stderr: bytes = b""
    signal: int | None = None
    timed_out: bool = False
    truncated: bool = False
    """True when output was dropped at the cap."""
    duration: timedelta = timedelta(0)

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


@attrs.frozen
class FileEntry:
    """One entry of a folder in a sandbox."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int = 0


class Sandbox(Protocol):
    """The inside of a domain. Paths are relative to the workspace; nothing else is reachable."""

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: timedelta | None = None,
        max_bytes: int = 65_536,
        on_output: Callable[[Literal["stdout", "stderr"], bytes], None] | None = None,
    ) -> ExecResult:
        """Run a command: text by the domain's shell, a list as it stands.

        Raises:
            DomainUnavailable: The sandbox is gone; a command that failed is an `ExecResult`.
        """
        ...

    async def read(self, path: str, *, offset: int = 0, max_bytes: int | None = None) -> bytes: ...

    async def write(self, path: str, data: bytes) -> None: ...

    async def list(self, path: str = ".") -> Sequence[FileEntry]: ...


class Services(Protocol):
    """The core as a tool, toolset, domain or approver reaches it: `context.services`."""

    @property
    def registry(self) -> Any:
        """The tools: `get(name)`, `list()`, `schemas()`, `replace(toolset, definitions)`."""

    def may_see(self, tool: str) -> bool:
        """Whether models may see a tool: it is switched on, and not denied as a whole."""
        ...

    @property
    def secrets(self) -> Any:
        """`exists(name, user)` and the audited `reveal(name, user, reason)`."""

    @property
    def leaks(self) -> Any:
        """The leak scanner: `scan(text)`, `redact(text)`."""

    @property
    def audit(self) -> Any:
        """`record(kind, **fields)` writes one line to the audit."""

    @property
    def approvals(self) -> Any:
        """Pending approvals: `list()`, `get(id)`."""

    @property
    def jobs(self) -> Any:
        """Background jobs."""

    @property
    def results(self) -> Any:
        """What was cut from outputs: `read(ref, offset, max_bytes, user)`, `save(...)`."""

    @property
    def workspace(self) -> Any:
        """The memory workspace registered by a plugin, or None."""

    @property
    def clock(self) -> Any:
        """`now()` in unix seconds, `monotonic()`."""

    def store(
        self, namespace: str, migrations: Sequence[str] = (), *, durable: bool = False
    ) -> Any:
        """Tables of one namespace in the core's database; `durable` ones survive a power cut."""

    def http(
        self, bindings: Sequence[Any] = (), **options: Any
    ) -> AbstractAsyncContextManager[Any]:
        """A pinned, guarded HTTP client that injects bound secrets at the last moment."""

    async def count(self, name: str, limit: Any, *, user_id: str = ...) -> timedelta | None:
        """Count one use of `name` by the caller where calls are counted; the wait when it is full.

        For what a call does inside, such as the requests of one tool: the count holds across
        processes when that of the calls does.
        """
        ...

    def extensions(self, kind: str) -> Mapping[str, Any]:
        """What plugins registered under one kind, by name."""

    async def call(
        self, tool: str, params: Mapping[str, Any], *, parent: JobContext | None = None
    ) -> ToolOutput:
        """Call another tool through all ten steps, with the caller's rights and no more.

        Raises:
            ToolError: As for any other call.
        """
        ...

    async def run(
        self, tool: str, params: Mapping[str, Any], *, parent: JobContext | None = None
    ) -> CallOutcome:
        """Like `call`; the outcome instead of an exception."""
        ...

    def call_sync(self, tool: str, params: Mapping[str, Any]) -> ToolOutput:
        """`call` for a synchronous tool on its own thread."""
        ...


@attrs.frozen
class CallHandle:
    """What the runtime binds to a context for the length of one call."""

    call_id: str
    services: Services
    origin: Origin = "library"
    depth: int = 0
    parent: CallHandle | None = None
    sandbox: Sandbox | None = None
    progress: Progress | None = None
    emit: Callable[[Part], None] | None = None
    state: Any = None
    """The runtime's own bookkeeping for nested calls."""


# who calls -------------------------------------------------------------------------------------


def _names(value: bool | str | Sequence[str] | frozenset[str]) -> bool | frozenset[str]:
    if isinstance(value, bool):
        return value
    return frozenset((value,) if isinstance(value, str) else value)


# Not slotted: `bound` copies the field dictionary, once for every call.
@attrs.frozen(slots=False)
class JobContext:
    """Who calls, from where, and what that caller may do without being asked.

    Only `user_id` is needed. `workspace` is a host path and comes from the host application, never
    from a tool's arguments. The runtime alone sets `origin` and what is bound to a running call:
    `services`, `sandbox`, `call_id`, `parent`, `depth`.
    """

    __hardpoint_context__ = True  # how a function's context parameter is recognised

    user_id: str
    session_id: str = "default"
    project: str | None = None
    workspace: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))
    interactive: bool = True
    """Whether a person can be asked; otherwise a call that must ask ends `approval_required`."""
    mode: Mode = attrs.field(
        default="default", validator=attrs.validators.in_(("default", "plan", "auto", "locked"))
    )
    auto_approve: bool | frozenset[str] = attrs.field(default=False, converter=_names)
    """Session auto-approval of `unless_auto_approved` calls: of all tools, or of the named ones."""
    autonomous: bool = False
    """No person watches: `unless_auto_approved` passes, `always` only for `allowed_tools`."""
    allowed_tools: frozenset[str] = attrs.field(factory=frozenset, converter=frozenset)
    approval: str | None = None
    """The id of an answered approval that this call uses up."""
    deadline: float | None = None
    """Unix time in seconds after which no call may still run."""
    user_timezone: str | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    extra_env: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    credentials: Mapping[str, str] = attrs.field(factory=dict)
    """Names of secrets by environment variable: what commands in a sandbox hold there is a stand-in
    that its domain exchanges, where it can."""
    job_id: str | None = None
    conversation_id: str | None = None
    requester_id: str | None = None
    state: str | None = None
    title: str | None = None
    description: str | None = None
    category: str | None = None
    http_interceptor: Any = None
    tool_output_stash: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    """Earlier outputs by call id, for tools that read them again."""
    origin: Origin = attrs.field(default="library", init=False)
    handle: CallHandle | None = attrs.field(default=None, init=False, repr=False, eq=False)

    def bound(self, handle: CallHandle) -> Self:
        """A copy for one running call. For the runtime, and for tests of a tool's body."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__["handle"] = handle
        copy.__dict__["origin"] = handle.origin
        return copy

    def from_origin(self, origin: Origin) -> Self:
        """A copy whose calls come from somewhere else than the runtime's. For the runtime."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__["origin"] = origin
        return copy

    def within(self, workspace: Path) -> Self:
        """A copy with another workspace, bound to the same call."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__["workspace"] = workspace
        return copy

    def holding(self, credentials: Mapping[str, str]) -> Self:
        """A copy with these credentials besides its own, bound to the same call."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__["credentials"] = {**self.credentials, **credentials}
        return copy

    @property
    def call_id(self) -> str | None:
        return self.handle.call_id if self.handle else None

    @property
    def depth(self) -> int:
        return self.handle.depth if self.handle else 0

    @property
    def parent(self) -> CallHandle | None:
        return self.handle.parent if self.handle else None

    @property
    def services(self) -> Services:
        """The core, as a running tool sees it.

        Raises:
            RuntimeError: Outside a call, where there is none.
        """
        if self.handle is None:
            raise RuntimeError("context.services exists only inside a call made by a Runtime")
        return self.handle.services

    @property
    def sandbox(self) -> Sandbox:
        """The domain's sandbox, for tools outside the orchestrator.

        Raises:
            DomainUnavailable: When the tool runs without its domain.
        """
        if self.handle is None or self.handle.sandbox is None:
            raise DomainUnavailable(
                "this tool works only inside its domain",
                hint="call it through Runtime.call, with the domain's plugin active",
            )
        return self.handle.sandbox

    def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever watches how far the call is. Does nothing when nobody does."""
        if self.handle is not None and self.handle.progress is not None:
            self.handle.progress(done, total, message)

    def emit(self, part: Part) -> None:
        """Give out a piece of content early; it is kept and returned if the call is cut short."""
        if self.handle is not None and self.handle.emit is not None:
            self.handle.emit(part)


ToolBody = Callable[[dict[str, Any], JobContext], Awaitable[ToolOutput]]
