"""What this distribution adds to Hardpoint."""

from __future__ import annotations

import weakref
from typing import Any

import hardpoint

HARDPOINT_API = 1


@hardpoint.hookimpl
def hardpoint_config_type() -> type:
    from hardpoint_mcp.config import McpConfig

    return McpConfig


@hardpoint.hookimpl
def hardpoint_register_tools(registry: Any, config: Any) -> None:
    for toolset in _servers(config).toolsets.values():
        toolset.replace = registry.replace
        registry.register_toolset(toolset)


@hardpoint.hookimpl
def hardpoint_register_extensions(registry: Any, config: Any) -> None:
    from hardpoint_mcp.checks import ServersCheck
    from hardpoint_mcp.installer import McpInstaller
    from hardpoint_mcp.sampling import SamplingProvider

    servers = _servers(config)
    registry.register("installer", "mcp_server", McpInstaller(servers))
    registry.register("llm_provider", "mcp-sampling", SamplingProvider())
    registry.register("check", "mcp", ServersCheck(servers))


@hardpoint.hookimpl
def hardpoint_register_commands(registry: Any) -> None:
    registry.register("mcp", "hardpoint_mcp.cli:mcp", "Add, import, test and inspect MCP servers.")
    registry.register(
        "serve", "hardpoint_mcp.cli_serve:serve", "Offer every tool as one MCP server."
    )


def _servers(config: Any) -> Any:
    """The servers of one configuration object, made once for both hooks."""
    from hardpoint_mcp.servers import Servers, standard_folders

    # Servers hold their configuration, so an id in the table cannot belong to another one.
    made = _made.get(id(config))
    if made is None:
        made = _made[id(config)] = Servers(config, standard_folders())
    return made


_made: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
