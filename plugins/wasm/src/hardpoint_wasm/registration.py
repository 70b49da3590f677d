"""`registry.register_wasm(WasmToolRegistration(...))`: the seed pages' way to add a module."""

from __future__ import annotations

from typing import Any

from hardpoint.interfaces import WasmToolRegistration
from hardpoint_wasm.tool import WasmTool

__all__ = ["WasmToolRegistration", "register", "wasm_tool"]


async def wasm_tool(registration: WasmToolRegistration) -> WasmTool:
    """The tool of a registration.

    Raises:
        ToolError: As for `WasmTool.load`.
    """
    return await WasmTool.load(
        registration.wasm_bytes,
        registration.name,
        registration.capabilities,
        runtime=registration.runtime,
        limits=registration.limits,
        description=registration.description,
        schema=registration.schema,
    )


async def register(registry: Any, registration: WasmToolRegistration) -> WasmTool:
    """Load the module and add its tool to a registry."""
    tool = await wasm_tool(registration)
    registry.register(tool, owner="hardpoint-wasm")
    return tool
