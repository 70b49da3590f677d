"""`tool_info` and `tool_list`: what a tool takes, and what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from hardpoint import Effect, HardpointError, JobContext, Tool, ToolNotFound, ToolOutput

NAMED: Final = 100
"""Tools of one owner that `tool_list` names; the rest are counted."""
_DETAILS: Final = ("names", "summary", "schema")


class ToolInfoTool(Tool):
    name = "tool_info"
    description = (
        "What a tool does and takes. detail: 'names' of its parameters, 'summary' with notes and "
        "examples, or its whole 'schema'. Ask before calling a tool that is new to you."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Name of the tool"},
                "detail": {"type": "string", "enum": list(_DETAILS), "default": "names"},
                "include_schema": {
                    "type": "boolean",
                    "description": "Old spelling of detail='schema'",
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        }

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("read",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        name = params["name"].strip()
        services = ctx.services
        entry = services.registry.entry(name)
        if entry is None or not services.may_see(name):
            near = [n for n in services.registry.close_names(name) if services.may_see(n)]
            raise ToolNotFound(name, suggestions=near)
        detail = "schema" if params.get("include_schema") else params.get("detail", "names")
        definition = entry.definition
        told: dict[str, Any] = {
            "name": name,
            "description": definition.description,
            "parameters": list(definition.parameters.get("properties", {})),
            "required": list(definition.parameters.get("required", ())),
        }
        tool = _tool_of(entry)
        if detail == "summary":
            told["summary"] = _summary(tool, definition.parameters)
        elif detail == "schema":
            told["schema"] = definition.parameters if tool is None else tool.discovery_schema()
        return ToolOutput.success(told)


def _tool_of(entry: Any) -> Tool | None:
    try:
        tool: Tool = entry.tool
    except HardpointError:
        return None  # its source is away; the definition is still known
    return tool


def _summary(tool: Tool | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    summary = None if tool is None else tool.discovery_summary()
    if summary is not None:
        return {name: list(value) for name, value in attrs.asdict(summary, recurse=False).items()}
    return {
        "always_required": list(parameters.get("required", ())),
        "conditional_requirements": [],
        "notes": [],
        "examples": [],
    }


class ToolListTool(Tool):
    name = "tool_list"
    description = (
        "List where tools come from, with their names: plugins, servers, installed modules. "
        "include_available=true adds what the catalogues have and is not installed."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "kind": {
                    "type": "string",
                    "description": "Only this kind: plugin, mcp_server, wasm_tool …",
                },
                "include_available": {"type": "boolean", "default": False},
            },
            "required": [],
            "additionalProperties": False,
        }

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("read",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        from hardpoint_builtin.extensions import list_extensions

        kind = params.get("kind") or None
        extensions = await list_extensions(
            ctx.services, kind, include_available=params.get("include_available", False)
        )
        listed = {name for each in extensions for name in each.get("tools", ())}
        if kind in (None, "plugin"):
            extensions = [*_owners(ctx, listed), *extensions]
        return ToolOutput.success({"extensions": extensions, "count": len(extensions)})


def _owners(ctx: JobContext, listed: set[str]) -> list[dict[str, Any]]:
    """The tools by who provides them, apart from those that an extension lists."""
    owners: dict[str, list[str]] = {}
    for definition in ctx.services.registry.schemas():
        if definition.name not in listed and ctx.services.may_see(definition.name):
            owners.setdefault(definition.owner or "application", []).append(definition.name)
    return [
        {
            "name": owner,
            "kind": "plugin",
            "status": "active",
            "tools": names[:NAMED],
            "tool_count": len(names),
        }
        for owner, names in sorted(owners.items())
    ]
