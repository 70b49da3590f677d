"""`create_job`: have something done in the background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from hardpoint import (
    ApprovalRequirement,
    Canonical,
    Effect,
    InvalidParameters,
    JobContext,
    NotAuthorized,
    ToolOutput,
    ToolRateLimitConfig,
)
from hardpoint.errors import Issue
from hardpoint.interfaces import JobRequest, PlannedCall
from hardpoint_builtin.jobs.common import JobTool, shown

WAIT: Final = 600.0
"""Seconds that `wait` waits at most; the job goes on after that."""


_MODES: Final = ("worker", "claude_code")

CALLS_SCHEMA: Final = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "tool": {"type": "string", "description": "Name of the tool"},
            "params": {
                "type": "object",
                "properties": {},
                "additionalProperties": True,
                "description": "Its arguments",
            },
        },
        "required": ["tool"],
        "additionalProperties": False,
    },
    "description": "Tool calls to make, in this order",
}


class Judged(dict[str, Any]):
    """Canonical arguments that remember what approval their calls need of this caller."""

    requirement = ApprovalRequirement.UNLESS_AUTO_APPROVED


async def judge_calls(
    params: Mapping[str, Any], calls: Sequence[PlannedCall], context: JobContext, jobs: Any
) -> Judged:
    """The arguments with the approval that their calls would need of this caller now.

    A call that the job itself will ask about, and wait for, needs none here: a person sees the very
    call before it is made.

    Raises:
        NotAuthorized: One of the calls is denied.
        ToolError: One of them could not be made as it is written.
    """
    judged = Judged(params)
    judged.requirement = ApprovalRequirement.NEVER
    verdicts = await jobs.preview(calls, context) if calls else ()
    later = await jobs.preview(calls, context, in_job=True) if calls else ()
    for number, (call, verdict) in enumerate(zip(calls, verdicts, strict=True)):
        if verdict.decision == "deny":
            raise NotAuthorized(
                f"calls[{number}]: {call.tool!r} is denied: {verdict.explain()}",
                decision=verdict.to_json(call.tool),
            )
        if verdict.decision == "ask" and later[number].decision != "ask":
            least = ApprovalRequirement.UNLESS_AUTO_APPROVED
            asked = max(verdict.requirement, least, key=lambda need: need.rank)
            judged.requirement = max(judged.requirement, asked, key=lambda need: need.rank)
    return judged


def planned_calls(params: Mapping[str, Any]) -> list[PlannedCall]:
    """The calls in some arguments."""
    return [PlannedCall(call["tool"], call.get("params", {})) for call in params.get("calls", ())]


class CreateJobTool(JobTool):
    """A job makes a list of tool calls, or is done by a worker of the host program.

    Starting one needs the approval that its calls would need of the caller, so that nothing is
    gained by packing a call into a job. What the job itself may not do without being asked is asked
    when its turn comes, and the job waits.
    """

    name = "create_job"
    description = (
        "Have something done in the background and go on meanwhile. Give `calls`, a list of tool "
        "calls made one after the other, or a title and description for the worker that does such "
        "work. The answer has a job_id for job_status, job_events and cancel_job."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "A few words"},
                "description": {
                    "type": "string",
                    "description": "What is to be done, for a worker in every detail it needs",
                },
                "calls": CALLS_SCHEMA,
                "worker": {
                    "type": "string",
                    "description": "Who does it, where there are several; not with calls",
                },
                "mode": {
                    "type": "string",
                    "enum": list(_MODES),
                    "default": "worker",
                    "description": "claude_code: by the worker of that name, if there is one",
                },
                "project_dir": {
                    "type": "string",
                    "description": "An existing folder of the project, the job's workspace",
                },
                "credentials": {
                    "type": "object",
                    "properties": {},
                    "additionalProperties": {"type": "string"},
                    "description": "Environment variables by name of secret, for its commands; "
                    "they hold stand-ins that work only for the secret's own hosts",
                },
                "input": {"description": "Any JSON value for the worker"},
                "keep_going": {
                    "type": "boolean",
                    "default": False,
                    "description": "Make the calls after a failed one all the same",
                },
                "wait": {
                    "type": "boolean",
                    "default": False,
                    "description": "Answer only when the job has ended (10 minutes at most)",
                },
            },
            "required": ["title", "description"],
            "additionalProperties": False,
        }

    def rate_limit_config(self) -> ToolRateLimitConfig:
        return ToolRateLimitConfig(5, 30)

    def execution_timeout(self) -> timedelta:
        return timedelta(seconds=WAIT + 60)

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        # What the calls do, they do under their own rules.
        return frozenset(("write",))

    async def canonicalise(self, params: dict[str, Any], context: JobContext) -> Canonical:
        jobs = self.jobs(context)
        request = _request(params)
        placed = jobs.placed(request, context)
        if request.project_dir is not None:
            # What is approved is the folder, not a name that may come to mean another.
            params = {**params, "project_dir": str(placed.workspace)}
        return Canonical(await judge_calls(params, request.calls, placed, jobs))

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        if isinstance(params, Judged):
            return params.requirement
        # Not looked at with its caller: whoever only asks in general gets the usual answer.
        return Judged.requirement if params.get("calls") else ApprovalRequirement.NEVER

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        jobs = self.jobs(ctx)
        job = await jobs.create(_request(params), ctx)
        if not params.get("wait", False):
            told = {
                "job_id": job.id,
                "title": job.title,
                "status": job.state,
                "message": "the job waits for its turn; job_status says how far it is",
            }
            if job.project_dir is not None:
                told["project_dir"] = job.project_dir
            return ToolOutput.success(told)
        job = await jobs.wait(job, WAIT, for_answers=False)
        told = shown(job)
        going_on = "it goes on in the background" if job.is_active else "the job has ended"
        told.setdefault("message", going_on)
        return ToolOutput.success(told)


def _request(params: Mapping[str, Any]) -> JobRequest:
    """What is asked for.

    Raises:
        InvalidParameters: The mode says something else than the calls or the worker.
    """
    worker = params.get("worker") or None
    mode = params.get("mode", "worker")
    if mode != "worker":
        if params.get("calls") or worker not in (None, mode):
            raise InvalidParameters(
                f"mode={mode!r} is a worker of its own; leave out calls and worker",
                issues=[Issue("/mode", "invalid_value", "worker", repr(mode))],
            )
        worker = mode
    return JobRequest(
        title=params["title"],
        description=params["description"],
        calls=planned_calls(params),
        worker=worker,
        input=params.get("input"),
        keep_going=params.get("keep_going", False),
        project_dir=params.get("project_dir") or None,
        credentials=dict(params.get("credentials") or {}),
    )
