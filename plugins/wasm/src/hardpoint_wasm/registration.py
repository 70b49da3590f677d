"""`registry.register_wasm(WasmToolRegistration(...))`: the seed pages' way to add a module."""

from __future__ import annotations

from typing import Any

from hardpoint.errors import ConfigError
from hardpoint.interfaces import WasmToolRegistration
from hardpoint_wasm.tool import WasmTool

__all__ = ["WasmToolRegistration", "register", "wasm_tool"]


async def wasm_tool(registration: WasmToolRegistration) -> WasmTool:
    """The tool of a registration.

    Its `oauth_refresh(name, user_id, refused=False)`, when given, is awaited before a request
    carries a secret.

    Raises:
        ToolError: As for `WasmTool.load`.
        ConfigError: It brings a secret store of its own.
    """
    if registration.secrets_store is not None:
        raise ConfigError(
            "a WebAssembly tool has no secret store of its own",
            hint="its secrets are those of the runtime: [secrets] stores, or the extension kind"
            " secret_store",
        )
    tool = await WasmTool.load(
        registration.wasm_bytes,
        registration.name,
        registration.capabilities,
        runtime=registration.runtime,
        limits=registration.limits,
        description=registration.description,
        schema=registration.schema,
    )
    tool.renew = registration.oauth_refresh
    return tool


async def register(registry: Any, registration: WasmToolRegistration) -> WasmTool:
    """Load the module and add its tool to a registry."""
    tool = await wasm_tool(registration)
    registry.register(tool, owner="hardpoint-wasm")
    return tool
