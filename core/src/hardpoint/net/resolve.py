"""Turn a name into addresses. Which of them may be contacted is decided in `guard`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hardpoint.errors import ExternalService


class Resolver(Protocol):
    """Whatever looks names up; `PinnedClient` takes one, so that others can be brought."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Every address of a name, as text; empty when it has none."""
        ...


class SystemResolver:
    """The operating system's resolver, asked on a thread of the event loop."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        import asyncio
        import socket

        loop = asyncio.get_running_loop()
        try:
            answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ExternalService(
                f"the name {host!r} cannot be resolved: {error}",
                hint="check its spelling, and that this machine has a working resolver",
            ) from error
        return [str(answer[4][0]) for answer in answers]
