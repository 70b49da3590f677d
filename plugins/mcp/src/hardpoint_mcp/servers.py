"""All configured servers of one runtime: built from the table, started and stopped with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from hardpoint.errors import HardpointError
from hardpoint.interfaces import SYSTEM
from hardpoint_mcp.cache import Cache
from hardpoint_mcp.config import McpConfig, ServerConfig
from hardpoint_mcp.installed import InstalledServers
from hardpoint_mcp.pins import MIGRATIONS, Pins
from hardpoint_mcp.toolset import McpToolset
from hardpoint_mcp.upstream import Surroundings, Upstream

if TYPE_CHECKING:
    import httpx2

    from hardpoint_mcp.oauth import LoginStore
    from hardpoint_mcp.upstream import SecretReader

logger = logging.getLogger(__name__)

DISTRIBUTION: Final = "hardpoint-mcp"
_PATIENCE_AT_START: Final = 10.0


class Servers:
    """The servers by name."""

    def __init__(self, config: McpConfig, folders: Mapping[str, Path] | None = None) -> None:
        """Args:
        folders: Where `cache`, `state` and `data` are; nothing is kept without it.
        """
        self._given = config  # kept alive: both hooks find these servers by it
        self.pins: Pins | None = None
        self.services: Any = None
        self._discovery: asyncio.Future[None] | None = None
        self._folders = dict(folders or {})
        self._cache = Cache(self._below("cache", "mcp"))
        self.installed = InstalledServers(self._below("data", "mcp", "installed"))
        self.toolsets = {
            name: self.make(name, server)
            for name, server in {**self.installed.active(), **config.servers}.items()
            if server.enabled
        }

    @property
    def config(self) -> McpConfig:
        """The settings with the installed servers among the configured ones."""
        installed = {name: record.config for name, record in self.installed.all().items()}
        return attrs.evolve(self._given, servers={**installed, **self._given.servers})

    @property
    def configured(self) -> Mapping[str, ServerConfig]:
        """The servers that belong to the operator."""
        return self._given.servers

    def _below(self, kind: str, *names: str) -> Path | None:
        folder = self._folders.get(kind)
        return None if folder is None else folder.joinpath(*names)

    def make(self, name: str, config: ServerConfig) -> McpToolset:
        remembered = self._cache.read(name, config)
        upstream = Upstream(
            name,
            config,
            prefix=self._given.prefix,
            surroundings=Surroundings(
                secrets=lambda secret: self._secret(name, secret),
                auth=lambda url, server: self._auth(name, url, server),
                log_folder=self._below("state", "mcp"),
            ),
            memory=None if remembered is None else remembered.memory(),
        )
        return McpToolset(upstream, self._cache, ttl=self._given.catalogue_ttl)

    def adopt(self, toolset: McpToolset) -> None:
        """Put a server among the running ones and its tools into the registry, if they are not."""
        if toolset.name in self.toolsets or self.services is None:
            return
        self._equip(toolset)
        self.services.registry.register_toolset(toolset, owner=DISTRIBUTION)
        self.toolsets[toolset.name] = toolset

    async def drop(self, name: str, *, forget: bool = False) -> None:
        """Stop a server and take its tools out of the registry.

        Args:
            forget: Also what is remembered and approved of it.
        """
        toolset = self.toolsets.pop(name, None)
        if toolset is not None:
            if self.services is not None:
                self.services.registry.unregister_toolset(toolset)
            await toolset.aclose()
        if forget:
            self._cache.forget(name)
            if self.pins is not None:
                self.pins.remove(name)

    # life --------------------------------------------------------------------------------------

    async def start(self, services: Any) -> None:
        """Meet the running core. Servers that were never met are asked for their tools now."""
        self.services = services
        self.pins = Pins(services.store("mcp", MIGRATIONS))
        self._go_on()
        for toolset in self.toolsets.values():
            self._equip(toolset)
        unknown = [toolset for toolset in self.toolsets.values() if toolset.remembered is None]
        if unknown:
            self._discovery = asyncio.ensure_future(self.discover(unknown))
            # A server that never answers may not keep the others' callers waiting.
            await asyncio.wait((self._discovery,), timeout=_PATIENCE_AT_START)

    def _go_on(self) -> None:
        """Where the registry kept a server from before the settings changed, use that one."""
        in_force = self.services.registry.toolsets()
        for name, made in list(self.toolsets.items()):
            running = in_force.get(name)
            if isinstance(running, McpToolset) and running is not made:
                running.go_on_as(made)
                self.toolsets[name] = running

    def _equip(self, toolset: McpToolset) -> None:
        toolset.pins = self.pins
        toolset.replace = self.services.registry.replace

    async def discover(self, toolsets: Sequence[McpToolset] | None = None) -> None:
        """Fetch the lists of several servers at once; one that fails costs the others nothing."""
        chosen = list(self.toolsets.values()) if toolsets is None else list(toolsets)
        results = await asyncio.gather(
            *(toolset.refresh() for toolset in chosen), return_exceptions=True
        )
        for result in results:
            if isinstance(result, HardpointError | TimeoutError):
                logger.warning("%s", result)
            elif isinstance(result, BaseException):
                raise result

    async def stop(self) -> None:
        """Stop every server, all at once: a stubborn one makes nobody else wait.

        Those that go on under changed settings are left to who has them then.
        """
        if self._discovery is not None and not self._discovery.done():
            self._discovery.cancel()
        kept = self._kept()
        await asyncio.gather(
            *(t.aclose() for name, t in self.toolsets.items() if kept.get(name) is not t),
            return_exceptions=True,
        )

    def _kept(self) -> Mapping[str, McpToolset]:
        """The servers of whoever is in force now, where that is not this object."""
        if self.services is None:
            return {}
        installer = self.services.extensions("installer").get("mcp_server")
        if installer is None or installer.servers is self:
            return {}
        servers: Servers = installer.servers
        return servers.toolsets

    # what servers are given --------------------------------------------------------------------

    async def _secret(self, server: str, name: str) -> str:
        if self.services is None:
            raise HardpointError(f"the secret {name!r} can only be read in a running runtime")
        value: str = await self.services.secrets.reveal(name, SYSTEM, f"MCP server {server}")
        return value

    def _auth(self, name: str, url: str, config: ServerConfig) -> httpx2.Auth | None:
        """A login, for servers that no header already logs in to."""
        from hardpoint_mcp.config import is_local

        has_header = any(header.lower() == "authorization" for header in config.headers)
        if has_header or (is_local(url) and config.oauth is None):
            return None
        from hardpoint_mcp.oauth import LoginAuth

        store, secret = self.login(name)
        return LoginAuth(name, url, store, config.oauth, secrets=secret)

    def login(self, name: str) -> tuple[LoginStore, SecretReader]:
        """Where the login to a server is kept, and who reads the secrets that it needs."""
        from hardpoint_mcp.logins import login_store

        async def secret(named: str) -> str:
            return await self._secret(name, named)

        return login_store(name, self.services, self._below("data", "mcp")), secret


def standard_folders() -> Mapping[str, Path]:
    """Where this machine keeps things for Hardpoint."""
    from hardpoint import folder

    return {kind: folder(kind) for kind in ("cache", "state", "data")}
