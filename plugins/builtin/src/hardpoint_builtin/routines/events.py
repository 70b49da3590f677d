"""`event_emit`: say that something happened, so that routines that wait for it run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hardpoint import ApprovalRequirement, Effect, InvalidParameters, JobContext, ToolOutput
from hardpoint.errors import Issue
from hardpoint_builtin.routines.tools import RoutineTool


class EventEmitTool(RoutineTool):
    name = "event_emit"
    description = "Report that something happened; your routines that wait for it run."

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "event_source": {"type": "string", "description": "Who reports, such as 'build'"},
                "event_type": {"type": "string", "description": "What happened, such as 'failed'"},
                "payload": {
                    "type": "object",
                    "properties": {},
                    "additionalProperties": True,
                    "description": "Details that routines may filter by",
                },
            },
            "required": ["event_source", "event_type"],
            "additionalProperties": False,
        }

    def discovery_schema(self) -> dict[str, Any]:
        schema = self.parameters_schema()
        # `source` is another name of `event_source`; which is missing is told when it runs.
        schema["properties"]["source"] = schema["properties"]["event_source"]
        schema["required"] = ["event_type"]
        return schema

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        return ApprovalRequirement.UNLESS_AUTO_APPROVED

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("write",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        source = (params.get("event_source") or params.get("source") or "").strip()
        event_type = params["event_type"].strip()
        if not source or not event_type:
            issue = Issue("/event_source", "missing_required", "text", "nothing")
            raise InvalidParameters("say in event_source who reports the event", issues=[issue])
        fired = await self.engine(ctx).event(
            ctx.user_id, source, event_type, params.get("payload", {}), parent=ctx
        )
        return ToolOutput.success(
            {
                "event_source": source,
                "event_type": event_type,
                "user_id": ctx.user_id,
                "fired_routines": list(fired),
            }
        )
