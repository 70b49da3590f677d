"""The plugin's hooks. Nothing here loads the engine."""

from __future__ import annotations

from typing import Any

from hardpoint import hookimpl
from hardpoint_wasm.settings import WasmConfig

HARDPOINT_API = 1


@hookimpl
def hardpoint_config_type() -> type:
    return WasmConfig


@hookimpl
def hardpoint_register_tools(registry: Any, config: WasmConfig) -> None:
    from hardpoint_wasm.toolset import WasmToolset

    registry.register_toolset(WasmToolset(config, registry.replace))


@hookimpl
def hardpoint_register_extensions(registry: Any, config: WasmConfig) -> None:
    from hardpoint_wasm.check import WasmCheck
    from hardpoint_wasm.installer import WasmInstaller

    registry.register("installer", "wasm", WasmInstaller(config))
    registry.register("check", "wasm", WasmCheck(config))


@hookimpl
def hardpoint_register_commands(registry: Any) -> None:
    registry.register("wasm", "hardpoint_wasm.cli:wasm", "WebAssembly tools: add, grant, build.")
