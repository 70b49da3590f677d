"""`services.jobs`: make, look at and end jobs, and register who works on them."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
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
from hardpoint.interfaces import ExecutionDomain, JobExecutor, JobWorker
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
    asking_context,
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
MAX_CREDENTIALS: Final = 20
REFUSED_ENV: Final = frozenset(
    "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH BASH_ENV ENV"
    " CDPATH IFS PATH HOME PYTHONPATH PYTHONSTARTUP NODE_PATH NODE_OPTIONS PERL5LIB PERL5OPT"
    " RUBYLIB RUBYOPT CLASSPATH JAVA_TOOL_OPTIONS MAVEN_OPTS USER SHELL RUST_LOG GIT_SSH_COMMAND"
    " PROMPT_COMMAND HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE".split()
)
"""Variables that change which program or library runs, or where it sends what it says."""
_ENV: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,127}\Z")
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
        self.standing_still: set[str] = set()
        """The jobs here whose worker waits for an approval; they keep no other from running."""

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
        context = self.placed(request, context)
        self._check_credentials(request)
        job = self._make(request, context)
        parent = await self._run(self.tables.get, context.job_id or "")
        if parent is not None:
            job = attrs.evolve(job, depth=parent.depth + 1)
            if job.depth > MAX_DEPTH:
                raise NotAuthorized(f"jobs that start jobs may go {MAX_DEPTH} deep, not further")
        await self._refuse_denied(job)
        await self._refuse_useless_credentials(job)
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
            project_dir=None if request.project_dir is None else str(context.workspace),
        )

    def placed(self, request: JobRequest, context: JobContext) -> JobContext:
        """The caller's context with the folder and the credentials that a job asks for.

        Raises:
            InvalidParameters: The folder is not there, or not below the one it has to be in.
        """
        if request.credentials:
            swapped = {env: secret for secret, env in request.credentials.items()}
            context = context.holding(swapped)
        if request.project_dir is None:
            return context
        base = self._settings.projects or context.workspace
        if base is None:
            raise _wrong(
                "project_dir", "a folder for projects", "there is no folder for projects here",
                hint="set [jobs] projects, or call with a workspace",
            )  # fmt: skip
        try:
            top = Path(base).expanduser().resolve(strict=True)
            folder = (top / _text(request.project_dir)).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            folder = top = Path()
        if not folder.is_absolute() or not folder.is_dir() or not folder.is_relative_to(top):
            raise _wrong(
                "project_dir", f"a folder below {base}",
                f"{request.project_dir!r} is no folder below {str(base)!r}",
            )  # fmt: skip
        return context.within(folder)

    @staticmethod
    def _check_credentials(request: JobRequest) -> None:
        given = request.credentials
        if len(given) > MAX_CREDENTIALS:
            raise _wrong(
                "credentials", f"at most {MAX_CREDENTIALS}", "too many credentials for one job"
            )
        if len(set(given.values())) < len(given):
            raise _wrong("credentials", "one secret a variable", "two secrets in one variable")
        for secret, env in given.items():
            if not _ENV.match(env) or env in REFUSED_ENV:
                raise _wrong(
                    f"credentials/{secret}", "a name such as API_TOKEN",
                    f"{env!r} cannot hold a credential: programs read it for something else"
                    if env in REFUSED_ENV
                    else f"{env!r} cannot name a variable",
                )  # fmt: skip

    async def _refuse_useless_credentials(self, job: Job) -> None:
        """A credential that cannot be given out as it should be is an error, not left out."""
        secrets = self.core.services.secrets
        domains = self._domains_of(job)
        for env, secret in job.context["credentials"].items():
            if not await secrets.exists(secret, job.user_id):
                raise NotAuthorized(
                    f"the secret {secret!r} is not set for {job.user_id!r}",
                    hint=f"run `hardpoint secrets set {secret} --user {job.user_id}`",
                )
            problems = {name: domain.credential_problem(secret) for name, domain in domains.items()}
            if not problems:
                raise _wrong(
                    "credentials",
                    "a call in a sandbox",
                    f"none of the job's calls runs where {env!r} could be set",
                )
            if None not in problems.values():
                told = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
                raise NotAuthorized(f"no call of the job can use {secret!r}: {told}")

    def _domains_of(self, job: Job) -> Mapping[str, ExecutionDomain]:
        """The domains, other than the orchestrator, that the job's calls run in."""
        known = {name: owned.value for name, owned in self.core.plugins.domains.items()}
        if job.worker is not None:
            return known  # nobody knows what a worker will call
        plans = [self.core.plan(planned.tool) for planned in job.calls]
        named = {plan.domain_name for plan in plans if plan is not None}
        return {name: domain for name, domain in known.items() if name in named}

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
        self, calls: Sequence[PlannedCall], context: JobContext, *, in_job: bool = False
    ) -> Sequence[PolicyVerdict]:
        """What would be decided about each of these calls, made by this caller now.

        Args:
            calls: The calls.
            context: The caller.
            in_job: Made by a job of this caller instead.

        Raises:
            ToolError: One of them would fail before the policy is asked.
        """
        from hardpoint._call import preview

        if in_job:
            context = asking_context(context, autonomous=self._settings.autonomous)
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
            if verdict.decision != "deny":
                continue
            raise NotAuthorized(
                f"calls[{number}]: {planned.tool!r} is denied: {verdict.explain()}",
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
        if job.state in ("in_progress", "waiting"):
            await self.recover()
            await self.unpark()
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
        await self.unpark()
        return await self._run(self.tables.list, user_id, states, limit)

    async def counts(self, user_id: str | None) -> Mapping[str, int]:
        return await self._run(self.tables.counts, user_id)

    async def events(self, job: Job, limit: int = 50) -> Sequence[JobEvent]:
        """The latest events of a job, oldest first."""
        return await self._run(self.tables.events, job.id, limit)

    async def wait(
        self, job: Job, timeout: float | None = None, *, for_answers: bool = True
    ) -> Job:
        """The job when it has ended, or as it stands when the time is up.

        Where this runtime works off no jobs, it does this one now.

        Args:
            job: Which one.
            timeout: Seconds; None waits for ever.
            for_answers: Go on waiting while the job itself waits for an approval.
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
            if job.state == "waiting" and not for_answers:
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
        if job.approval is not None and job.state == "waiting":
            shared = [each for _, each in await self._run(self.tables.parked)]
            if job.approval not in shared:
                await self._run(self.core.grants.withdraw, job.approval)
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

    async def run_claimed(self, job: Job, *, cancelled: bool = False) -> None:
        """Run a claimed job to its end; at once when it was cancelled meanwhile."""
        running = Running(
            self.core,
            self.tables,
            job,
            autonomous=self._settings.autonomous,
            standing_still=self.standing_still,
        )
        worker = None if job.worker is None else self.workers.get(job.worker)
        try:
            if cancelled:
                await running.end_cancelled()
            else:
                await running.run(worker, self._settings.timeout)
        finally:
            self.standing_still.discard(job.id)
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    async def unpark(self) -> int:
        """Let the jobs go on whose requests were answered or have lapsed; how many still wait."""
        waiting = 0
        for job_id, approval in await self._run(self.tables.parked):
            if await self._run(self.core.grants.is_open, approval):
                waiting += 1
                continue
            await self._run(self.tables.unpark, job_id, approval)
            if self._executor is not None:
                self._executor.wake()
        return waiting

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


def _wrong(
    parameter: str, expected: str, message: str, *, hint: str | None = None
) -> InvalidParameters:
    issue = Issue(f"/{parameter}", "invalid_value", expected, "something else")
    return InvalidParameters(message, issues=[issue], hint=hint)
