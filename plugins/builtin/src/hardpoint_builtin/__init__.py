"""The first tools of Hardpoint. Each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpoint import Tool
    from hardpoint.interfaces import Workspace
    from hardpoint_builtin.clock import TimeTool
    from hardpoint_builtin.config import BuiltinConfig
    from hardpoint_builtin.discovery import (
        ToolCallTool,
        ToolInfoTool,
        ToolListTool,
        ToolSearchTool,
    )
    from hardpoint_builtin.echo import EchoTool
    from hardpoint_builtin.http import HttpTool
    from hardpoint_builtin.jobs import (
        CancelJobTool,
        CreateJobTool,
        JobEventsTool,
        JobPromptTool,
        JobStatusTool,
        ListJobsTool,
    )
    from hardpoint_builtin.json_tool import JsonTool
    from hardpoint_builtin.memory import (
        MemoryReadTool,
        MemorySearchTool,
        MemoryTreeTool,
        MemoryWorkspace,
        MemoryWriteTool,
    )
    from hardpoint_builtin.message import MessageTool
    from hardpoint_builtin.routines import (
        EventEmitTool,
        RoutineCreateTool,
        RoutineDeleteTool,
        RoutineFireTool,
        RoutineHistoryTool,
        RoutineListTool,
        RoutineUpdateTool,
    )
    from hardpoint_builtin.secret_tools import SecretDeleteTool, SecretListTool
    from hardpoint_builtin.web_fetch import WebFetchTool

# Name to module.
_EXPORTS = {
    "BuiltinConfig": "config",
    "CancelJobTool": "jobs",
    "CreateJobTool": "jobs",
    "EchoTool": "echo",
    "EventEmitTool": "routines",
    "HttpTool": "http",
    "JobEventsTool": "jobs",
    "JobPromptTool": "jobs",
    "JobStatusTool": "jobs",
    "JsonTool": "json_tool",
    "ListJobsTool": "jobs",
    "MemoryReadTool": "memory",
    "MemorySearchTool": "memory",
    "MemoryTreeTool": "memory",
    "MemoryWorkspace": "memory",
    "MemoryWriteTool": "memory",
    "MessageTool": "message",
    "RoutineCreateTool": "routines",
    "RoutineDeleteTool": "routines",
    "RoutineFireTool": "routines",
    "RoutineHistoryTool": "routines",
    "RoutineListTool": "routines",
    "RoutineUpdateTool": "routines",
    "SecretDeleteTool": "secret_tools",
    "SecretListTool": "secret_tools",
    "TimeTool": "clock",
    "ToolCallTool": "discovery",
    "ToolInfoTool": "discovery",
    "ToolListTool": "discovery",
    "ToolSearchTool": "discovery",
    "WebFetchTool": "web_fetch",
}

__all__ = [
    "BuiltinConfig",
    "CancelJobTool",
    "CreateJobTool",
    "EchoTool",
    "EventEmitTool",
    "HttpTool",
    "JobEventsTool",
    "JobPromptTool",
    "JobStatusTool",
    "JsonTool",
    "ListJobsTool",
    "MemoryReadTool",
    "MemorySearchTool",
    "MemoryTreeTool",
    "MemoryWorkspace",
    "MemoryWriteTool",
    "MessageTool",
    "RoutineCreateTool",
    "RoutineDeleteTool",
    "RoutineFireTool",
    "RoutineHistoryTool",
    "RoutineListTool",
    "RoutineUpdateTool",
    "SecretDeleteTool",
    "SecretListTool",
    "TimeTool",
    "ToolCallTool",
    "ToolInfoTool",
    "ToolListTool",
    "ToolSearchTool",
    "WebFetchTool",
    "builtin_tools",
    "discovery_tools",
    "job_tools",
    "memory_tools",
    "routine_tools",
    "secret_tools",
]


def builtin_tools(config: BuiltinConfig | None = None) -> list[Tool]:
    """The tools that need no store, for the plugin and `ToolRegistry.register_builtin_tools()`."""
    bindings = config.bindings() if config is not None else ()
    plain = [_tool(name) for name in ("EchoTool", "TimeTool", "JsonTool", "WebFetchTool")]
    return [*plain, _tool("HttpTool", bindings)]


def memory_tools(workspace: Workspace | None = None) -> list[Tool]:
    """The memory tools, over this workspace or the one that a plugin registered."""
    names = ("MemorySearchTool", "MemoryReadTool", "MemoryWriteTool", "MemoryTreeTool")
    return [_tool(name, workspace) for name in names]


def job_tools(context_manager: Any = None, scheduler: Any = None) -> list[Tool]:
    """The job tools, over these jobs (`runtime.jobs`) or those of the runtime that calls them."""
    jobs = context_manager if context_manager is not None else scheduler
    names = ("CreateJobTool", "ListJobsTool", "JobStatusTool", "JobEventsTool", "CancelJobTool")
    return [_tool(name, jobs) for name in (*names, "JobPromptTool")]


def routine_tools() -> list[Tool]:
    """The tools that make, change and fire routines, and the one that reports events."""
    names = ("Create", "List", "Update", "Delete", "Fire", "History")
    return [*(_tool(f"Routine{name}Tool") for name in names), _tool("EventEmitTool")]


def secret_tools() -> list[Tool]:
    """The tools that name and delete a user's secrets."""
    return [_tool("SecretListTool"), _tool("SecretDeleteTool")]


def discovery_tools() -> list[Tool]:
    """The tools that search, show, list and call other tools."""
    names = ("ToolSearchTool", "ToolInfoTool", "ToolListTool", "ToolCallTool")
    return [_tool(name) for name in names]


def _tool(name: str, *arguments: Any) -> Tool:
    made: Tool = __getattr__(name)(*arguments)
    return made


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value
