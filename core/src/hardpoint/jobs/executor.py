"""Bring pending jobs to where they run. The one here runs them in this process, under a lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Any, Final, Protocol

from hardpoint.interfaces import JobExecutor
from hardpoint.jobs.model import Job

logger = logging.getLogger(__name__)

LOOK_EVERY: Final = 1.0
"""Seconds between two looks for jobs that other processes made."""
LOOK_FOR_CANCELS: Final = 0.25
"""The same while jobs run here, which another process may want to end."""
LOOK_FOR_ANSWERS: Final = 0.3
"""The same while jobs wait for an approval."""
RECOVER_EVERY: Final = 15.0


class ClaimableJobs(Protocol):
    """The jobs as an executor sees them: `services.jobs`."""

    core: Any

    @property
    def standing_still(self) -> Collection[str]: ...

    @property
    def lease(self) -> float: ...

    async def claim(self, job_id: str | None = None) -> Job | None: ...

    async def run_claimed(self, job: Job, *, cancelled: bool = False) -> None: ...

    async def unpark(self) -> int: ...

    async def renew(self) -> None: ...

    async def to_cancel(self) -> Sequence[str]: ...

    async def recover(self) -> Sequence[str]: ...


class LocalExecutor(JobExecutor):
    """Runs jobs as tasks of this process's loop, several at a time."""

    _jobs: ClaimableJobs

    def __init__(self, *, concurrency: int, shared: bool) -> None:
        """Make one that does nothing yet.

        Args:
            concurrency: How many run at one time.
            shared: Whether other processes see the same jobs.
        """
        self._concurrency = concurrency
        self._shared = shared
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._awake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._parked = 0
        self._claiming = False
        self._begun: set[str] = set()
        self._ending: set[str] = set()
        """To be cancelled, and claimed or about to be: their tasks have not begun."""
        self.idle = asyncio.Event()
        """Set while nothing runs and nothing waits."""

    async def start(self, jobs: ClaimableJobs) -> None:
        self._jobs = jobs
        if self._loop is None:
            self._loop = asyncio.create_task(self._work(), name="hardpoint-jobs")

    async def stop(self) -> None:
        """Cancel what runs here; those jobs end as cancelled."""
        tasks = [*self._tasks.values()]
        if self._loop is not None:
            tasks.append(self._loop)
            self._loop = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        self._awake.set()

    def cancel(self, job_id: str) -> None:
        task = self._tasks.get(job_id)
        if task is not None and job_id in self._begun:
            task.cancel()
        elif task is not None or self._claiming:
            # A task that is cancelled before its first step would write nothing down.
            self._ending.add(job_id)

    async def run_now(self, job_id: str) -> bool:
        """Run one job at once, beside the queue; False when it cannot be had."""
        job = await self._claim(job_id)
        if job is None:
            return False
        self._begin(job)
        return True

    async def _claim(self, job_id: str | None = None) -> Job | None:
        self._claiming = True
        try:
            return await self._jobs.claim(job_id)
        finally:
            self._claiming = False

    # the loop ----------------------------------------------------------------------------------

    async def _work(self) -> None:
        clock = self._jobs.core.clock
        renewed = recovered = looked = float("-inf")
        while True:
            try:
                now = clock.monotonic()
                if self._shared and now - recovered >= RECOVER_EVERY:
                    await self._jobs.recover()
                    recovered = now
                if self._tasks and now - renewed >= self._jobs.lease / 3:
                    await self._jobs.renew()
                    renewed = now
                if self._shared and self._tasks:
                    for job_id in await self._jobs.to_cancel():
                        self.cancel(job_id)
                due = LOOK_FOR_ANSWERS if self._parked else LOOK_EVERY
                if self._awake.is_set() or now - looked >= due:
                    self._awake.clear()
                    looked = now
                    self._parked = await self._jobs.unpark()
                    await self._fill()
            except Exception:  # a database that is away for a moment must not end all jobs
                logger.exception("the job executor cannot reach its store")
            await self._rest()

    async def _fill(self) -> None:
        while len(self._tasks.keys() - self._jobs.standing_still) < self._concurrency:
            job = await self._claim()
            if job is None:
                self._ending &= self._tasks.keys()  # those were not for here
                if not self._tasks:
                    self.idle.set()
                return
            self._begin(job)

    async def _rest(self) -> None:
        if not self._shared and not self._parked:
            await self._awake.wait()
            return
        pause = LOOK_FOR_CANCELS if self._tasks or self._parked else LOOK_EVERY
        try:
            async with asyncio.timeout(pause):
                await self._awake.wait()
        except TimeoutError:
            pass

    def _begin(self, job: Job) -> None:
        self.idle.clear()
        task = asyncio.create_task(self._run(job), name=f"hardpoint-job-{job.id}")
        self._tasks[job.id] = task
        task.add_done_callback(lambda done: self._end(job.id, done))

    async def _run(self, job: Job) -> None:
        self._begun.add(job.id)
        await self._jobs.run_claimed(job, cancelled=job.id in self._ending)

    def _end(self, job_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(job_id, None)
        self._begun.discard(job_id)
        self._ending.discard(job_id)
        if not task.cancelled() and task.exception() is not None:
            logger.error("job %s could not be ended properly", job_id, exc_info=task.exception())
        self._awake.set()
