"""A server behind streamable HTTP: one POST for each message, answers as JSON or as a stream.

A request lives in the task of whoever makes it: its failure, its cancellation and the questions
that arrive on its stream belong to that call and to no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from hardpoint_mcp.wire.channel import DEFAULT_MAX_MESSAGE, Channel, Exchange, Message
from hardpoint_mcp.wire.errors import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    AuthRequired,
    BadAnswer,
    ConnectionLost,
    RpcError,
    SessionLost,
    WireError,
    plain,
)
from hardpoint_mcp.wire.versions import MODERN

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
_ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_RECONNECTS = 2
_LONGEST_RETRY = 30.0
_AUTH_WORDS = (
    "unauthorized",
    "invalid_token",
    "authentication",
    "not authenticated",
    "auth required",
)


class HttpChannel(Channel):
    """Streamable HTTP, stateless (2026-07-28) and with sessions (before)."""

    each_request_alone = True

    def __init__(
        self,
        url: str,
        make_client: Callable[[], httpx2.AsyncClient],
        headers: Mapping[str, str] | None = None,
        *,
        max_message: int = DEFAULT_MAX_MESSAGE,
    ) -> None:
        super().__init__()
        self._url = url
        self._make_client = make_client
        self._headers = dict(headers or {})
        self._max_message = max_message
        self._client: httpx2.AsyncClient | None = None
        self._session: str | None = None
        self._version: str | None = None
        self._stateless = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._client = self._make_client()

    def set_version(self, version: str) -> None:
        self._version = version
        self._stateless = version in MODERN

    async def request(
        self, exchange: Exchange, params: Message, headers: Mapping[str, str]
    ) -> Message:
        self._open(exchange)
        if exchange.on_progress is not None:
            params = params | {"_meta": {**params.get("_meta", {}), "progressToken": exchange.id}}
        message = {"jsonrpc": "2.0", "id": exchange.id, "method": exchange.method, "params": params}
        stateless = self._stateless
        try:
            return await self._post(message, exchange, headers)
        except asyncio.CancelledError:
            # Without sessions the closed stream says it; before, a notification has to.
            if not stateless and exchange.method not in ("initialize", "server/discover"):
                cancelled = {"requestId": exchange.id, "reason": "no longer wanted"}
                self._keep_task(self.notify("notifications/cancelled", cancelled, {}))
            raise
        finally:
            self._exchanges.pop(exchange.id, None)

    async def notify(self, method: str, params: Message, headers: Mapping[str, str]) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        with contextlib.suppress(WireError):
            await self._post(message, None, headers)
        if method == "notifications/initialized" and self._session is not None:
            self._keep_task(self._listen())

    async def aclose(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        client, self._client = self._client, None
        if client is None:
            return
        with contextlib.suppress(Exception, asyncio.TimeoutError):
            async with asyncio.timeout(2):
                if self._session is not None:
                    await client.request("DELETE", self._url, headers=self._own_headers())
                await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(Exception):
            await client.aclose()

    # one message -------------------------------------------------------------------------------

    def _own_headers(self) -> dict[str, str]:
        headers = dict(self._headers)
        if self._session is not None:
            headers[SESSION_HEADER] = self._session
        if self._version is not None:
            headers[VERSION_HEADER] = self._version
        return headers

    async def _post(
        self, message: Message, exchange: Exchange | None, headers: Mapping[str, str]
    ) -> Message:
        body = json.dumps(message, separators=(",", ":")).encode()
        sent = self._own_headers() | _ACCEPT | dict(headers)
        if message.get("method") == "initialize":
            for header in (VERSION_HEADER, SESSION_HEADER):
                sent.pop(header, None)
        async with self._stream("POST", sent, body) as response:
            if response.status_code >= 300:
                await self._refuse(response)
            if exchange is None:
                return {}
            if response.status_code == 202:
                raise RpcError(
                    INVALID_REQUEST, "the server took the request and will not answer it"
                )
            if exchange.method == "initialize":
                self._session = response.headers.get(SESSION_HEADER) or self._session
            kind = _content_type(response)
            if kind == "application/json":
                return self._result(_parse(await self._read(response)), exchange)
            if kind == "text/event-stream":
                cursor = _Cursor()
                answer = await self._follow(response, exchange, cursor)
                return answer if answer is not None else await self._resume(exchange, cursor)
            text = plain((await self._read(response, 4000)).decode("utf-8", "replace"), 200)
            raise BadAnswer(
                f"the server answered with {plain(kind, 80) or 'no content type'} where JSON or an"
                f" event stream belongs: {text}"
            )

    @contextlib.asynccontextmanager
    async def _stream(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """One HTTP exchange. A redirect is followed only on the server's own origin."""
        import httpx2

        if self._client is None:
            raise ConnectionLost("the connection is closed", sent=False)
        try:
            request = self._client.build_request(method, self._url, headers=headers, content=body)
            for hop in range(6):
                response = await self._client.send(request, stream=True, follow_redirects=False)
                following = response.next_request
                if following is None or hop == 5 or not _same_origin(request, following):
                    break
                await response.aclose()
                request = following
            try:
                yield response
            finally:
                await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            what = f"cannot reach {self._origin}: {plain(str(error)) or type(error).__name__}"
            raise ConnectionLost(what, sent=False) from error
        except httpx2.SSEError as error:
            raise ConnectionLost(f"the event stream of {self._origin} broke: {error}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            why = plain(str(error)) or type(error).__name__
            raise ConnectionLost(f"the connection to {self._origin} broke: {why}") from error

    @property
    def _origin(self) -> str:
        return self._url.partition("?")[0]

    async def _refuse(self, response: httpx2.Response) -> None:
        """Say what a status of 300 and more means. Always raises."""
        status = response.status_code
        if response.next_request is not None:
            target = response.next_request.url.copy_with(userinfo=b"", query=None, fragment=None)
            raise ConnectionLost(
                f"{self._origin} redirects to {target}, which is not followed",
                sent=False,
                hint="use that address if it is the intended server",
            )
        body = await self._read(response, 64_000)
        if _content_type(response) == "application/json":
            with contextlib.suppress(BadAnswer):
                message = _parse(body)
                error = message.get("error") if isinstance(message, dict) else None
                if isinstance(error, dict) and isinstance(error.get("code"), int):
                    if self._session is not None and status in (400, 404) and _names_session(error):
                        raise SessionLost("the server no longer knows the session")
                    if status != 401:
                        raise RpcError.from_wire(error)
        text = plain(body.decode("utf-8", "replace"), 200)
        if self._session is not None and (
            status == 404 or (status == 400 and "session" in text.lower())
        ):
            raise SessionLost("the server no longer knows the session")
        looks_like_auth = any(word in text.lower() for word in _AUTH_WORDS)
        if status in (401, 403) or (status == 400 and looks_like_auth):
            raise AuthRequired(
                f"{self._origin} asks for authentication (HTTP {status})",
                challenge=response.headers.get("www-authenticate", ""),
            )
        if status == 404 and self._session is None:
            raise RpcError(METHOD_NOT_FOUND, f"{self._origin} answers HTTP 404: {text}")
        raise ConnectionLost(f"{self._origin} answers HTTP {status}: {text}")

    async def _read(self, response: httpx2.Response, limit: int | None = None) -> bytes:
        pieces, size = [], 0
        async for piece in response.aiter_bytes():
            pieces.append(piece)
            size += len(piece)
            if limit is not None and size > limit:
                break
            if size > self._max_message:
                raise BadAnswer(
                    f"{self._origin} sent a message of more than {self._max_message} bytes"
                )
        return b"".join(pieces)

    def _result(self, message: Any, exchange: Exchange) -> Message:
        if isinstance(message, dict):
            if "error" in message:
                raise RpcError.from_wire(message["error"])
            result = message.get("result")
            if isinstance(result, dict):
                return result
        raise BadAnswer("the server sent an answer without a result")

    # streams -----------------------------------------------------------------------------------

    async def _follow(
        self, response: httpx2.Response, exchange: Exchange | None, cursor: _Cursor
    ) -> Message | None:
        """Read a stream until the exchange's answer comes; None when it ends before."""
        import httpx2

        try:
            async for event in httpx2.EventSource(response, max_event_size=self._max_message):
                cursor.saw(event)
                if not event.data:
                    continue
                try:
                    message = _parse(event.data)
                except BadAnswer:
                    self.noise += 1
                    continue
                if not isinstance(message, dict):
                    self.noise += 1
                elif "method" in message:
                    answer = self._dispatch(message, exchange)
                    if answer is not None:
                        self._keep_task(self._reply(answer))
                elif exchange is not None and str(message.get("id")) == str(exchange.id):
                    return self._result(message, exchange)
                else:
                    self.noise += 1
        except httpx2.SSEError:
            raise
        except httpx2.HTTPError as error:
            if cursor.last_id is None:
                raise
            logger.debug("stream of %s broke: %s", self._origin, error)
        return None

    async def _reply(self, answer: Any) -> None:
        message = await answer
        with contextlib.suppress(WireError):
            await self._post(message, None, {})

    async def _resume(self, exchange: Exchange, cursor: _Cursor) -> Message:
        """Go on reading after a stream ended early, where the server numbers its events."""
        attempts = 0
        while cursor.last_id is not None and attempts < _RECONNECTS:
            seen = cursor.count
            await asyncio.sleep(cursor.retry)
            try:
                answer = await self._reopen(exchange, cursor)
            except ConnectionLost as error:
                logger.debug("cannot resume: %s", error)
                answer = None
            if answer is not None:
                return answer
            attempts = 0 if cursor.count > seen else attempts + 1
        raise ConnectionLost("the server ended the stream without an answer")

    async def _reopen(self, exchange: Exchange | None, cursor: _Cursor) -> Message | None:
        headers = self._own_headers() | {"accept": "text/event-stream"}
        if cursor.last_id is not None:
            headers["last-event-id"] = cursor.last_id
        async with self._stream("GET", headers) as response:
            if response.status_code >= 300 or _content_type(response) != "text/event-stream":
                raise ConnectionLost(f"no event stream: HTTP {response.status_code}", sent=False)
            return await self._follow(response, exchange, cursor)

    async def _listen(self) -> None:
        """Keep open the stream on which a server with sessions says what changed."""
        cursor, failures = _Cursor(), 0
        while failures < 5:
            try:
                seen = cursor.count
                await self._reopen(None, cursor)
                failures = 0 if cursor.count > seen else failures + 1
            except ConnectionLost as error:
                if not error.sent:
                    return  # it offers none
                failures += 1
            await asyncio.sleep(cursor.retry * 2**failures)

    def _keep_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Cursor:
    """How far a numbered stream was read."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.retry = 1.0
        self.count = 0

    def saw(self, event: httpx2.ServerSentEvent) -> None:
        self.count += 1
        if event.id:
            self.last_id = event.id
        if event.retry is not None:
            self.retry = min(max(event.retry, 0) / 1000, _LONGEST_RETRY)


def _content_type(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _parse(data: bytes | str) -> Any:
    try:
        return json.loads(data.decode("utf-8", "replace") if isinstance(data, bytes) else data)
    except (ValueError, RecursionError) as error:
        raise BadAnswer("the server sent something that is not JSON") from error


def _names_session(error: Message) -> bool:
    return "session" in str(error.get("message", "")).lower()


def _same_origin(sent: httpx2.Request, following: httpx2.Request) -> bool:
    """Whether a redirect stays where the credentials belong, keeping the method."""
    here, there = sent.url, following.url
    upgrade = (here.scheme, there.scheme) == ("http", "https") and here.port is there.port is None
    return (
        following.method == sent.method
        and here.host == there.host
        and ((here.scheme, here.port) == (there.scheme, there.port) or upgrade)
        and (not there.userinfo or there.userinfo == here.userinfo)
    )
