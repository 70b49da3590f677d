"""Logins that a tool began and a person ends: the address is handed over, the rest goes on alone.

The listener for the way back from the browser waits in the background, for some minutes. No token
and no code passes through the tool's answer.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import attrs

from hardpoint.errors import ExternalService
from hardpoint_mcp.config import ServerConfig

_PATIENCE: Final = 30.0
"""Seconds for the authorization server to say where the login is."""


@attrs.frozen
class _Open:
    work: asyncio.Task[Any]
    address: asyncio.Future[str]


class Handovers:
    """The logins that are open, one for each server."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    async def begin(self, name: str, config: ServerConfig, store: Any, secrets: Any) -> str:
        """The address where a person logs in; the same one while a login is open.

        Raises:
            ExternalService: The server does not say where.
        """
        known = self._open.get(name)
        if known is None or known.work.done():
            known = self._open[name] = self._start(name, config, store, secrets)
        await asyncio.wait(
            (known.work, known.address), timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED
        )
        if known.address.done():
            return known.address.result()
        if known.work.done():
            known.work.result()  # raises why there is no address
        known.work.cancel()
        raise ExternalService(f"{name} does not say where one logs in")

    def _start(self, name: str, config: ServerConfig, store: Any, secrets: Any) -> _Open:
        from hardpoint_mcp.login import by_browser

        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def show(url: str) -> bool:
            if not address.done():
                address.set_result(url)
            return True

        login = by_browser(
            name, config, store, say=lambda line: None, open_browser=show, secrets=secrets
        )
        work = asyncio.ensure_future(login)
        # Looked at when somebody asks again; an error that nobody asks for is none.
        work.add_done_callback(lambda task: task.cancelled() or task.exception())
        return _Open(work, address)

    async def aclose(self) -> None:
        """Give up every open login."""
        tasks = [each.work for each in self._open.values()]
        self._open.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
