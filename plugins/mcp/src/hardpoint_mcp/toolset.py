"""One server's tools in the registry: listed from memory, fetched when the server is first used."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from hardpoint import JobContext, Tool, ToolDefinition, Toolset
from hardpoint.errors import HardpointError, NotAuthorized
from hardpoint_mcp.cache import Cache, Remembered
from hardpoint_mcp.catalogue import Catalogue, Listed, build
from hardpoint_mcp.pins import Pins
from hardpoint_mcp.tool import McpTool
from hardpoint_mcp.upstream import Upstream

logger = logging.getLogger(__name__)

# Servers announce several changes in a row, and most of them right after connecting.
_DEBOUNCE: Final = 0.2


class McpToolset(Toolset):
    """The tools of one server."""

    def __init__(self, upstream: Upstream, cache: Cache, *, ttl: float = 3600.0) -> None:
        self.name = upstream.name
        self.upstream = upstream
        self.replace: Callable[[Toolset, Sequence[ToolDefinition]], None] = lambda *_: None
        """The registry's, once there is one."""
        self.pins: Pins | None = None
        self.on_change: Callable[[str, str], None] = lambda server, method: None
        """Told the server's name and the notification's method."""
        self.fetched_at = 0.0
        self.error: str | None = None
        """Why the server could not be reached when it was last tried."""
        self._cache = cache
        self._ttl = ttl
        self._tools: dict[str, McpTool] = {}
        self._relisting: asyncio.Task[None] | None = None
        upstream.on_change = self._changed
        remembered = cache.read(upstream.name, upstream.config)
        self.remembered = remembered
        if remembered is None:
            return
        try:
            upstream.catalogue = build(
                upstream.name, upstream.config, upstream.prefix, remembered.tools, checked=True
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            # A damaged file, or one of another version.
            self.remembered = None
        else:
            self._adopt(upstream.catalogue)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same server under the same settings."""
        if not isinstance(other, McpToolset):
            return NotImplemented
        mine, theirs = self.upstream, other.upstream
        return (self.name, mine.config, mine.prefix) == (other.name, theirs.config, theirs.prefix)

    def __hash__(self) -> int:
        return hash(self.name)

    def go_on_as(self, other: McpToolset) -> None:
        """Run on in place of one that was made from the same settings, with its surroundings."""
        self._ttl = other._ttl
        self.upstream.surroundings = other.upstream.surroundings

    # what the registry asks --------------------------------------------------------------------

    def definitions(self) -> Sequence[ToolDefinition]:
        return [tool.definition() for tool in self._tools.values()]

    def get_tool(self, name: str) -> Tool:
        return self._tools[name]

    async def __aenter__(self) -> Self:
        """Connect; and fetch the tools where what is remembered is old."""
        if self.remembered is None or self.remembered.age > self._ttl or not self._tools:
            await self.refresh()
        else:
            await self.upstream.session()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._relisting is not None:
            self._relisting.cancel()
        await self.upstream.aclose()

    # the list ----------------------------------------------------------------------------------

    async def refresh(self) -> Catalogue:
        """Fetch the list and put it in force.

        Raises:
            ExternalService: The server cannot be reached; the former list stays.
        """
        try:
            catalogue = await self.upstream.refresh()
            session = await self.upstream.session()
        except HardpointError as error:
            self.error = error.message
            raise
        self.error = None
        self.fetched_at = time.time()
        for warning in catalogue.warnings:
            logger.warning("%s", warning)
        self.remembered = Remembered(
            tools=[listed.raw for listed in catalogue.tools.values()],
            capabilities=session.capabilities,
            instructions=session.instructions,
            info=session.info,
            era=self.upstream.memory.era,
            kind=self.upstream.memory.kind,
            met_at=self.fetched_at,
        )
        self._cache.write(self.name, self.upstream.config, self.remembered)
        self._adopt(catalogue)
        self.replace(self, self.definitions())
        return catalogue

    def _adopt(self, catalogue: Catalogue) -> None:
        known = self._tools
        self._tools = {
            name: tool
            if (tool := known.get(name)) is not None and tool.listed.hash == listed.hash
            else McpTool(self.upstream, listed, guard=self._guard)
            for name, listed in catalogue.tools.items()
        }

    def _guard(self, listed: Listed, context: JobContext) -> None:
        if not self.upstream.config.pin:
            return
        if self.pins is None:
            raise NotAuthorized(
                f"{self.name} was configured while this process ran", hint="start it again"
            )
        self.pins.check(self.name, listed)

    def _changed(self, method: str) -> None:
        self.on_change(self.name, method)
        if method != "notifications/tools/list_changed":
            return
        if self._relisting is None or self._relisting.done():
            self._relisting = asyncio.ensure_future(self._relist())

    async def _relist(self) -> None:
        await asyncio.sleep(_DEBOUNCE)
        try:
            await self.refresh()
        except (HardpointError, TimeoutError) as error:
            logger.warning("the tools of %s could not be listed again: %s", self.name, error)
