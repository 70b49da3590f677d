"""MCP for Hardpoint: any server's tools behind Hardpoint's rules, and everything as one server.

from hardpoint_mcp import McpClient

async with await McpClient.connect("uvx mcp-server-time") as client:
    print(await client.list_tools())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpoint_mcp.client import McpClient
    from hardpoint_mcp.config import McpConfig, ServerConfig

__all__ = ["McpClient", "McpConfig", "ServerConfig"]

_MODULES = {"McpClient": "client", "McpConfig": "config", "ServerConfig": "config"}


def __getattr__(name: str) -> Any:
    # Imported when asked for: a process that lists plugins needs none of this.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"hardpoint_mcp.{_MODULES[name]}"), name)
