"""What this distribution registers."""

from __future__ import annotations

from typing import Any

from hardpoint import hookimpl
from hardpoint_builtin import BuiltinConfig, builtin_tools

HARDPOINT_API = 1


@hookimpl
def hardpoint_config_type() -> type:
    return BuiltinConfig


@hookimpl
def hardpoint_register_tools(registry: Any, config: BuiltinConfig) -> None:
    for tool in builtin_tools(config):
        registry.register(tool)
