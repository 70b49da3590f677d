"""The servers' resources and prompts under the gateway's names, and the way back."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from hardpoint.errors import HardpointError
from hardpoint_mcp.config import McpConfig, PrefixMode
from hardpoint_mcp.names import assign
from hardpoint_mcp.toolset import McpToolset
from hardpoint_mcp.upstream import Upstream
from hardpoint_mcp.wire.channel import Message
from hardpoint_mcp.wire.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

logger = logging.getLogger(__name__)

_SCHEME: Final = "hardpoint://"
_LIST_PATIENCE: Final = 20.0


@attrs.frozen
class Kind:
    """One kind of thing that servers list."""

    method: str
    key: str
    capability: str


RESOURCES: Final = Kind("resources/list", "resources", "resources")
TEMPLATES: Final = Kind("resources/templates/list", "resourceTemplates", "resources")
PROMPTS: Final = Kind("prompts/list", "prompts", "prompts")


@attrs.define
class _Shelf:
    """What one server listed of one kind."""

    items: tuple[Message, ...] = ()
    fetched_at: float = 0.0
    lock: asyncio.Lock = attrs.field(factory=asyncio.Lock)


class Library:
    """Lists of all servers, kept for a while, and the routes that follow from them."""

    def __init__(
        self,
        toolsets: Callable[[], Mapping[str, McpToolset]],
        settings: Callable[[], McpConfig],
    ) -> None:
        self._in_force = toolsets
        self._settings = settings
        self._shelves: dict[tuple[str, Kind], _Shelf] = {}

    @property
    def _toolsets(self) -> Mapping[str, McpToolset]:
        return self._in_force()

    # who offers what ---------------------------------------------------------------------------

    def offers(self, capability: str) -> bool:
        """Whether any server offers resources, prompts or completions."""
        return any(self._has(toolset, capability) for toolset in self._toolsets.values())

    def _has(self, toolset: McpToolset, capability: str) -> bool:
        config = toolset.upstream.config
        if (capability == "resources" and not config.resources) or (
            capability == "prompts" and not config.prompts
        ):
            return False
        return toolset.remembered is not None and capability in toolset.remembered.capabilities

    def _mode_of(self, toolset: McpToolset) -> PrefixMode:
        return toolset.upstream.config.prefix or self._settings().prefix

    # lists -------------------------------------------------------------------------------------

    async def listed(self, kind: Kind) -> list[Message]:
        """Everything of one kind under the names that clients use, in a stable order."""
        toolsets = [t for _, t in sorted(self._toolsets.items()) if self._has(t, kind.capability)]
        shelves = await asyncio.gather(*(self._fetch(toolset, kind) for toolset in toolsets))
        items: list[Message] = []
        for toolset, shelf in zip(toolsets, shelves, strict=True):
            items += self._named(toolset, kind, shelf.items)
        return items

    async def _fetch(self, toolset: McpToolset, kind: Kind) -> _Shelf:
        shelf = self._shelves.setdefault((toolset.name, kind), _Shelf())
        async with shelf.lock:
            if shelf.fetched_at and self._is_fresh(shelf):
                return shelf
            try:
                page = await toolset.upstream.collect(kind.method, kind.key, _LIST_PATIENCE)
            except RpcError as error:
                if error.code != METHOD_NOT_FOUND:
                    logger.warning("%s", error)
                    return shelf
                page = ()
            except (HardpointError, TimeoutError) as error:
                # What it listed before stays: a server out of reach is not an empty one.
                logger.warning("%s of %s: %s", kind.method, toolset.name, error)
                return shelf
            shelf.items, shelf.fetched_at = tuple(page), time.monotonic()
        return shelf

    def _is_fresh(self, shelf: _Shelf) -> bool:
        return time.monotonic() - shelf.fetched_at < self._settings().serve.list_ttl

    def forget(self, server: str, capability: str | None = None) -> None:
        """A server said that a list changed, or is not the one that it was."""
        for (name, kind), shelf in self._shelves.items():
            if name == server and capability in (None, kind.capability):
                shelf.fetched_at = 0.0

    def _named(
        self, toolset: McpToolset, kind: Kind, items: Iterable[Message]
    ) -> Sequence[Message]:
        mode = self._mode_of(toolset)
        if kind is PROMPTS:
            by_name = {str(item.get("name")): item for item in items}
            names = assign(toolset.name, mode, by_name)
            return [by_name[original] | {"name": name} for name, original in names.items()]
        if mode == "none":
            return list(items)
        field = "uri" if kind is RESOURCES else "uriTemplate"
        return [
            item | {field: self.outer_uri(toolset.name, str(item.get(field)))} for item in items
        ]

    def outer_uri(self, server: str, uri: str) -> str:
        """A server's address as clients see it."""
        toolset = self._toolsets.get(server)
        if toolset is None or self._mode_of(toolset) == "none":
            return uri
        return f"{_SCHEME}{server}/{uri}"

    # the way back ------------------------------------------------------------------------------

    async def find_prompt(self, name: str) -> tuple[Upstream, str]:
        """The server of a prompt and the name that it has there.

        Raises:
            RpcError: No server has it.
        """
        for toolset in self._toolsets.values():
            if not self._has(toolset, "prompts"):
                continue
            shelf = await self._fetch(toolset, PROMPTS)
            originals = [str(item.get("name")) for item in shelf.items]
            original = assign(toolset.name, self._mode_of(toolset), originals).get(name)
            if original is not None:
                return toolset.upstream, original
        raise RpcError(INVALID_PARAMS, f"Unknown prompt: {name}")

    async def find_resource(self, uri: str) -> tuple[Upstream, str]:
        """The server of a resource and the address that it has there.

        Servers' own addresses work too, where only one server knows them: results hold such links.

        Raises:
            RpcError: No server has it, or several have it.
        """
        if uri.startswith(_SCHEME):
            server, _, inner = uri.removeprefix(_SCHEME).partition("/")
            toolset = self._toolsets.get(server)
            if toolset is not None and self._has(toolset, "resources"):
                return toolset.upstream, inner
        exact = await self._owners(RESOURCES, lambda item: item.get("uri") == uri)
        owners = exact or await self._owners(
            TEMPLATES, lambda item: matches(str(item.get("uriTemplate")), uri)
        )
        if not owners:
            # Servers may read what they do not list; with one of them there is nothing to guess.
            owners = [t for t in self._toolsets.values() if self._has(t, "resources")]
            if len(owners) != 1:
                raise RpcError(INVALID_PARAMS, "Resource not found", {"uri": uri})
        if len(owners) > 1:
            choices = ", ".join(f"{_SCHEME}{toolset.name}/{uri}" for toolset in owners)
            raise RpcError(
                INVALID_PARAMS,
                f"several servers have this resource; use one of {choices}",
                {"uri": uri},
            )
        return owners[0].upstream, uri

    async def _owners(self, kind: Kind, fits: Callable[[Message], bool]) -> list[McpToolset]:
        found = []
        for toolset in self._toolsets.values():
            if self._has(toolset, kind.capability):
                shelf = await self._fetch(toolset, kind)
                if any(fits(item) for item in shelf.items):
                    found.append(toolset)
        return found


def matches(template: str, uri: str) -> bool:
    """Whether an address may come from a URI template. Approximate, and in linear time."""
    first, *others = re.split(r"\{[^{}]*\}", template)
    if not others:
        return template == uri
    *middle, last = others
    at, end = len(first), len(uri) - len(last)
    if not (uri.startswith(first) and uri.endswith(last)):
        return False
    for piece in middle:
        at = uri.find(piece, at + 1, end)
        if at < 0:
            return False
        at += len(piece)
    return at < end
