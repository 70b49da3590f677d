"""Use one MCP server from Python, without a runtime: connect, list, load a tool."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Self

from hardpoint import Tool, ToolDefinition
from hardpoint.errors import ConfigError, ToolNotFound
from hardpoint_mcp.config import ServerConfig
from hardpoint_mcp.tool import McpTool
from hardpoint_mcp.upstream import Surroundings, Upstream


class McpClient:
    """A connection to one server.

    Tools loaded from it are ordinary tools: register them with a runtime to have their calls
    checked, approved, limited, cleaned and recorded.

    Example:
        client = await McpClient.connect("uvx mcp-server-time")
        for definition in await client.list_tools():
            print(definition.name)
        runtime.registry.register(await client.load_tool("get_current_time"))
        ...
        await client.aclose()
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    @classmethod
    def of(
        cls, server: str | Sequence[str] | ServerConfig, *, name: str | None = None, **options: Any
    ) -> Self:
        """A client that connects when it is first used, or entered with `async with`.

        Args:
            server: An http(s) address, a command line, its words, or a whole configuration.
            name: For messages; taken from the server when not given.
            **options: Fields of `ServerConfig`, such as `env`, `headers`, `timeout`, `trusted`.

        Raises:
            ConfigError: The server or an option cannot be used.
        """
        try:
            config = _as_config(server, options)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"not a server: {error}") from error
        # The tools carry the server's own names: a client has one server, so nothing can clash.
        upstream = Upstream(name or _name_of(config), config, prefix="none")
        return cls(upstream)

    @classmethod
    async def connect(
        cls, server: str | Sequence[str] | ServerConfig, *, name: str | None = None, **options: Any
    ) -> Self:
        """Connect to a server; see `of` for the arguments.

        Raises:
            ConfigError: The server or an option cannot be used.
            ExternalService: It cannot be reached, or does not speak MCP.
        """
        client = cls.of(server, name=name, **options)
        try:
            await client.__aenter__()
        except BaseException:
            await client.aclose()
            raise
        return client

    @property
    def name(self) -> str:
        return self._upstream.name

    @property
    def upstream(self) -> Upstream:
        return self._upstream

    async def list_tools(self) -> list[ToolDefinition]:
        """The server's tools, fetched now."""
        return list((await self._upstream.refresh()).definitions())

    async def load_tool(self, name: str) -> Tool:
        """One tool by the server's own name.

        Raises:
            ToolNotFound: The server has no such tool, or one that cannot be used.
        """
        if not self._upstream.listed:
            await self._upstream.refresh()
        tools = self._upstream.catalogue.tools.values()
        for listed in tools:
            if listed.original == name:
                return McpTool(self._upstream, listed)
        import difflib

        raise ToolNotFound(
            name, suggestions=difflib.get_close_matches(name, [one.original for one in tools])
        )

    async def aclose(self) -> None:
        """Disconnect, and end the server if it was started."""
        await self._upstream.aclose()

    async def __aenter__(self) -> Self:
        await self._upstream.session()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self.aclose()


def _as_config(
    server: str | Sequence[str] | ServerConfig, options: Mapping[str, Any]
) -> ServerConfig:
    if isinstance(server, ServerConfig):
        import attrs

        return attrs.evolve(server, **options)
    if isinstance(server, str) and server.startswith(("http://", "https://")):
        return ServerConfig(url=server, **options)
    words = shlex.split(server) if isinstance(server, str) else list(server)
    if not words:
        raise ValueError("the command is empty")
    return ServerConfig(command=words[0], args=words[1:], **options)


def _name_of(config: ServerConfig) -> str:
    if config.url is not None:
        from urllib.parse import urlsplit

        return urlsplit(config.url).hostname or "server"
    words = [word for word in (config.command or "", *config.args) if not word.startswith("-")]
    return words[-1 if len(words) > 1 and words[0] in ("npx", "uvx") else 0].rpartition("/")[2]


__all__ = ["McpClient", "Surroundings"]
