"""`tool_search`: the tools that fit some words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hardpoint import Effect, InvalidParameters, JobContext, Tool, ToolDefinition, ToolOutput
from hardpoint.errors import Issue

MAX_RESULTS: Final = 10
MAX_DESCRIPTION: Final = 240


class ToolSearchTool(Tool):
    """Search what the caller may call and, on request, what could be installed."""

    name = "tool_search"
    description = (
        "Find tools by what they do. Use it whenever no listed tool fits: there may be many more. "
        "Then tool_info for the parameters and tool_call to call one. discover=true also looks "
        "into the catalogues of what can be installed."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the tool should do"},
                "discover": {
                    "type": "boolean",
                    "default": False,
                    "description": "Also search what could be installed",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        }

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("read", "network") if params.get("discover") is True else ("read",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        query = params["query"].strip()
        if not query:
            issue = Issue("/query", "invalid_value", "some words", "nothing")
            raise InvalidParameters("say in a few words what the tool should do", issues=[issue])
        results = [_about(definition) for definition in _registered(query, ctx)]
        answer: dict[str, Any] = {"results": results, "count": 0, "searched_online": False}
        if params.get("discover", False):
            from hardpoint_builtin.extensions import search_catalogues

            found = await search_catalogues(ctx.services, query)
            results += found["results"]
            answer["searched_online"] = found["searched_online"]
            if found["problems"]:
                answer["problems"] = found["problems"]
        answer["count"] = len(results)
        if not results:
            answer["hint"] = "try other words, or discover=true for what could be installed"
        return ToolOutput.success(answer)


def _registered(query: str, ctx: JobContext) -> list[ToolDefinition]:
    """The best of those that the caller may call."""
    services = ctx.services
    wanted, found = MAX_RESULTS, list[ToolDefinition]()
    total = services.registry.count()
    while True:
        hits = services.registry.search(query, limit=wanted)
        found = [hit for hit, _ in hits if services.may_see(hit.name)]
        if len(found) >= MAX_RESULTS or len(hits) < wanted or wanted >= total:
            return found[:MAX_RESULTS]
        wanted *= 4  # many of the best are hidden from this caller


def _about(definition: ToolDefinition) -> dict[str, Any]:
    first = definition.description.strip().split("\n", 1)[0]
    shown = first if len(first) <= MAX_DESCRIPTION else first[: MAX_DESCRIPTION - 1] + "…"
    return {
        "name": definition.name,
        "kind": "tool",
        "status": "active",
        "description": shown,
        "parameters": list(definition.parameters.get("properties", {})),
    }
