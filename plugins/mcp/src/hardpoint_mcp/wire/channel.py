"""What every transport offers: send a request and get its answer. How bytes travel is theirs."""

from __future__ import annotations

import abc
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs

from hardpoint_mcp.wire.errors import METHOD_NOT_FOUND, RpcError

logger = logging.getLogger(__name__)

Message = dict[str, Any]
Answer = Callable[[str, Message], Awaitable[Message]]

DEFAULT_MAX_MESSAGE = 64 * 1024 * 1024


@attrs.define(eq=False)
class Exchange:
    """One request under way, and who listens to what the server says meanwhile."""

    method: str
    on_progress: Callable[[float, float | None, str | None], None] | None = None
    on_log: Callable[[Message], None] | None = None
    answer: Answer | None = None
    """Answers what the server asks in the middle of the call; None refuses."""
    owner: object = None
    """Who would answer; equal for the calls of one client."""
    id: int = 0

    def progress(self, params: Message) -> None:
        done, total, text = (params.get(key) for key in ("progress", "total", "message"))
        done, total = _number(done), _number(total)
        if self.on_progress is not None and done is not None:
            self.on_progress(done, total, text[:2000] if isinstance(text, str) else None)


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


class Channel(abc.ABC):
    """A way to one server. Used from one event loop; safe to use from many tasks of it."""

    each_request_alone = False
    """Whether one failed request says nothing about the next."""

    def __init__(self) -> None:
        self.on_notification: Callable[[str, Message], None] = lambda method, params: None
        """Told about every notification that belongs to no exchange."""
        self.on_closed: Callable[[str], None] = lambda reason: None
        """Told once when the server is gone and nobody asked it to go."""
        self.answer: Answer | None = None
        """Answers what the server asks outside any call."""
        self._exchanges: dict[int, Exchange] = {}
        self._last_id = 0
        self.noise = 0
        """How many messages made no sense."""

    @abc.abstractmethod
    async def start(self) -> None:
        """Open the way. Raises `ConnectionLost` when there is none; leaves nothing behind then."""

    @abc.abstractmethod
    async def request(
        self, exchange: Exchange, params: Message, headers: Mapping[str, str]
    ) -> Message:
        """The result of one request. Cancelling it tells the server.

        Raises:
            RpcError: The server answered with an error.
            ConnectionLost: The server is gone.
        """

    @abc.abstractmethod
    async def notify(self, method: str, params: Message, headers: Mapping[str, str]) -> None:
        """Send a notification; a lost connection is not an error here."""

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Close the way and whatever was started for it. Never raises, ends in bounded time."""

    def set_version(self, version: str) -> None:
        """Told when the protocol version is settled, for what a transport sends by itself."""
        self._version: str | None = version

    @property
    def last_words(self) -> str:
        """What the server said last outside the protocol, for an error message."""
        return ""

    # shared by the transports ------------------------------------------------------------------

    def _open(self, exchange: Exchange) -> Exchange:
        self._last_id += 1
        exchange.id = self._last_id
        self._exchanges[exchange.id] = exchange
        return exchange

    def _dispatch(self, message: Message, exchange: Exchange | None) -> Awaitable[Message] | None:
        """Handle a message that is no response; for a request, the awaitable that answers it."""
        method = message.get("method")
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if not isinstance(method, str):
            self.noise += 1
            return None
        if "id" in message and message["id"] is not None:
            return self._answer(method, params, message["id"], exchange)
        if method == "notifications/progress":
            token = params.get("progressToken")
            if isinstance(token, str) and token.isdecimal() and len(token) < 16:
                token = int(token)
            owner = self._exchanges.get(token) if type(token) is int else None
            if owner is not None:
                owner.progress(params)
            return None
        if method == "notifications/message":
            listeners = [exchange] if exchange else list(self._exchanges.values())
            for one in listeners:
                if one.on_log is not None:
                    one.on_log(params)
        self.on_notification(method, params)
        return None

    async def _answer(
        self, method: str, params: Message, request_id: Any, exchange: Exchange | None
    ) -> Message:
        reply: Message = {"jsonrpc": "2.0", "id": request_id}
        if method == "ping":
            return reply | {"result": {}}
        answer = exchange.answer if exchange is not None else self._any_answer()
        if answer is None:
            text = f"{method} is not offered by this client"
            return reply | {"error": {"code": METHOD_NOT_FOUND, "message": text}}
        try:
            return reply | {"result": await answer(method, params)}
        except RpcError as error:
            wire = {"code": error.code, "message": error.message}
            return reply | {"error": wire if error.data is None else wire | {"data": error.data}}

    def _any_answer(self) -> Answer | None:
        """Who answers when the transport does not say to which call a question belongs.

        Clear only when all calls under way have the same client in front of them.
        """
        askers = [e for e in self._exchanges.values() if e.answer is not None]
        if not askers:
            return self.answer
        if any(one.owner != askers[0].owner for one in askers):
            return None
        return askers[0].answer
