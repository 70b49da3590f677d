"""MCP servers as extensions, for `tool_install` and its like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hardpoint import JobContext
from hardpoint.errors import ExecutionFailed, NotAuthorized
from hardpoint.interfaces import CatalogueEntry, Installer, InstallState, LockEntry
from hardpoint_mcp.catalogue import fingerprint
from hardpoint_mcp.servers import Servers


class McpInstaller(Installer):
    """The `mcp_server` kind. It also is what starts and stops the servers with their runtime."""

    kind = "mcp_server"

    def __init__(self, servers: Servers) -> None:
        self.servers = servers

    async def start(self, services: Any) -> None:
        await self.servers.start(services)

    async def stop(self) -> None:
        await self.servers.stop()

    async def find(self, query: str) -> Sequence[CatalogueEntry]:
        """The configured servers that a query names; a registry of strangers is not asked."""
        words = query.casefold().split()
        return [
            CatalogueEntry(name, self.kind, config.description, config.url or config.command or "")
            for name, config in self.servers.config.servers.items()
            if all(word in f"{name} {config.description}".casefold() for word in words)
        ]

    async def install(self, entry: CatalogueEntry, context: JobContext) -> InstallState:
        """Refused: a server is a program to run or a party to trust; no model chooses one."""
        raise NotAuthorized(
            f"the MCP server {entry.name!r} can only be added by an operator",
            hint=f"hardpoint mcp add {entry.name} -- COMMAND, or --url ADDRESS",
        )

    async def authenticate(self, name: str, context: JobContext) -> InstallState:
        self._toolset(name)
        return InstallState(
            name, self.kind, "needs_auth", detail=f"log in with: hardpoint mcp auth {name}"
        )

    async def activate(self, name: str, context: JobContext) -> InstallState:
        """Connect to a server and fetch its tools."""
        toolset = self._toolset(name)
        await toolset.refresh()
        return self._state(name)

    async def remove(self, name: str, context: JobContext) -> InstallState:
        raise NotAuthorized(
            f"the MCP server {name!r} can only be removed by an operator",
            hint=f"hardpoint mcp remove {name}",
        )

    async def installed(self) -> Sequence[InstallState]:
        return [self._state(name) for name in sorted(self.servers.config.servers)]

    async def lock_entries(self) -> Sequence[LockEntry]:
        """One entry for each tool: a changed definition is a changed surface."""
        return [
            LockEntry("mcp_tool", f"{name}/{listed.original}", fingerprint(listed.raw))
            for name, toolset in sorted(self.servers.toolsets.items())
            for listed in toolset.upstream.catalogue.tools.values()
        ]

    def _toolset(self, name: str) -> Any:
        if name not in self.servers.toolsets:
            raise ExecutionFailed(f"there is no enabled MCP server {name!r}")
        return self.servers.toolsets[name]

    def _state(self, name: str) -> InstallState:
        toolset = self.servers.toolsets.get(name)
        if toolset is None:
            return InstallState(name, self.kind, "installed", detail="switched off")
        tools = sorted(definition.name for definition in toolset.definitions())
        status = "active" if toolset.error is None else "installed"
        return InstallState(name, self.kind, status, tools=tools, detail=toolset.error or "")
