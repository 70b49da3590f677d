"""Pass on to the client what a call says while it runs: progress and log lines, in their order."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.session import ServerSession

from hardpoint_mcp.wire.channel import Message

logger = logging.getLogger(__name__)

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_LONGEST_QUEUE = 1000

# Deprecated by the protocol; what servers log is passed on all the same, without a warning here.
_send_log_message = inspect.unwrap(ServerSession.send_log_message)


class Relay:
    """The way back to the client for one request; a later one of the same call takes it over."""

    def __init__(self, session: ServerSession, request_id: Any, log_level: str | None) -> None:
        self.session = session
        self.request_id = request_id
        self.log_level = log_level
        """The least level to pass on; None passes all that the session lets through."""
        self._waiting: list[Callable[[], Awaitable[None]]] = []
        self._pump: asyncio.Task[None] | None = None

    def take_over(self, other: Relay) -> None:
        """Go on in the request of `other`."""
        self.session, self.request_id = other.session, other.request_id

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        self._put(lambda: self.session.report_progress(done, total, message))

    def log(self, params: Message) -> None:
        level = params.get("level")
        if level not in LEVELS or (
            self.log_level in LEVELS and LEVELS.index(level) < LEVELS.index(self.log_level)
        ):
            return
        name = params.get("logger")
        self._put(
            lambda: _send_log_message(
                self.session,
                level,
                params.get("data"),
                name if isinstance(name, str) else None,
                related_request_id=self.request_id,
            )
        )

    async def flush(self) -> None:
        """Wait until everything has left: nothing may follow the result."""
        while self._pump is not None:
            await asyncio.shield(self._pump)

    def _put(self, send: Callable[[], Awaitable[None]]) -> None:
        if len(self._waiting) < _LONGEST_QUEUE:
            self._waiting.append(send)
        if self._pump is None:
            self._pump = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._waiting.pop(0)()
        except Exception as error:  # the client may be gone; that ends the telling, not the call
            logger.debug("nothing more is passed on: %s", error)
            self._waiting.clear()
        finally:
            self._pump = None
