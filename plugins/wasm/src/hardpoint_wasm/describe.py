"""How a module's tools present themselves: names, descriptions, schemas of their arguments.

A tool of the tool world is asked, in the sandbox and in little time; a command has what its
capabilities file says; functions have their types. It is kept at installation, so that listing
runs no guest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from hardpoint import JobContext
from hardpoint_wasm.capabilities import MAX_DESCRIPTION, MAX_PARAMETERS, Capabilities
from hardpoint_wasm.names import check_name

if TYPE_CHECKING:
    from hardpoint_wasm.module import Module

ANY_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}, "required": []}
TIMEOUT = 10.0
"""Seconds in which a tool has to describe itself."""


@attrs.frozen
class Interface:
    """How a tool presents itself; kept at installation, so that listing tools runs no guest."""

    description: str = ""
    parameters: Mapping[str, Any] = attrs.field(factory=lambda: dict(ANY_ARGUMENTS))
    discovery: Mapping[str, Any] | None = None
    """The guest's whole schema where it cannot be advertised as it is."""
    summary: Mapping[str, Any] | None = None
    """Guidance beyond the schema, from the capabilities file."""
    function: str | None = None
    """The exported function, for components without the tool world."""


async def describe(
    module: Module,
    name: str,
    capabilities: Capabilities,
    *,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
) -> dict[str, Interface]:
    """How the tools of a module present themselves, by tool name. Runs the guest where it must.

    Raises:
        ToolError: The guest does not survive being asked.
    """
    said, own = "", None
    match module.shape.kind:
        case "functions":
            return _functions(module, name, description or capabilities.description)
        case "world":
            said, own = await _ask(module, name)
    description = description or capabilities.description or said
    schema = schema or _typed(capabilities.parameters) or own or capabilities.parameters
    parameters, discovery = advertised(schema)
    summary = capabilities.discovery_summary
    return {name: Interface(description[:MAX_DESCRIPTION], parameters, discovery, summary)}


def advertised(
    schema: Mapping[str, Any] | None,
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """A schema as the registry takes it, and the whole one where that is another."""
    from hardpoint import validate_tool_schema

    if schema is None:
        return dict(ANY_ARGUMENTS), None
    if not validate_tool_schema(schema):
        return schema, None
    repaired = {"properties": {}, **schema, "type": "object"}
    if not validate_tool_schema(repaired):
        return repaired, None
    return dict(ANY_ARGUMENTS), schema


async def _ask(module: Module, name: str) -> tuple[str, Mapping[str, Any] | None]:
    from hardpoint_wasm.execution import Execution
    from hardpoint_wasm.host import Host
    from hardpoint_wasm.world import Describe

    limits = attrs.evolve(module.limits, timeout=min(TIMEOUT, module.limits.timeout))
    host = Host(name, Capabilities(), JobContext(user_id="install"))
    host.execution = Execution(limits, host, loop=asyncio.get_running_loop())
    said, text = await module.run(host.execution, Describe(), name)
    if len(text) > MAX_PARAMETERS:
        return said, None
    try:
        schema = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return said, None
    return said, schema if isinstance(schema, dict) else None


def _functions(module: Module, name: str, description: str | None) -> dict[str, Interface]:
    from hardpoint_wasm.wit import object_schema

    found: dict[str, Interface] = {}
    single = len(module.shape.functions) == 1
    for key, exported in module.shape.functions.items():
        tool = name if single else f"{name}__{key.replace('-', '_')}"
        told = f"{exported.name}: {exported.signature}"
        found[check_name(tool)] = Interface(
            f"{description}\n{told}" if description else told,
            object_schema(exported.signature.params),
            function=key,
        )
    return found


def _typed(schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A schema from a capabilities file, if it says anything that a guest's own could not."""
    return schema if schema and schema.get("properties") else None


def refuse_constant(name: str) -> None:
    """For `json.loads`: NaN and its like are no JSON."""
    raise ValueError(f"{name} is no JSON number")
