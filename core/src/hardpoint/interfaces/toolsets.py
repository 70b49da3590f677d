"""A changing group of tools from one source: an MCP server, a folder of built tools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from hardpoint.tools import Tool, ToolDefinition


class Toolset(ABC):
    """Tools that come and go together.

    The registry asks for `definitions` and `get_tool` without I/O, enters the toolset at the first
    call of one of its tools and leaves it when the runtime closes. When its tools change, it calls
    `context.services.registry.replace(self, definitions)`, or the `replace` of the registrar.
    """

    name: str
    """The source, for example the server's name; unique among toolsets."""

    @abstractmethod
    def definitions(self) -> Sequence[ToolDefinition]:
        """The known definitions, from a cache. No I/O."""

    @abstractmethod
    def get_tool(self, name: str) -> Tool:
        """The tool behind one of the definitions, by its registered name. No I/O.

        Raises:
            KeyError: When there is no such tool.
        """

    async def __aenter__(self) -> Self:
        """Connect. An exception makes the call fail as `external_service`."""
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        """Disconnect and leave nothing behind."""
