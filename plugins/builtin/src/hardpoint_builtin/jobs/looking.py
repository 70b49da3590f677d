"""`list_jobs`, `job_status`, `job_events`: look at background jobs."""

from __future__ import annotations

from typing import Any, Final

from hardpoint import JobContext, ToolOutput
from hardpoint_builtin.jobs.common import JOB_ID, JobTool, iso, shown

LISTED: Final = 100
_FILTERS: Final[dict[str, tuple[str, ...]]] = {
    "all": (),
    "active": ("pending", "in_progress", "waiting"),
    "waiting": ("waiting",),
    "completed": ("completed",),
    "failed": ("failed",),
    "cancelled": ("cancelled",),
}


class ListJobsTool(JobTool):
    name = "list_jobs"
    description = "List your background jobs, the newest first, with their ids and status."

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "filter": {
                    "type": "string",
                    "enum": list(_FILTERS),
                    "default": "all",
                    "description": "Which ones",
                }
            },
            "required": [],
            "additionalProperties": False,
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        jobs = self.jobs(ctx)
        states = _FILTERS[params.get("filter", "all")]
        found = await jobs.list(ctx.user_id, states, limit=LISTED)
        counts = await jobs.counts(ctx.user_id)
        summary = {
            state: counts.get(state, 0)
            for state in (
                "pending",
                "in_progress",
                "waiting",
                "completed",
                "failed",
                "cancelled",
            )
        }
        listed = [
            {
                "job_id": job.id,
                "title": job.title,
                "status": job.state,
                "created_at": iso(job.created),
                **({"approval_id": job.approval} if job.state == "waiting" else {}),
            }
            for job in found
        ]
        result: dict[str, Any] = {
            "jobs": listed,
            "summary": {"total": sum(summary.values()), **summary},
        }
        if len(listed) == LISTED:
            result["note"] = f"only the newest {LISTED} are listed"
        return ToolOutput.success(result)


class JobStatusTool(JobTool):
    name = "job_status"
    description = (
        "How far a background job is: its result or error when it has ended, and which approval it"
        " waits for while it is `waiting`."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"job_id": JOB_ID},
            "required": ["job_id"],
            "additionalProperties": False,
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        return ToolOutput.success(shown(await self.jobs(ctx).get(params["job_id"], ctx.user_id)))


class JobEventsTool(JobTool):
    name = "job_events"
    description = "What happened in a background job: calls made, progress, messages, its end."

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "job_id": JOB_ID,
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 1000,
                    "default": 50,
                    "description": "How many of the latest events",
                },
            },
            "required": ["job_id"],
            "additionalProperties": False,
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        jobs = self.jobs(ctx)
        job = await jobs.get(params["job_id"], ctx.user_id)
        events = await jobs.events(job, params.get("limit", 50))
        told = [
            {
                "number": e.number,
                "at": iso(e.at),
                "event": e.kind,
                **({"data": e.data} if e.data else {}),
            }
            for e in events
        ]
        return ToolOutput.success(
            {"job_id": job.id, "status": job.state, "events": told, "count": len(told)}
        )
