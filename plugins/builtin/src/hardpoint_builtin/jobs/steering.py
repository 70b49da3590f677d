"""`cancel_job`, `job_prompt`: end a background job, or tell it something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hardpoint import ApprovalRequirement, Effect, InvalidParameters, JobContext, ToolOutput
from hardpoint.errors import Issue
from hardpoint_builtin.jobs.common import JOB_ID, JobTool


class CancelJobTool(JobTool):
    name = "cancel_job"
    description = "End a background job: a waiting one never runs, a running one is stopped."

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"job_id": JOB_ID},
            "required": ["job_id"],
            "additionalProperties": False,
        }

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        return ApprovalRequirement.UNLESS_AUTO_APPROVED

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("delete",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        jobs = self.jobs(ctx)
        job = await jobs.get(params["job_id"], ctx.user_id)
        if not job.is_active:
            message = f"the job had ended already: {job.state}"
        else:
            job = await jobs.cancel(job)
            message = (
                "the job was stopped; what it had done stays done"
                if job.state == "cancelled"
                else "the job was told to stop and has not yet; look again with job_status"
                if job.is_active
                else f"the job ended by itself first: {job.state}"
            )
        return ToolOutput.success({"job_id": job.id, "status": job.state, "message": message})


class JobPromptTool(JobTool):
    name = "job_prompt"
    description = (
        "Tell a running background job something: an answer it asked for, a change of plan. "
        "done=true says that nothing more will come."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "job_id": JOB_ID,
                "content": {"type": "string", "description": "What to tell it"},
                "done": {"type": "boolean", "default": False},
            },
            "required": ["job_id", "content"],
            "additionalProperties": False,
        }

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        return ApprovalRequirement.UNLESS_AUTO_APPROVED

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("write",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        done = params.get("done", False)
        if not params["content"].strip() and not done:
            issue = Issue("/content", "invalid_value", "some text", "nothing")
            raise InvalidParameters(
                "the content is empty; say something, or done=true", issues=[issue]
            )
        jobs = self.jobs(ctx)
        job = await jobs.get(params["job_id"], ctx.user_id)
        await jobs.prompt(job, params["content"], done=done)
        return ToolOutput.success(
            {
                "job_id": job.id,
                "status": "queued",
                "message": "the job reads it when it next looks",
                "done": done,
            }
        )
