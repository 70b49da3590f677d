"""Fire routines when they are due or something happens, and run each firing as a job."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any, Final

import attrs

from hardpoint import HardpointError, JobContext, compile_validator
from hardpoint.interfaces import JobRequest, JobWorker
from hardpoint_builtin.routines.cron import parse_cron
from hardpoint_builtin.routines.running import run_routine
from hardpoint_builtin.routines.tables import Routine, RoutineTables, Run

logger = logging.getLogger(__name__)

WORKER: Final = "routine"
LOOK_EVERY: Final = 15.0
"""Seconds between two looks for what other processes have changed."""
MAX_MESSAGE: Final = 100_000


class RoutineEngine(JobWorker):
    """Watches the clock where jobs are worked off, and is the worker that does a firing."""

    general = False
    """No job is given to it but by a routine."""

    def __init__(self) -> None:
        self._services: Any = None
        self._tables: RoutineTables | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed: asyncio.Event | None = None

    async def start(self, services: Any) -> None:
        self._services = services
        self._changed = asyncio.Event()
        if services.keeps_state and services.jobs.runs_here:
            self._watch()

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def tables(self) -> RoutineTables:
        if self._services is None:
            raise HardpointError("the routines have not been started; enter the runtime first")
        if self._tables is None:
            self._tables = RoutineTables(self._services)
        return self._tables

    def changed(self) -> None:
        """A routine was made or changed here: look at the clock anew."""
        if self._changed is not None:
            self._changed.set()
        if self._task is None and self._services is not None and self._services.jobs.runs_here:
            self._watch()

    async def read(self, function: Any, *args: Any, **options: Any) -> Any:
        return await self.tables.tables.run(function, *args, **options)

    # the clock ---------------------------------------------------------------------------------

    def _watch(self) -> None:
        self._task = asyncio.create_task(self._keep_time(), name="hardpoint-routines")

    async def _keep_time(self) -> None:
        assert self._changed is not None
        while True:
            try:
                await self.fire_due()
                pause = await self._pause()
            except Exception:  # a database that is away for a moment must not end all routines
                logger.exception("the routines cannot reach their store")
                pause = LOOK_EVERY
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()

    async def _pause(self) -> float:
        soonest = await self.read(self.tables.soonest)
        if soonest is None:
            return LOOK_EVERY
        return float(min(LOOK_EVERY, max(0.05, soonest - self._services.clock.now())))

    async def fire_due(self) -> Sequence[Run]:
        """Fire what is due. What was missed while nobody looked fires once."""
        now = self._services.clock.now()
        fired: list[Run] = []
        for routine in await self.read(self.tables.due, now):
            again = next_fire(routine.request, now)
            if await self.read(self.tables.take, routine, now, again):
                fired.append(await self._fire(routine, "cron"))
        return fired

    # events ------------------------------------------------------------------------------------

    async def fire(self, routine: Routine, *, parent: JobContext | None = None) -> Run:
        """Fire a routine now, whatever its schedule.

        Raises:
            HardpointError: Another process fired or changed it at the same moment.
        """
        now = self._services.clock.now()
        if not await self.read(self.tables.take, routine, now, routine.next_fire):
            raise HardpointError(f"routine {routine.name!r} is switched off, or just fired")
        return await self._fire(routine, "manual", parent=parent)

    async def message_received(self, user_id: str, channel: str, text: str) -> Sequence[str]:
        """Tell the routines of a user about a message; the names of those that fire."""
        return await self._happened(
            user_id,
            "message_event",
            lambda request: (
                request.get("channel") in (None, channel)
                and matches(request["pattern"], text[:MAX_MESSAGE])
            ),
            {"channel": channel, "text": text[:MAX_MESSAGE]},
        )

    async def event(
        self,
        user_id: str,
        source: str,
        event_type: str,
        payload: Mapping[str, Any],
        *,
        parent: JobContext | None = None,
    ) -> Sequence[str]:
        """Tell the routines of a user about an event; the names of those that fire."""
        return await self._happened(
            user_id,
            "system_event",
            lambda request: (
                request["source"] == source
                and request["event_type"] == event_type
                and all(_same(payload.get(k), v) for k, v in request.get("filters", {}).items())
            ),
            {"source": source, "event_type": event_type, "payload": dict(payload)},
            parent=parent,
        )

    async def _happened(
        self,
        user_id: str,
        kind: str,
        fits: Any,
        cause: Mapping[str, Any],
        *,
        parent: JobContext | None = None,
    ) -> Sequence[str]:
        now = self._services.clock.now()
        fired: list[str] = []
        for routine in await self.read(self.tables.of_user, user_id, kind):
            if not routine.enabled or not fits(routine.request):
                continue
            if await self.read(self.tables.take, routine, now, None, cooled=True):
                await self._fire(routine, kind, cause=cause, parent=parent)
                fired.append(routine.name)
        return fired

    # firing ------------------------------------------------------------------------------------

    async def _fire(
        self,
        routine: Routine,
        kind: str,
        *,
        cause: Mapping[str, Any] | None = None,
        parent: JobContext | None = None,
    ) -> Run:
        jobs = self._services.jobs
        context = jobs.context_of(routine.user_id, routine.context)
        if parent is not None:
            # A routine that fires routines goes only so deep.
            context = attrs.evolve(context, job_id=parent.job_id)
        request = JobRequest(
            title=f"routine {routine.name}"[:200],
            description=routine.prompt,
            worker=WORKER,
            input={"routine": routine.id, "cause": dict(cause or {"kind": kind})},
        )
        run = Run(
            id=uuid.uuid4().hex,
            routine_id=routine.id,
            user_id=routine.user_id,
            cause=kind,
            fired=self._services.clock.now(),
            job_id=None,
            problem=None,
        )
        try:
            run = attrs.evolve(run, job_id=(await jobs.create(request, context)).id)
        except HardpointError as error:
            logger.warning("routine %s cannot run: %s", routine.name, error)
            run = attrs.evolve(run, problem=error.message)
        await self.read(self.tables.add_run, run)
        return run

    async def run(self, job: Mapping[str, Any], context: JobContext) -> Any:
        """Do one firing; called by the jobs."""
        given = job["input"] if isinstance(job["input"], Mapping) else {}
        routine = await self.read(self.tables.by_id, str(given.get("routine")))
        if routine is None or routine.user_id != context.user_id:
            raise HardpointError("the routine of this job is no longer there")
        return await run_routine(routine, given.get("cause", {}), job, context)


def next_fire(request: Mapping[str, Any], now: float) -> float | None:
    """When a routine is due after now; None for one without a schedule."""
    if "schedule" not in request:
        return None
    return parse_cron(request["schedule"]).next_after(now, zone_of(request.get("timezone")))


def zone_of(name: str | None) -> tzinfo:
    if not name:
        return UTC
    from hardpoint_builtin.zones import find_zone

    return find_zone(name, "timezone")


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern occurs in a text. In bounded time, also for hostile patterns.

    Raises:
        SchemaError: It is no pattern.
    """
    # The matcher that holds arguments against patterns: it is made for patterns of strangers.
    properties = {"text": {"type": "string", "pattern": pattern}}
    return bool(
        compile_validator({"type": "object", "properties": properties}).is_valid({"text": text})
    )


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right
