"""`routine_list`, `routine_delete`, `routine_fire`, `routine_history`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from hardpoint import (
    ApprovalRequirement,
    Effect,
    ExecutionFailed,
    HardpointError,
    InvalidParameters,
    JobContext,
    Tool,
    ToolOutput,
)
from hardpoint.errors import Issue
from hardpoint_builtin.jobs.common import iso
from hardpoint_builtin.routines.engine import WORKER, RoutineEngine
from hardpoint_builtin.routines.tables import Routine

_NAME = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "Which routine"}},
    "required": ["name"],
    "additionalProperties": False,
}


class RoutineTool(Tool):
    """A tool over the routines of the caller."""

    def engine(self, ctx: JobContext) -> RoutineEngine:
        engine = ctx.services.extensions("job_worker").get(WORKER)
        if not isinstance(engine, RoutineEngine):
            raise ExecutionFailed("routines need the plugin 'builtin'", hint="enable it")
        return engine

    async def routine(self, name: str, ctx: JobContext) -> Routine:
        """The caller's routine of this name.

        Raises:
            InvalidParameters: There is none.
        """
        engine = self.engine(ctx)
        wanted = " ".join(name.split())
        found: Routine | None = await engine.read(engine.tables.get, ctx.user_id, wanted)
        if found is not None:
            return found
        known = [each.name for each in await engine.read(engine.tables.of_user, ctx.user_id)]
        near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "routine_list shows all"
        issue = Issue("/name", "invalid_value", "a routine's name", repr(name))
        raise InvalidParameters(f"you have no routine {wanted!r}; {hint}", issues=[issue])

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("read",))


class RoutineListTool(RoutineTool):
    name = "routine_list"
    description = "List your routines: what fires them, when next, and how often they ran."

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {},
            "required": [],
            "additionalProperties": False,
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        engine = self.engine(ctx)
        routines = [
            {
                "name": routine.name,
                "description": routine.description,
                "trigger_type": routine.kind,
                "trigger": dict(routine.request),
                "enabled": routine.enabled,
                "next_fire_at": iso(routine.next_fire),
                "last_fire_at": iso(routine.last_fire),
                "run_count": routine.runs,
            }
            for routine in await engine.read(engine.tables.of_user, ctx.user_id)
        ]
        return ToolOutput.success({"count": len(routines), "routines": routines})


class RoutineDeleteTool(RoutineTool):
    name = "routine_delete"
    description = "Delete a routine and its history. A run that has begun goes on."

    def parameters_schema(self) -> dict[str, Any]:
        return _NAME

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("delete",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        engine = self.engine(ctx)
        routine = await self.routine(params["name"], ctx)
        deleted = await engine.read(engine.tables.delete, ctx.user_id, routine.name)
        engine.changed()
        return ToolOutput.success({"name": routine.name, "deleted": deleted})


class RoutineFireTool(RoutineTool):
    name = "routine_fire"
    description = "Run a routine now, whatever its schedule."

    def parameters_schema(self) -> dict[str, Any]:
        return _NAME

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        return ApprovalRequirement.UNLESS_AUTO_APPROVED

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("write",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        routine = await self.routine(params["name"], ctx)
        run = await self.engine(ctx).fire(routine, parent=ctx)
        if run.problem is not None:
            raise ExecutionFailed(f"routine {routine.name!r} could not run: {run.problem}")
        return ToolOutput.success(
            {"name": routine.name, "run_id": run.id, "job_id": run.job_id, "status": "fired"}
        )


class RoutineHistoryTool(RoutineTool):
    name = "routine_history"
    description = "When a routine ran, and what came of it."

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Which routine"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
            },
            "required": ["name"],
            "additionalProperties": False,
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        engine = self.engine(ctx)
        routine = await self.routine(params["name"], ctx)
        runs = await engine.read(engine.tables.runs, routine.id, params.get("limit", 10))
        told = [
            {
                "run_id": run.id,
                "fired_at": iso(run.fired),
                "trigger": run.cause,
                "job_id": run.job_id,
                **await _came_of(run, ctx),
            }
            for run in runs
        ]
        return ToolOutput.success({"name": routine.name, "runs": told, "count": len(told)})


async def _came_of(run: Any, ctx: JobContext) -> dict[str, Any]:
    if run.job_id is None:
        return {"status": "failed", "error": run.problem}
    try:
        job = await ctx.services.jobs.get(run.job_id, ctx.user_id)
    except HardpointError:
        return {"status": "forgotten"}
    told: dict[str, Any] = {"status": job.state, "completed_at": iso(job.finished)}
    if job.error is not None:
        told["error"] = job.error["message"]
    elif job.state == "completed":
        told["result"] = job.result
    return told
