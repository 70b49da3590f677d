"""`services.jobs`: make, look at and end jobs, and register who works on them."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import attrs

from hardpoint.calls import ToolCall
from hardpoint.context import JobContext
from hardpoint.errors import (
    ConfigError,
    HardpointError,
    InvalidParameters,
    Issue,
    NotAuthorized,
    ToolError,
)
from hardpoint.interfaces import JobExecutor, JobWorker
from hardpoint.jobs.executor import LocalExecutor
from hardpoint.jobs.model import (
    MAX_CALLS,
    MAX_DEPTH,
    MAX_TEXT,
    MAX_TITLE,
    Job,
    JobEvent,
    JobRequest,
    PlannedCall,
    Prompt,
    context_of,
    job_context,
    kept_context,
)
from hardpoint.jobs.owner import make_owner
from hardpoint.jobs.running import Running
from hardpoint.jobs.tables import JobTables

if TYPE_CHECKING:
    from hardpoint._core import Core
    from hardpoint.config import JobsConfig
    from hardpoint.policy.verdict import PolicyVerdict

MAX_PENDING: Final = 10_000
"""Jobs of one user that may wait at one time."""
_ID: Final = re.compile(r"[0-9a-f-]{4,36}\Z")
P = ParamSpec("P")
T = TypeVar("T")
WorkerFunction = Callable[[Mapping[str, Any], JobContext], Awaitable[Any]]


class _FunctionWorker(JobWorker):
    def __init__(self, function: WorkerFunction) -> None:
        self._function = function

    async def run(self, job: Mapping[str, Any], context: JobContext) -> Any:
        return await self._function(job, context)


class Jobs:
    """The jobs of one store, as this runtime sees them."""

    def __init__(self, core: Core, *, shared: bool, runs_here: bool) -> None:
        """Describe them; the store is opened at the first use.

        Args:
            core: The runtime's core.
            shared: Whether other processes can see the same store.
            runs_here: Whether this runtime works them off by itself.
        """
        self.core = core
        self._shared = shared
        self._runs_here = runs_here
        self._owner = make_owner()
        self._tables: JobTables | None = None
        self._workers: dict[str, JobWorker] = {}
        self._executor: JobExecutor | None = None
        self._started = False
        self._changed = asyncio.Event()

    @property
    def _settings(self) -> JobsConfig:
        # Not kept: a reload brings others.
        return self.core.config.jobs

    @property
    def runs_here(self) -> bool:
        """Whether this runtime works off jobs by itself."""
        return self._runs_here

    # workers -----------------------------------------------------------------------------------

    def register_worker(self, name: str, worker: JobWorker | WorkerFunction) -> None:
        """Let jobs be done by the host program: `async def work(job, context)` gives the result.

        `context` is the caller's, with nobody to ask; `context.services.call` calls tools,
        `context.report` says how far it is, `context.services.job.prompts()` gives what people tell
        it meanwhile.
        """
        if name in self.workers:
            raise HardpointError(f"there is already a job worker {name!r}")
        made = worker if isinstance(worker, JobWorker) else _FunctionWorker(worker)
        self._workers[name] = made
        if self._executor is not None:
            self._executor.wake()

    @property
    def workers(self) -> Mapping[str, JobWorker]:
        """Who can work here: registered by plugins and by the host program."""
        return {**self.core.plugins.extension("job_worker"), **self._workers}

    def default_worker(self) -> str | None:
        """Who does a job that names neither calls nor a worker: the configured or the only one."""
        if self._settings.worker is not None:
            return self._settings.worker
        offered = [
            name for name, worker in self.workers.items() if getattr(worker, "general", True)
        ]
        return offered[0] if len(offered) == 1 else None

    # contexts ----------------------------------------------------------------------------------

    @staticmethod
    def kept(context: JobContext) -> dict[str, Any]:
        """A caller's context as JSON, for work that begins later; without its `extra_env`."""
        return kept_context(context)

    @staticmethod
    def context_of(user_id: str, kept: Mapping[str, Any]) -> JobContext:
        """The context that was kept, with nobody to ask."""
        return context_of(user_id, kept)

    # making ------------------------------------------------------------------------------------

    async def create(self, request: JobRequest, context: JobContext) -> Job:
        """Accept a job: it is in the store when this returns, and runs when there is room.

        Raises:
            InvalidParameters: It cannot be done as it was asked for.
            NotAuthorized: One of its calls is denied.
        """
        job = self._make(request, context)
        parent = await self._run(self.tables.get, context.job_id or "")
        if parent is not None:
            job = attrs.evolve(job, depth=parent.depth + 1)
            if job.depth > MAX_DEPTH:
                raise NotAuthorized(f"jobs that start jobs may go {MAX_DEPTH} deep, not further")
        await self._refuse_denied(job)
        waiting = (await self._run(self.tables.counts, job.user_id)).get("pending", 0)
        if waiting >= MAX_PENDING:
            raise NotAuthorized(f"{waiting} jobs are waiting already; cancel some first")
        await self._run(self.tables.add, job)
        if self._runs_here:
            await self._start_executor()
        if self._executor is not None:
            self._executor.wake()
        return job

    def _make(self, request: JobRequest, context: JobContext) -> Job:
        title, description = _text(request.title).strip(), _text(request.description)
        if not title:
            raise _wrong("title", "some words", "a job needs a title")
        if len(title) > MAX_TITLE or len(description) > MAX_TEXT:
            raise _wrong(
                "title", f"at most {MAX_TITLE} characters", "title or description too long"
            )
        if request.calls and request.worker is not None:
            raise _wrong("worker", "calls or a worker", "a job has calls or a worker, not both")
        if len(request.calls) > MAX_CALLS:
            raise _wrong("calls", f"at most {MAX_CALLS}", f"a job makes {MAX_CALLS} calls at most")
        worker = request.worker
        if not request.calls:
            worker = worker or self.default_worker()
            self._check_worker(worker)
        return Job(
            id=str(uuid.uuid4()),
            user_id=context.user_id,
            session_id=context.session_id,
            title=title,
            description=description,
            state="pending",
            worker=worker,
            calls=tuple(request.calls),
            input=request.input,
            keep_going=request.keep_going,
            context=kept_context(context),
            depth=0,
            created=self.core.clock.now(),
            started=None,
            finished=None,
            done=0,
            total=len(request.calls) or None,
            message="",
            result=None,
            error=None,
            cost=None,
            cancelling=False,
        )

    def _check_worker(self, worker: str | None) -> None:
        known = ", ".join(sorted(self.workers))
        if worker is None:
            several = f"name one of the workers {known}, or list" if known else "list"
            raise _wrong(
                "calls", "calls or a worker", f"what should the job do? {several} its calls"
            )
        if worker not in self.workers and (self._runs_here or not self._shared):
            raise _wrong("worker", known or "no worker", f"there is no job worker {worker!r} here")

    async def preview(
        self, calls: Sequence[PlannedCall], context: JobContext
    ) -> Sequence[PolicyVerdict]:
        """What would be decided about each of these calls, made by this caller now.

        Raises:
            ToolError: One of them would fail before the policy is asked.
        """
        from hardpoint._call import preview

        verdicts: list[PolicyVerdict] = []
        for number, planned in enumerate(calls):
            request = ToolCall(planned.tool, dict(planned.params))
            try:
                verdicts.append(await preview(self.core, request, context))
            except ToolError as error:
                error.args = (f"calls[{number}]: {error.message}",)
                raise
        return verdicts

    async def _refuse_denied(self, job: Job) -> None:
        """Refuse at once what would be refused later."""
        context = job_context(job, autonomous=self._settings.autonomous)
        verdicts = await self.preview(job.calls, context)
        for number, (planned, verdict) in enumerate(zip(job.calls, verdicts, strict=True)):
            if verdict.decision == "allow":
                continue
            what = "is denied" if verdict.decision == "deny" else "would ask, and a job cannot ask"
            raise NotAuthorized(
                f"calls[{number}]: {planned.tool!r} {what}: {verdict.explain()}",
                decision=verdict.to_json(planned.tool),
            )

    # looking -----------------------------------------------------------------------------------

    async def get(self, job_id: str, user_id: str | None) -> Job:
        """The job of this id, or of the only id that begins so.

        Args:
            job_id: An id, or at least its first four characters.
            user_id: Whose; None for the operator, who may see all.

        Raises:
            InvalidParameters: There is none, or several; another user's job is none.
        """
        wanted = job_id.strip().lower()
        if not _ID.match(wanted):
            raise _wrong("job_id", "an id", f"{job_id!r} is no job id; give 4 characters or more")
        found = await self._run(self.tables.matching, user_id, wanted)
        if len(found) > 1:
            shown = ", ".join(found)
            raise _wrong("job_id", "one id", f"several jobs begin with {job_id!r}: {shown}")
        job = await self._run(self.tables.get, found[0]) if found else None
        if job is None:
            raise _wrong("job_id", "an id", f"there is no job {job_id!r}; list_jobs shows them")
        if job.state == "in_progress" and await self.recover():
            job = await self._again(job)
        return job

    async def _again(self, job: Job) -> Job:
        """The job as it stands now; as it was when it has been deleted meanwhile."""
        return await self._run(self.tables.get, job.id) or job

    async def list(
        self, user_id: str | None, states: Collection[str] = (), limit: int = 100
    ) -> Sequence[Job]:
        """Jobs, the newest first; of all users for None."""
        await self.recover()
        return await self._run(self.tables.list, user_id, states, limit)

    async def counts(self, user_id: str | None) -> Mapping[str, int]:
        return await self._run(self.tables.counts, user_id)

    async def events(self, job: Job, limit: int = 50) -> Sequence[JobEvent]:
        """The latest events of a job, oldest first."""
        return await self._run(self.tables.events, job.id, limit)

    async def wait(self, job: Job, timeout: float | None = None) -> Job:
        """The job when it has ended, or as it stands when the time is up.

        Where this runtime works off no jobs, it does this one now.
        """
        if self._executor is None and job.state == "pending":
            executor = LocalExecutor(concurrency=0, shared=self._shared)
            self._executor = executor
            await executor.start(self)
            await executor.run_now(job.id)
        deadline = None if timeout is None else self.core.clock.monotonic() + timeout
        pause = 0.02
        while True:
            job = await self._again(job)
            left = None if deadline is None else deadline - self.core.clock.monotonic()
            if not job.is_active or (left is not None and left <= 0):
                return job
            try:
                async with asyncio.timeout(pause if left is None else min(pause, left)):
                    await self._changed.wait()
            except TimeoutError:
                pause = min(pause * 1.5, 0.5)

    # ending and telling ------------------------------------------------------------------------

    async def cancel(self, job: Job, timeout: float = 5.0) -> Job:
        """End a job: a pending one never runs, a running one is stopped where it is.

        Returns:
            The job, `cancelled`; still `in_progress` when it did not stop in time.
        """
        await self._run(self.tables.cancel, job, self.core.clock.now())
        if self._executor is not None:
            self._executor.cancel(job.id)
        return await self.wait(attrs.evolve(job, state="in_progress"), timeout)

    async def prompt(self, job: Job, content: str, *, done: bool = False) -> None:
        """Tell a running worker something.

        Raises:
            InvalidParameters: Nobody would read it.
        """
        if job.worker is None:
            raise _wrong("job_id", "a worker's job", "this job makes fixed calls; it reads nothing")
        prompt = Prompt(_text(content)[:MAX_TEXT], done)
        if not await self._run(self.tables.add_prompt, job, prompt, self.core.clock.now()):
            raise _wrong("job_id", "a running job", f"job {job.id} takes nothing more")

    async def prune(self, before: float) -> int:
        """Delete jobs that ended before a time; how many."""
        return await self._run(self.tables.prune, before)

    # for executors -----------------------------------------------------------------------------

    @property
    def lease(self) -> float:
        return self._settings.lease

    @property
    def tables(self) -> JobTables:
        if self._tables is None:
            self._tables = JobTables(self.core.services)
        return self._tables

    async def claim(self, job_id: str | None = None) -> Job | None:
        """Take a job that can run here; whoever claims it must run it."""
        return await self._run(
            lambda: self.tables.claim(
                self._owner,
                sorted(self.workers),
                self.core.clock.now(),
                self.lease,
                per_user=self._settings.per_user,
                job_id=job_id,
            )
        )

    async def run_claimed(self, job: Job) -> None:
        """Run a claimed job to its end."""
        running = Running(self.core, self.tables, job, autonomous=self._settings.autonomous)
        worker = None if job.worker is None else self.workers.get(job.worker)
        try:
            await running.run(worker, self._settings.timeout)
        finally:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    async def renew(self) -> None:
        await self._run(self.tables.renew, self._owner, self.core.clock.now() + self.lease)

    async def to_cancel(self) -> Sequence[str]:
        return await self._run(self.tables.to_cancel, self._owner)

    async def recover(self) -> Sequence[str]:
        """Mark the jobs failed whose process has died; their ids."""
        return await self._run(self.tables.recover, self.core.clock.now(), self._owner)

    # life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to work, where this runtime does and others may have left something to do."""
        if self._runs_here and self._shared:
            await self._start_executor()

    async def _start_executor(self) -> None:
        if self._started:
            return
        self._started = True
        self._executor = self._choose_executor()
        await self._executor.start(self)

    def _choose_executor(self) -> JobExecutor:
        name = self._settings.executor
        if name is None:
            return LocalExecutor(concurrency=self._settings.concurrency, shared=self._shared)
        known = self.core.plugins.extension("job_executor")
        if name not in known:
            raise ConfigError(
                f"[jobs] executor = {name!r}: no plugin provides it;"
                f" there are {', '.join(sorted(known)) or 'none'}"
            )
        executor: JobExecutor = known[name]
        return executor

    async def stop(self) -> None:
        if self._executor is not None:
            await self._executor.stop()
            self._executor = None

    async def drain(self) -> None:
        """Work until nothing waits any more; for `hardpoint jobs worker --drain`."""
        await self._start_executor()
        if isinstance(self._executor, LocalExecutor):
            self._executor.wake()
            await self._executor.idle.wait()

    async def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        done: T = await self.tables.tables.run(function, *args, **kwargs)
        return done


def _text(text: str) -> str:
    """Text that every database keeps."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _wrong(parameter: str, expected: str, message: str) -> InvalidParameters:
    issue = Issue(f"/{parameter}", "invalid_value", expected, "something else")
    return InvalidParameters(message, issues=[issue])
