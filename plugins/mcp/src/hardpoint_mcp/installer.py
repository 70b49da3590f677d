"""MCP servers as extensions, for `tool_install` and its like.

A model can bring only what a configured catalogue names with its hashes, after a person approved
it: a package into an environment of its own, or the address of a server whose tools have a known
hash. Configured servers belong to the operator and are neither replaced nor removed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from hardpoint import JobContext
from hardpoint.errors import ExecutionFailed, HardpointError, NotAuthorized
from hardpoint.interfaces import CatalogueEntry, Installer, InstallState, LockEntry
from hardpoint.net.login import Handovers, Show
from hardpoint_mcp.catalogue import fingerprint, tools_hash
from hardpoint_mcp.installed import InstalledServer
from hardpoint_mcp.servers import Servers
from hardpoint_mcp.toolset import McpToolset
from hardpoint_mcp.wire.errors import AuthRequired


class McpInstaller(Installer):
    """The `mcp_server` kind. It also is what starts and stops the servers with their runtime."""

    kind = "mcp_server"

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self._handovers = Handovers()

    async def start(self, services: Any) -> None:
        await self.servers.start(services)

    async def stop(self) -> None:
        await self._handovers.aclose()
        await self.servers.stop()

    async def find(self, query: str) -> Sequence[CatalogueEntry]:
        """The configured servers that a query names; a registry of strangers is not asked."""
        words = query.casefold().split()
        return [
            CatalogueEntry(name, self.kind, config.description, config.url or config.command or "")
            for name, config in self.servers.configured.items()
            if all(word in f"{name} {config.description}".casefold() for word in words)
        ]

    # changing what there is ----------------------------------------------------------------------

    async def install(self, entry: CatalogueEntry, context: JobContext) -> InstallState:
        self._refuse_configured(entry.name, "added")
        known = self.servers.installed.get(entry.name)
        if known is not None and known.fingerprint != entry.fingerprint:
            raise NotAuthorized(
                f"{entry.name} is installed with another content", hint="upgrade or remove it"
            )
        if known is None:
            self.servers.installed.put(await self._fetch(entry, context))
        return self._state(entry.name)

    async def upgrade(self, entry: CatalogueEntry, context: JobContext) -> InstallState:
        self._refuse_configured(entry.name, "replaced")
        before = self._installed(entry.name)
        record = await self._fetch(entry, context)
        await self.servers.drop(entry.name)
        self.servers.installed.put(record)
        self.servers.installed.discard_environments(entry.name, record.environment)
        if before.status == "active":
            return await self.activate(entry.name, context)
        return self._state(entry.name)

    async def authenticate(self, name: str, context: JobContext) -> InstallState:
        """Try it; where it wants a login, begin one and hand its address over to a person."""
        state = await self.activate(name, context)
        config = self.servers.config.servers[name]
        if state.status != "needs_auth" or config.url is None:
            return state
        store, secrets = self.servers.login(name)

        async def login(show: Show) -> None:
            from hardpoint_mcp.login import by_browser

            await by_browser(
                name, config, store, say=lambda line: None, open_browser=show, secrets=secrets
            )

        address = await self._handovers.begin(name, login)
        return attrs.evolve(
            state,
            auth_url=address,
            detail="a person opens the address in a browser on this machine;"
            f" elsewhere: hardpoint mcp auth {name}",
        )

    async def activate(self, name: str, context: JobContext) -> InstallState:
        """Connect to a server, fetch its tools and register them."""
        record = self.servers.installed.get(name)
        toolset = self.servers.toolsets.get(name)
        if toolset is None and record is not None:
            toolset = self.servers.make(name, record.config)
        if toolset is None:
            raise ExecutionFailed(f"there is no enabled MCP server {name!r}")
        try:
            await toolset.refresh()
            if record is not None:
                self._check_tools(record, toolset)
        except HardpointError as error:
            if name not in self.servers.toolsets:
                await toolset.aclose()
            if isinstance(error, AuthRequired):
                return self._needs_login(name, error)
            raise
        if record is not None and record.status != "active":
            self.servers.installed.put(attrs.evolve(record, status="active", reason=""))
        self.servers.adopt(toolset)
        return self._state(name)

    async def remove(self, name: str, context: JobContext) -> InstallState:
        self._refuse_configured(name, "removed")
        self._installed(name)
        await self.servers.drop(name, forget=True)
        self.servers.installed.remove(name)
        return InstallState(name, self.kind, "available")

    # telling what there is -----------------------------------------------------------------------

    async def installed(self) -> Sequence[InstallState]:
        return [self._state(name) for name in sorted(self.servers.config.servers)]

    async def refresh(self) -> Sequence[str]:
        await self.servers.discover()
        toolsets = sorted(self.servers.toolsets.items())
        return [f"{name}: {toolset.error}" for name, toolset in toolsets if toolset.error]

    async def lock_entries(self) -> Sequence[LockEntry]:
        """One entry for each tool, a changed definition is a changed surface; one a package."""
        entries = [
            LockEntry("mcp_tool", f"{name}/{listed.original}", fingerprint(listed.raw), (offered,))
            for name, toolset in sorted(self.servers.toolsets.items())
            for offered, listed in toolset.upstream.catalogue.tools.items()
        ]
        for name, record in self.servers.installed.all().items():
            toolset = self.servers.toolsets.get(name)
            tools = [d.name for d in toolset.definitions()] if toolset is not None else []
            entries.append(LockEntry("mcp_server", name, record.fingerprint, tools))
        return entries

    # inside --------------------------------------------------------------------------------------

    async def _fetch(self, entry: CatalogueEntry, context: JobContext) -> InstalledServer:
        http = None if context.handle is None else context.services.http()
        return await self.servers.installed.fetch(entry, http)

    def _check_tools(self, record: InstalledServer, toolset: McpToolset) -> None:
        found = tools_hash(toolset.upstream.catalogue)
        if record.tools_sha256 in (None, found):
            return
        reason = f"its tools are not those of the catalogue: their hash is {found}"
        self.servers.installed.put(attrs.evolve(record, status="quarantined", reason=reason))
        raise NotAuthorized(f"{record.name} is quarantined: {reason}")

    def _refuse_configured(self, name: str, done: str) -> None:
        if name in self.servers.configured:
            raise NotAuthorized(
                f"the MCP server {name!r} of the configuration can only be {done} by an operator",
                hint=f"hardpoint mcp add {name} …, hardpoint mcp remove {name}",
            )

    def _installed(self, name: str) -> InstalledServer:
        record = self.servers.installed.get(name)
        if record is None:
            raise ExecutionFailed(f"no MCP server {name!r} is installed")
        return record

    def _needs_login(self, name: str, error: AuthRequired) -> InstallState:
        detail = f"a person logs in with: hardpoint mcp auth {name} ({error.message})"
        return InstallState(name, self.kind, "needs_auth", detail=detail)

    def _state(self, name: str) -> InstallState:
        record = self.servers.installed.get(name)
        if record is not None and record.status == "quarantined":
            return InstallState(name, self.kind, "quarantined", detail=record.reason)
        toolset = self.servers.toolsets.get(name)
        if toolset is None:
            detail = "switched off" if record is None else ""
            return InstallState(name, self.kind, "installed", detail=detail)
        tools = sorted(definition.name for definition in toolset.definitions())
        status = "active" if toolset.error is None else "installed"
        return InstallState(name, self.kind, status, tools=tools, detail=toolset.error or "")
