"""The first tools of Hardpoint. Each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpoint import Tool
    from hardpoint_builtin.clock import TimeTool
    from hardpoint_builtin.echo import EchoTool
    from hardpoint_builtin.json_tool import JsonTool

# Name to module.
_EXPORTS = {
    "EchoTool": "echo",
    "JsonTool": "json_tool",
    "TimeTool": "clock",
}

__all__ = ["EchoTool", "JsonTool", "TimeTool", "builtin_tools"]


def builtin_tools() -> list[Tool]:
    """The tools that need nothing but themselves, for `ToolRegistry.register_builtin_tools()`."""
    return [_tool(name) for name in ("EchoTool", "TimeTool", "JsonTool")]


def _tool(name: str) -> Tool:
    made: Tool = __getattr__(name)()
    return made


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value
