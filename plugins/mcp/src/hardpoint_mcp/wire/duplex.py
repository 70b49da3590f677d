"""Requests and answers over one shared pair of streams, matched by id. Not what carries them."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import json
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any

from hardpoint_mcp.wire.channel import Channel, Exchange, Message
from hardpoint_mcp.wire.errors import BadAnswer, ConnectionLost, RpcError, WireError

_UNCANCELLABLE = ("initialize", "server/discover")


class DuplexChannel(Channel):
    """A channel on which everything that the server says arrives in one stream."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone: str | None = None
        self._closing = False

    @abc.abstractmethod
    async def _send(self, message: Message) -> None:
        """Send, and wait while the other side does not read. Raises `ConnectionLost`."""

    async def request(
        self, exchange: Exchange, params: Message, headers: Mapping[str, str]
    ) -> Message:
        if self._gone is not None:
            raise ConnectionLost(self._gone, sent=False)
        self._open(exchange)
        if exchange.on_progress is not None:
            params = params | {"_meta": {**params.get("_meta", {}), "progressToken": exchange.id}}
        message = {"jsonrpc": "2.0", "id": exchange.id, "method": exchange.method, "params": params}
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[exchange.id] = future
        try:
            await self._send(message)
            return await future
        except asyncio.CancelledError:
            if exchange.method not in _UNCANCELLABLE and self._gone is None:
                cancelled = {"requestId": exchange.id, "reason": "no longer wanted"}
                self._keep_task(self.notify("notifications/cancelled", cancelled, {}))
            raise
        finally:
            self._waiting.pop(exchange.id, None)
            self._exchanges.pop(exchange.id, None)
            future.cancel()

    async def notify(self, method: str, params: Message, headers: Mapping[str, str]) -> None:
        with contextlib.suppress(WireError):
            await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    # what arrives ------------------------------------------------------------------------------

    def received(self, text: bytes | str) -> None:
        """One message of the server, as it came."""
        try:
            # JSON has no invalid UTF-8; a server that sends some costs that text, not the call.
            decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
            message = json.loads(decoded)
        except (ValueError, RecursionError):
            message = _after_noise(decoded)
            self.noise += bool(text.strip())
        for one in message if isinstance(message, list) else (message,):
            if isinstance(one, dict):
                self._handle(one)
            else:
                self.noise += 1

    def _handle(self, message: Message) -> None:
        if "method" in message:
            answer = self._dispatch(message, None)
            if answer is not None:
                self._keep_task(self._reply(answer))
            return
        request_id = message.get("id")
        if isinstance(request_id, str) and request_id.isdecimal() and len(request_id) < 16:
            request_id = int(request_id)
        future = self._waiting.get(request_id) if type(request_id) is int else None
        if future is None or future.done():
            self.noise += 1
        elif "error" in message:
            future.set_exception(RpcError.from_wire(message["error"]))
        elif isinstance(message.get("result"), dict):
            future.set_result(message["result"])
        else:
            future.set_exception(BadAnswer("the server sent an answer without a result"))

    async def _reply(self, answer: Awaitable[Message]) -> None:
        with contextlib.suppress(WireError):
            await self._send(await answer)

    # the end -----------------------------------------------------------------------------------

    def _lost(self, reason: str) -> None:
        """Every waiting call ends now, and every later one before it is sent."""
        if self._gone is not None:
            return
        self._gone = reason
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost(reason))
        if not self._closing:
            self.on_closed(reason)

    def _keep_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end_tasks(self) -> None:
        self._closing = True
        self._lost("the connection was closed")
        for task in list(self._tasks):
            task.cancel()


def _after_noise(text: str) -> Any:
    """The message on a line that something else was printed on first, or an empty list."""
    start = text.find('{"jsonrpc"', 1)
    if start < 0:
        return []
    try:
        return json.loads(text[start:])
    except (ValueError, RecursionError):
        return []
