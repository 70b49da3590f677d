"""What a tool may do inside: `context.sandbox` of the container domain."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from hardpoint.errors import (
    ExecutionFailed,
    InvalidParameters,
    NotAuthorized,
    SandboxError,
    ToolError,
)
from hardpoint.interfaces import FileEntry
from hardpoint_container.config import WORKSPACE, size_in_bytes
from hardpoint_container.execution import Execution, FileRefused

if TYPE_CHECKING:
    from hardpoint_container.background import Output, OwnBackground, Seen
    from hardpoint_container.session import Session

WHOLE_FILE: Final = 16 * 1024 * 1024
SCAN: Final = 64 * 1024 * 1024
"""Lines are counted up to this size."""


class NoSuchPath(ExecutionFailed):
    """There is no file or folder of that name."""


@attrs.frozen
class Window:
    """Some whole lines of a file."""

    text: bytes
    size: int
    total_lines: int | None
    """None for a file too large to be counted."""
    truncated_by: Literal["lines", "bytes"] | None
    cut_line: bool
    """The one line of the window was too long and is not whole."""
    nul_share: float
    """The share of NUL bytes at the start of the file: what tells binary from text."""


@attrs.frozen
class Found:
    """One entry below a folder; `path` is relative to that folder."""

    path: str
    kind: Literal["file", "folder", "link", "other"]
    size: int
    mtime: float


class ContainerSandbox:
    """The sandbox during one call. Paths are relative to the workspace; links are not followed."""

    def __init__(
        self,
        session: Session,
        deadline: float,
        env: Mapping[str, str],
        background: OwnBackground | None = None,
    ) -> None:
        self._session = session
        self._background = background
        self._deadline = deadline
        self._env = env
        self.cut_short = False
        """The end of the call's time ended a command, not a time-out of the tool's own."""

    @property
    def remaining(self) -> timedelta:
        """What is left of the call's time."""
        return timedelta(seconds=max(0.05, self._deadline - time.monotonic()))

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
        gather: bool = True,
    ) -> Execution:
        """Run a command: text by `sh -c`, a list as it stands.

        Raises:
            InvalidParameters: It cannot be started as given.
            SandboxError: A limit stops it from being started.
            DomainUnavailable: The sandbox is gone.
        """
        config = self._session.config
        argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
        if not argv:
            raise InvalidParameters("the command is empty")
        if self._session.full:
            # Deleting still works, writing does not.
            argv = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *argv]
        left = self.remaining
        result = await self._session.exec(
            argv,
            cwd=posixpath.join(WORKSPACE, cwd),
            env={**self._env, **(env or {})},
            stdin=stdin or b"",
            timeout=min(timeout or left, left),
            keep=max_bytes,
            most=size_in_bytes(config.max_output),
            on_output=on_output,
            gather=gather,
        )
        if result.failed is not None:
            return _not_started(result, argv, cwd)
        if result.timed_out and (timeout is None or timeout > left):
            self.cut_short = True
        return result

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str = ".",
        stdin: bytes | None = None,
        timeout: timedelta | None = None,
    ) -> str:
        """Run a command in a sandbox of its own, where it outlives the call; its id.

        Raises:
            SandboxError: Too many run already.
            DomainUnavailable: No sandbox can be had.
        """
        most = self._session.config
        env = self._env
        wanted = most.max_life if timeout is None else timeout.total_seconds()
        seconds = min(wanted, most.max_life)

        async def run(session: Session, output: Output) -> Execution:
            sandbox = ContainerSandbox(session, time.monotonic() + seconds, {})
            return await sandbox.exec(
                command,
                cwd=cwd,
                env=env,
                stdin=stdin,
                max_bytes=size_in_bytes(most.max_output),
                on_output=output.take,
                gather=False,
            )

        return await self._others().start(seconds, run)

    def look(self, background_id: str) -> Seen:
        """What a command in the background has written, and whether it still runs."""
        return self._others().look(background_id)

    async def stop(self, background_id: str) -> Seen:
        """End a command in the background."""
        return await self._others().stop(background_id)

    def _others(self) -> OwnBackground:
        if self._background is None:
            raise SandboxError("this sandbox starts no commands in the background")
        return self._background

    async def read(self, path: str, *, offset: int = 0, max_bytes: int | None = None) -> bytes:
        """The bytes of a file, or of a part of it."""
        limit = WHOLE_FILE if max_bytes is None else max_bytes
        part = offset > 0 or max_bytes is not None
        _, data = await self._file("read", path, limit=limit, offset=offset, part=part)
        return data

    async def read_whole(self, path: str, limit: int) -> tuple[bytes, str]:
        """A file of at most `limit` bytes, and the SHA-256 of its content."""
        facts, data = await self._file("read", path, limit=limit)
        return data, facts["sha256"]

    async def lines(self, path: str, *, offset: int, limit: int, max_bytes: int) -> Window:
        """A window of lines; `offset` counts from 1, a `limit` of 0 takes as many as fit."""
        facts, data = await self._file(
            "lines", path, offset=offset, limit=limit, max_bytes=max_bytes, scan=SCAN
        )
        return Window(text=data, **facts)

    async def write(self, path: str, data: bytes) -> None:
        """Replace or make a file; parents are made."""
        await self.replace(path, data)

    async def replace(self, path: str, data: bytes, *, expect: str | None = None) -> bool:
        """Like `write`; True when the file is new.

        Args:
            expect: The SHA-256 that the present content must still have.
        """
        if self._session.full:
            raise SandboxError(
                "the workspace is larger than workspace_size allows; nothing was written",
                hint="delete files first",
            )
        facts, _ = await self._file("write", path, body=data, expect=expect)
        return bool(facts["created"])

    async def list(self, path: str = ".") -> Sequence[FileEntry]:
        """The entries of a folder, sorted by name."""
        found, _ = await self.walk(path, depth=1, skip=False)
        return [FileEntry(entry.path, entry.kind, entry.size) for entry in found]

    async def walk(
        self, path: str, *, depth: int, skip: bool = True
    ) -> tuple[Sequence[Found], bool]:
        """Everything below a folder, sorted; and whether that is all of it."""
        facts, _ = await self._file("walk", path, depth=depth, skip=skip)
        return [Found(*entry) for entry in sorted(facts["entries"])], facts["complete"]

    async def _file(
        self, call: str, path: str, *, body: bytes = b"", **arguments: Any
    ) -> tuple[dict[str, Any], bytes]:
        try:
            return await self._session.file(
                call,
                body=body,
                timeout=self.remaining.total_seconds(),
                path=plain_path(path),
                **arguments,
            )
        except FileRefused as refused:
            raise _file_error(refused, path) from None


def plain_path(path: str) -> str:
    """A path as the runner wants it: relative, without dots. Only the spelling changes.

    Raises:
        NotAuthorized: It leaves the workspace.
    """
    relative = path.removeprefix(WORKSPACE + "/") if path != WORKSPACE else "."
    plain = posixpath.normpath(relative)
    if plain.startswith(("/", "../")) or plain == "..":
        raise NotAuthorized(f"{path!r} is outside the workspace")
    return plain


def _not_started(result: Execution, argv: Sequence[str], cwd: str) -> Execution:
    if result.failed == "ECWD":
        raise InvalidParameters(f"there is no folder {cwd!r} to run the command in")
    if result.failed == "E2BIG":
        raise InvalidParameters(
            "the command line is larger than the system accepts",
            hint="send the data as stdin, or write it to a file first",
        )
    if result.failed in ("EAGAIN", "ENOMEM"):
        raise SandboxError(
            "the sandbox is at its limit of processes or memory; nothing was started"
        )
    if result.failed in ("ENOENT", "ENOTDIR"):
        text = f"{argv[0]}: not found\n"
        return attrs.evolve(result, exit_code=127, stderr=text.encode(errors="replace"))
    if result.failed in ("EACCES", "ENOEXEC", "EISDIR"):
        text = f"{argv[0]}: cannot be run ({result.failed})\n"
        return attrs.evolve(result, exit_code=126, stderr=text.encode(errors="replace"))
    raise InvalidParameters(f"the command could not be started: {result.why}")


def _file_error(refused: FileRefused, path: str) -> ToolError:
    said = f"{path!r}: {refused}"
    match refused.code:
        case "missing":
            return NoSuchPath(said)
        case "not_file" | "not_folder" | "invalid" | "too_big":
            return InvalidParameters(said)
        case "changed":
            return SandboxError(f"{said}; links are not followed here, nothing was done")
        case "stale":
            return ExecutionFailed(f"{said}; read it again and repeat the change")
        case "read_only":
            return SandboxError(said, hint="the sandbox's policy is read_only")
    return ExecutionFailed(said)
