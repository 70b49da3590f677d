"""Commands that outlive the call that starts them: each has a sandbox of its own and ends with it.

What may be started was judged before. A command is seen and stopped only by the session that
started it; it ends by itself, when it is stopped, at the end of its time or with the domain.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Literal

import attrs

from hardpoint.errors import DomainUnavailable, HardpointError, InvalidParameters, SandboxError
from hardpoint_container.config import ContainerConfig, size_in_bytes
from hardpoint_container.execution import Execution, joined
from hardpoint_container.inside.jobs import Stream
from hardpoint_container.session import Session

KEPT: Final = 1 << 20
"""Bytes of each stream that are kept from its start; the last 64 KiB are kept too."""
KEPT_ENDED: Final = 64
"""Commands of all sessions that can be read after their end."""
SPARE: Final = 5.0
"""Seconds that a sandbox lives longer than its command may, so that it can say how that ended."""

OpenSession = Callable[[str, float], Awaitable[Session]]
"""Starts a sandbox for a command of this id that lives so many seconds."""
Run = Callable[[Session, "Output"], Awaitable[Execution]]


class Output:
    """What a command has written so far, in bounded memory."""

    def __init__(self, keep: int) -> None:
        self._streams = {"stdout": Stream(1, keep), "stderr": Stream(2, keep)}
        self._heads = {"stdout": bytearray(), "stderr": bytearray()}

    def take(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self._heads[stream] += self._streams[stream].take(data)

    def added_to(self, result: Execution) -> Execution:
        """A result with this output in it."""
        (stdout, cut), (stderr, cut_too) = (
            joined(bytes(self._heads[name]), stream.tail, stream.total)
            for name, stream in self._streams.items()
        )
        return attrs.evolve(result, stdout=stdout, stderr=stderr, truncated=cut or cut_too)


@attrs.define(eq=False)
class Job:
    """One command in the background."""

    id: str
    owner: Hashable
    output: Output
    started: asyncio.Future[None]
    task: asyncio.Task[None] | None = None
    session: Session | None = None
    result: Execution | None = None
    """How it ended."""
    lost: str = ""
    """Why nobody knows how it ended."""
    closing: bool = False
    ended: bool = False


@attrs.frozen
class Seen:
    """A background command as a caller sees it."""

    running: bool
    execution: Execution
    """The output so far and, once it has ended, how."""
    lost: str = ""


class Background:
    """All commands in the background of one domain."""

    def __init__(self, config: ContainerConfig) -> None:
        self._config = config
        self._jobs: dict[str, Job] = {}
        self._closed = False

    async def start(self, owner: Hashable, seconds: float, opened: OpenSession, run: Run) -> str:
        """Start a command; its id.

        Raises:
            SandboxError: There are too many already, or the sandbox would be too weak.
            DomainUnavailable: No sandbox can be had.
        """
        self._check_room(owner)
        output = Output(min(KEPT, size_in_bytes(self._config.kept_output)))
        loop = asyncio.get_running_loop()
        job = Job(f"bg-{os.urandom(6).hex()}", owner, output, loop.create_future())
        self._jobs[job.id] = job
        job.task = asyncio.create_task(self._live(job, seconds, opened, run))
        try:
            await asyncio.shield(job.started)
        except asyncio.CancelledError:
            job.task.cancel()
            raise
        return job.id

    def _check_room(self, owner: Hashable) -> None:
        if self._closed:
            raise DomainUnavailable("the container domain is closed; nothing was started")
        running = [job.owner for job in self._jobs.values() if not job.ended]
        if running.count(owner) >= self._config.max_background:
            raise SandboxError(
                f"{self._config.max_background} commands of this session run in the background"
                " already; nothing was started",
                hint="stop one: background_id and stop = true",
            )
        if len(running) >= self._config.max_sandboxes:
            raise SandboxError(
                "as many commands as max_sandboxes allows run in the background;"
                " nothing was started",
                hint="try again later",
            )

    async def _live(self, job: Job, seconds: float, opened: OpenSession, run: Run) -> None:
        try:
            session = job.session = await opened(job.id, seconds + SPARE)
            try:
                await session.measure()
                job.started.set_result(None)
                result = await run(session, job.output)
                job.result = result if result.failed else job.output.added_to(result)
            finally:
                job.closing = True
                await asyncio.shield(session.close())
        except asyncio.CancelledError:
            job.lost = "it was ended"
            if not job.started.done():
                job.started.set_exception(DomainUnavailable("it was ended before it had started"))
                job.started.exception()  # whoever waits may be gone
            raise
        except Exception as error:
            job.lost = error.message if isinstance(error, HardpointError) else repr(error)
            if not job.started.done():
                del self._jobs[job.id]
                job.started.set_exception(error)
        finally:
            job.ended = True
            self._forget_old(job.owner)

    def _forget_old(self, owner: Hashable) -> None:
        """Drop the oldest ended commands: those that a session and all together have too many."""
        ended = [job for job in self._jobs.values() if job.ended]
        own = [job for job in ended if job.owner == owner]
        for job in (*own[: -self._config.max_background], *ended[:-KEPT_ENDED]):
            self._jobs.pop(job.id, None)

    def look(self, owner: Hashable, job_id: str) -> Seen:
        """A command of this owner.

        Raises:
            InvalidParameters: The owner has none of that id.
        """
        job = self._find(owner, job_id)
        execution = job.result or job.output.added_to(Execution(exit_code=None))
        return Seen(not job.ended, execution, job.lost)

    async def stop(self, owner: Hashable, job_id: str) -> Seen:
        """End a command: SIGTERM, after a moment SIGKILL, then its sandbox.

        Raises:
            InvalidParameters: The owner has none of that id.
        """
        job = self._find(owner, job_id)
        assert job.task is not None
        if job.session is not None and not job.closing:
            job.session.client.stop_all()
            await asyncio.wait((job.task,), timeout=SPARE)
        if not job.closing:
            job.task.cancel()
        await asyncio.wait((job.task,))
        return self.look(owner, job_id)

    def _find(self, owner: Hashable, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if job is None or job.owner != owner:
            raise InvalidParameters(
                f"this session has no background command {job_id!r}",
                hint="its id is what `background` said when it was started; of ended ones only the"
                f" last {self._config.max_background} are kept",
            )
        return job

    def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        """End every command and wait until nothing is left."""
        self._closed = True
        tasks = [job.task for job in self._jobs.values() if job.task is not None and not job.ended]
        for job in self._jobs.values():
            if job.task is not None and not job.closing:
                job.task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._jobs.clear()


@attrs.frozen
class OwnBackground:
    """The background commands that one call can start, see and stop."""

    all: Background
    owner: Hashable
    opened: OpenSession

    async def start(self, seconds: float, run: Run) -> str:
        return await self.all.start(self.owner, seconds, self.opened, run)

    def look(self, job_id: str) -> Seen:
        return self.all.look(self.owner, job_id)

    async def stop(self, job_id: str) -> Seen:
        return await self.all.stop(self.owner, job_id)
