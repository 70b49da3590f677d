"""What the job tools share: where the jobs are, and how one is shown."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from hardpoint import Effect, JobContext, Tool

JOB_ID: Final = {
    "type": "string",
    "description": "The job's id, or its first four characters or more",
}


class JobTool(Tool):
    """A tool over the jobs of the caller, and of nobody else."""

    # Titles and results come from tools and models.
    provenance = "untrusted"

    def __init__(self, jobs: Any = None) -> None:
        """Make one over these jobs, or over those of the runtime that calls it."""
        self._jobs = jobs

    def jobs(self, ctx: JobContext) -> Any:
        return self._jobs if self._jobs is not None else ctx.services.jobs

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("read",))


def shown(job: Any) -> dict[str, Any]:
    """A job as the tools give it."""
    told: dict[str, Any] = {
        "job_id": job.id,
        "title": job.title,
        "description": job.description,
        "status": job.state,
        "created_at": iso(job.created),
        "started_at": iso(job.started),
        "completed_at": iso(job.finished),
        "actual_cost": None if job.cost is None else str(job.cost),
    }
    if job.total is not None or job.message:
        told["progress"] = {"done": job.done, "total": job.total, "message": job.message}
    if job.project_dir is not None:
        told["project_dir"] = job.project_dir
    if job.state == "completed":
        told["result"] = job.result
    elif job.state == "waiting":
        told["approval_id"] = job.approval
        told["message"] = (
            f"it goes on when {job.approval} is answered: `hardpoint approvals answer"
            f" {job.approval}`"
        )
    elif job.error is not None:
        told["error"] = dict(job.error)
    told["fallback_deliverable"] = _fallback(job)
    return told


def _fallback(job: Any) -> dict[str, Any] | None:
    """What there is of a job that did not come to its end."""
    if job.state not in ("failed", "cancelled"):
        return None
    reason = job.error["message"] if job.error is not None else "the job was cancelled"
    started = job.started if job.started is not None else job.finished
    return {
        "failure_reason": reason,
        "partial_result": job.result,
        "calls_done": int(job.done) if job.calls else None,
        "calls_planned": len(job.calls) or None,
        "elapsed_secs": round(job.finished - started, 3),
    }


def iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
