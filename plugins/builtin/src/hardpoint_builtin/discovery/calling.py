"""`tool_call`: call a tool by name, for models that were not told its definition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import attrs

from hardpoint import Effect, InvalidParameters, JobContext, Tool, ToolError, ToolOutput

MAX_SCHEMA: Final = 4000
LONGEST: Final = timedelta(hours=1)
"""The called tool has its own time-out; this one must not be shorter."""


class ToolCallTool(Tool):
    """One nested call, through all ten steps and with the caller's rights.

    It has no effects and needs no approval of its own: the tool that it calls has and does.
    """

    name = "tool_call"
    description = (
        "Call any tool by its name, also one that is not listed here. Find it with tool_search, "
        "read its parameters with tool_info."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Name of the tool"},
                "params": {
                    "type": "object",
                    "properties": {},
                    "additionalProperties": True,
                    "description": "Its arguments",
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        }

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset()

    def execution_timeout(self) -> timedelta:
        return LONGEST

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        name = params["name"].strip()
        outcome = await ctx.services.run(name, params.get("params", {}))
        if outcome.error is not None:
            raise _with_help(outcome.error, name, ctx)
        assert outcome.output is not None
        # Its cost is in the budget already.
        return attrs.evolve(outcome.output, provenance=outcome.provenance, cost=None)


def _with_help(error: ToolError, name: str, ctx: JobContext) -> ToolError:
    """The error, with what the model needs to do it better."""
    if isinstance(error, InvalidParameters):
        entry = ctx.services.registry.entry(name)
        schema = "" if entry is None else json.dumps(entry.definition.parameters)
        if schema and len(schema) <= MAX_SCHEMA:
            error.hint = f"the parameters of {name!r} are {schema}"
        elif schema:
            error.hint = f"tool_info(name={name!r}, detail='schema') tells its parameters"
    elif error.kind == "not_found" and error.hint is None:
        error.hint = "tool_search finds tools by what they do"
    return error
