"""Run one claimed job to its end: its calls, or its worker. What runs when is in `executor`."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from hardpoint._call import run_call
from hardpoint._state import Watch
from hardpoint.calls import CallOutcome, ToolCall
from hardpoint.context import CallHandle, JobContext
from hardpoint.errors import ApprovalRequired, HardpointError, NotAuthorized, ToolError
from hardpoint.interfaces import JobWorker
from hardpoint.jobs.model import PREVIEW, Job, Prompt, job_context
from hardpoint.parts import ToolOutput

if TYPE_CHECKING:
    from hardpoint._core import Core
    from hardpoint.jobs.tables import JobTables

logger = logging.getLogger(__name__)

REPORT_EVERY: Final = 0.5
"""Seconds between two kept reports of progress."""
LOOK_FOR_PROMPTS: Final = 0.3
LOOK_FOR_ANSWERS: Final = 0.3
MAX_RESULT: Final = 1_000_000
"""Characters of a job's result, as JSON; longer ones become a reference."""


class LostLease(HardpointError):
    """Another process has taken the job for dead; what happens here counts no more."""


class Parked(HardpointError):
    """One of the job's calls waits for an approval."""

    def __init__(self, approval_id: str, results: list[dict[str, Any]]) -> None:
        super().__init__(f"the job waits for {approval_id}")
        self.approval_id = approval_id
        self.results = results


class Running:
    """A job on its way, in this process."""

    def __init__(
        self,
        core: Core,
        tables: JobTables,
        job: Job,
        *,
        autonomous: bool,
        standing_still: set[str] | None = None,
    ) -> None:
        """Take a claimed job.

        Args:
            core: The runtime's core.
            tables: The jobs in the store.
            job: The job.
            autonomous: Whether `unless_auto_approved` passes.
            standing_still: Has the job's id while its worker waits for an answer.
        """
        self.core = core
        self.tables = tables
        self.job = job
        self.context = job_context(job, autonomous=autonomous)
        self.cost: Decimal | None = job.cost
        self.done = 0
        self._standing_still = set() if standing_still is None else standing_still
        self._waits: list[str] = []
        self._time: asyncio.Timeout | None = None
        self._time_left = 0.0
        self._reported = float("-inf")
        self._reports: set[asyncio.Task[None]] = set()

    # from the claim to the end -----------------------------------------------------------------

    async def run(self, worker: JobWorker | None, timeout: float) -> None:
        """Do the work and write down how it ended.

        Cancelling this ends the job: as `cancelled` when somebody asked for that, as `failed` when
        the process stops.
        """
        state, result, error = "failed", None, None
        try:
            async with asyncio.timeout(timeout) as clock:
                self._time = clock
                state, result, error = await self._work(worker)
        except asyncio.CancelledError:
            await asyncio.shield(self._stopped())
            raise
        except Parked as parked:
            await asyncio.shield(self._park(parked))
            return
        except LostLease:
            logger.warning("job %s is no longer this process's", self.job.id)
            return
        except TimeoutError as caught:
            kind = "timeout" if clock.expired() else "execution_failed"
            error = {
                "kind": kind,
                "message": f"not done within {timeout:g} s: {caught}".rstrip(": "),
            }
        except ToolError as caught:
            error = {"kind": caught.kind, "message": caught.message, "hint": caught.hint}
        except Exception as caught:  # a worker is foreign code
            logger.exception("the worker of job %s failed", self.job.id)
            error = {"kind": "execution_failed", "message": f"{type(caught).__name__}: {caught}"}
        await self._finish(state, result, error)

    async def _work(self, worker: JobWorker | None) -> tuple[str, Any, dict[str, Any] | None]:
        refuse_moved_folder(self.job)
        if self.job.worker is None:
            return await self._make_calls()
        if worker is None:
            raise ToolError(f"no worker {self.job.worker!r} is registered here")
        result = await worker.run(self._told(), self._worker_context())
        return "completed", await self._storable(result), None

    async def end_cancelled(self) -> None:
        """End a job that was cancelled before its first step."""
        await self._finish("cancelled", None, None)

    async def _stopped(self) -> None:
        job = await self._run_sync(self.tables.get, self.job.id)
        if job is not None and job.cancelling:
            await self._finish("cancelled", None, None)
            return
        message = "the process that ran the job was stopped; its events say what was done"
        await self._finish("failed", None, {"kind": "interrupted", "message": message})

    async def _park(self, parked: Parked) -> None:
        """Lay the job aside; whichever process sees the answer goes on with it."""
        await self._end_reports()
        kept = await self._storable(parked.results)
        laid = await self._run_sync(
            lambda: self.tables.park(
                self.job,
                parked.approval_id,
                now=self.core.clock.now(),
                done=self.done,
                result=kept,
                cost=self.cost,
            )
        )
        if not laid:
            await self._stopped()

    async def _finish(self, state: str, result: Any, error: Mapping[str, Any] | None) -> None:
        await self._end_reports()
        if result is None:
            kept = await self._run_sync(self.tables.get, self.job.id)
            result = None if kept is None else kept.result
        if error is not None:
            error = {**error, "message": self.core.leaks.redact(str(error["message"]))}
        await self._run_sync(
            lambda: self.tables.finish(
                self.job,
                state,
                now=self.core.clock.now(),
                result=result,
                error=error,
                cost=self.cost,
                done=self.done if self.job.calls else None,
            )
        )

    async def _end_reports(self) -> None:
        """No report may use the store when the job has ended, and the runtime perhaps with it."""
        reports = [*self._reports]
        for report in reports:
            report.cancel()
        await asyncio.gather(*reports, return_exceptions=True)

    # a list of calls ---------------------------------------------------------------------------

    async def _make_calls(self) -> tuple[str, Any, dict[str, Any] | None]:
        results = await self._earlier_results()
        lapsed = await self._lapsed(self.job.approval)
        if lapsed is not None:
            results.append(_refused(self.job.calls[len(results)].tool, lapsed))
        self.done = len(results)
        kept: Any = await self._storable(results)
        for number, planned in list(enumerate(self.job.calls, 1))[len(results) :]:
            if results and not results[-1]["ok"] and not self.job.keep_going:
                break
            outcome = await self._call_once(planned.tool, planned.params)
            awaited = await self._awaited(outcome)
            if awaited is not None:
                raise Parked(awaited, results)
            results.append(_shown(outcome))
            self.done = number
            await self._report(number, len(self.job.calls), f"{planned.tool}: {_word(outcome)}")
            # What is done is kept at once: after a crash it tells how far the job came.
            kept = await self._storable(results)
            await self._run_sync(self.tables.keep_result, self.job, kept)
        failed = [
            f"call {number} ({told['tool']}): {told['error']['message']}"
            for number, told in enumerate(results, 1)
            if not told["ok"]
        ]
        if not failed:
            return "completed", kept, None
        left = len(self.job.calls) - len(results)
        rest = f"; {left} further calls were not made" if left else ""
        return "failed", kept, {"kind": "call_failed", "message": "; ".join(failed) + rest}

    async def _earlier_results(self) -> list[dict[str, Any]]:
        """What the calls gave that were made before the job was laid aside."""
        kept = self.job.result
        if isinstance(kept, Mapping):
            kept = json.loads(await self._whole(str(kept["result_ref"])))
        return list(kept or ())

    async def _whole(self, ref: str) -> str:
        """All pages of a kept result."""
        text, offset = "", 0
        while offset is not None:
            page = await self.core.services.results.read(
                ref, offset, MAX_RESULT, user=self.job.user_id
            )
            text, offset = text + page["text"], page["next_offset"]
        return text

    async def call(self, tool: str, params: Mapping[str, Any], *, wait: bool = True) -> CallOutcome:
        """One call through all ten steps, with the rights of whoever made the job.

        Args:
            tool: Its name.
            params: Its arguments.
            wait: Stand still while the call waits for an approval, instead of giving
                `approval_required` back.
        """
        outcome = await self._call_once(tool, params)
        while wait and (awaited := await self._awaited(outcome)) is not None:
            lapsed = await self._stand_still(awaited)
            if lapsed is not None:
                return attrs.evolve(outcome, error=_unanswered(lapsed))
            outcome = await self._call_once(tool, params)
        return outcome

    async def _call_once(self, tool: str, params: Mapping[str, Any]) -> CallOutcome:
        # What ran before, or somebody while the job waited, may have put a link in its place.
        refuse_moved_folder(self.job)
        await self._event("call_started", {"tool": tool})
        watch = Watch(progress=self.report)
        outcome = await run_call(self.core, ToolCall(tool, dict(params)), self.context, watch=watch)
        if outcome.output is not None and outcome.output.cost is not None:
            self.cost = (self.cost or Decimal(0)) + outcome.output.cost
        await self._event("call_finished", {"tool": tool, **_summary(outcome)})
        return outcome

    # approvals ---------------------------------------------------------------------------------

    async def _awaited(self, outcome: CallOutcome) -> str | None:
        """The request that a call waits for; None when it waits for none.

        A call that began and then met a refusal inside is not made again: half of it is done.
        """
        error = outcome.error
        if not isinstance(error, ApprovalRequired) or error.approval_id is None:
            return None
        pending = await self._run_sync(self.core.grants.get, error.approval_id)
        own = pending is not None and pending.request["digest"] == outcome.digest
        return error.approval_id if own else None

    async def _lapsed(self, approval_id: str | None) -> str | None:
        """Why nobody will answer a request any more; None when that is not so."""
        if approval_id is None:
            return None
        found = await self._run_sync(self.core.grants.get, approval_id)
        if found is None:
            return f"the request {approval_id} was withdrawn, so the answer is no"
        if await self._run_sync(self.core.grants.is_open, approval_id):
            return None
        if found.state == "pending":
            return f"nobody answered {approval_id} in time, so the answer is no"
        return None

    async def _stand_still(self, approval_id: str) -> str | None:
        """Wait in this process until a request is answered; why it never will be, or None.

        Meanwhile the job's time stands still, and it keeps no other job from running.
        """
        loop = asyncio.get_running_loop()
        if not self._waits and self._time is not None and (end := self._time.when()) is not None:
            self._time_left = end - loop.time()
            self._time.reschedule(None)
        self._waits.append(approval_id)
        self._standing_still.add(self.job.id)
        try:
            await self._hold(approval_id)
            # Any process may answer; only the store tells.
            while await self._run_sync(self.core.grants.is_open, approval_id):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_FOR_ANSWERS)
        finally:
            self._waits.remove(approval_id)
            if not self._waits:
                self._standing_still.discard(self.job.id)
                if self._time is not None:
                    self._time.reschedule(loop.time() + self._time_left)
        await self._hold(self._waits[-1] if self._waits else None)
        return await self._lapsed(approval_id)

    async def _hold(self, approval_id: str | None) -> None:
        now = self.core.clock.now()
        if not await self._run_sync(lambda: self.tables.hold(self.job, approval_id, now=now)):
            raise LostLease(f"job {self.job.id} belongs to another process")

    # a worker ----------------------------------------------------------------------------------

    def _told(self) -> dict[str, Any]:
        job = self.job
        return {
            "id": job.id,
            "title": job.title,
            "description": job.description,
            "input": job.input,
            "user_id": job.user_id,
        }

    def _worker_context(self) -> JobContext:
        services = JobServices(self.core.services, self)
        handle = CallHandle(
            call_id=f"job_{self.job.id}",
            services=services,
            origin="job",
            progress=self.report,
        )
        return self.context.bound(handle)

    async def prompts(self) -> AsyncIterator[Prompt]:
        """What people tell the job while it runs; ends after a prompt that says it is the last."""
        while True:
            prompt = await self._run_sync(self.tables.take_prompt, self.job.id)
            if prompt is None:
                await asyncio.sleep(LOOK_FOR_PROMPTS)
                continue
            yield prompt
            if prompt.done:
                return

    async def note(self, text: str, **data: Any) -> None:
        """Write down an event that whoever asks for the job's events will see."""
        await self._event("note", {"text": str(text)[:PREVIEW], **data})

    # progress ----------------------------------------------------------------------------------

    def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Keep how far the job is; not more often than people read it."""
        now = self.core.clock.monotonic()
        if now - self._reported < REPORT_EVERY:
            return
        self._reported = now
        if self.job.calls:
            # Inside a call: the job itself is as far as its finished calls.
            done, total = self.done, len(self.job.calls)
        loop = self.core.services.loop or asyncio.get_running_loop()

        def start() -> None:
            task = loop.create_task(self._report(done, total, message or ""))
            self._reports.add(task)
            task.add_done_callback(self._forget)

        # A synchronous tool reports from its own thread.
        loop.call_soon_threadsafe(start)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._reports.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.debug("a report of job %s was not kept", self.job.id, exc_info=task.exception())

    async def _report(self, done: float, total: float | None, message: str) -> None:
        said = self.core.leaks.redact(message)
        now = self.core.clock.now()
        if not await self._run_sync(
            lambda: self.tables.progress(self.job, done, total, said, now=now)
        ):
            raise LostLease(f"job {self.job.id} belongs to another process")

    async def _event(self, kind: str, data: Mapping[str, Any]) -> None:
        now = self.core.clock.now()
        if not await self._run_sync(lambda: self.tables.event(self.job, kind, data, now=now)):
            raise LostLease(f"job {self.job.id} belongs to another process")

    # inside ------------------------------------------------------------------------------------

    async def _run_sync(self, function: Any, *args: Any) -> Any:
        return await self.tables.tables.run(function, *args)

    async def _storable(self, result: Any) -> Any:
        """A result as it is kept: without secrets, and as a reference when it is long."""
        value, _ = self.core.leaks.redact_value(_plain(result))
        text = json.dumps(value, default=str)
        if len(text) <= MAX_RESULT:
            return value
        ref = await self.core.services.results.save(
            text,
            context=self.context,
            name=f"job-{self.job.id}.json",
            media_type="application/json",
        )
        return {"result_ref": ref, "size": len(text), "preview": text[:PREVIEW]}


class JobServices:
    """`context.services` of a worker: the core, and `job`, the running job itself."""

    def __init__(self, services: Any, running: Running) -> None:
        self._services = services
        self.job = running
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._services, name)

    @property
    def approvals(self) -> Any:
        """The requests of the job's user, to look at."""
        return self._services.approvals.of(self.job.job.user_id)

    @property
    def secrets(self) -> Any:
        """The secrets of the job's user, and nobody else's."""
        return self._services.secrets.of(self.job.job.user_id)

    def http(self, bindings: Any = (), **options: Any) -> Any:
        options["user_id"] = self.job.job.user_id
        return self._services.http(bindings, **options)

    async def run(
        self,
        tool: str,
        params: Mapping[str, Any],
        *,
        parent: JobContext | None = None,
        wait: bool = True,
    ) -> CallOutcome:
        # The job decides whose rights count, whatever context was handed in.
        return await self.job.call(tool, params, wait=wait)

    async def call(
        self, tool: str, params: Mapping[str, Any], *, parent: JobContext | None = None
    ) -> ToolOutput:
        return (await self.job.call(tool, params)).unwrap()

    def call_sync(self, tool: str, params: Mapping[str, Any]) -> ToolOutput:
        return asyncio.run_coroutine_threadsafe(self.call(tool, params), self._loop).result()


def _plain(value: Any) -> Any:
    """JSON of whatever a worker returned."""
    return json.loads(json.dumps(value, default=str))


def refuse_moved_folder(job: Job) -> None:
    """Hold a chosen folder against what it was when it was chosen.

    Raises:
        NotAuthorized: It is gone, or a link now leads elsewhere.
    """
    if job.project_dir is None:
        return
    folder = Path(job.project_dir)
    try:
        same = folder.resolve(strict=True) == folder and folder.is_dir()
    except OSError:
        same = False
    if not same:
        raise NotAuthorized(f"the folder {job.project_dir!r} of the job is not there any more")


def _unanswered(why: str) -> NotAuthorized:
    return NotAuthorized(why, hint="Go another way, or ask again later.")


def _refused(tool: str, why: str) -> dict[str, Any]:
    error = _unanswered(why)
    return {"ok": False, "tool": tool, "error": {"kind": error.kind, "message": error.message}}


def _word(outcome: CallOutcome) -> str:
    return "done" if outcome.error is None else outcome.error.kind


def _shown(outcome: CallOutcome) -> dict[str, Any]:
    told = outcome.to_json()
    kept = ("ok", "tool", "result", "error", "truncated", "result_ref", "warnings")
    return {
        name: told[name] for name in kept if told.get(name) not in (None, [], False) or name == "ok"
    }


def _summary(outcome: CallOutcome) -> dict[str, Any]:
    if outcome.error is not None:
        error = {"kind": outcome.error.kind, "message": outcome.error.message[:PREVIEW]}
        return {"ok": False, "error": error}
    text = outcome.result
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False, default=str)
    return {"ok": True, "preview": text[:PREVIEW]}
