"""What this distribution registers."""

from __future__ import annotations

from typing import Any

from hardpoint import hookimpl
from hardpoint_builtin import builtin_tools

HARDPOINT_API = 1


@hookimpl
def hardpoint_register_tools(registry: Any) -> None:
    for tool in builtin_tools():
        registry.register(tool)
