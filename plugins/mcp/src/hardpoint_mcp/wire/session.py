"""One conversation with a server: which era it speaks, requests in that era, lists page by page."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import attrs

from hardpoint_mcp.wire import versions
from hardpoint_mcp.wire.channel import Channel, Exchange, Message
from hardpoint_mcp.wire.errors import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    UNSUPPORTED_VERSION,
    AuthRequired,
    BadAnswer,
    ConnectionLost,
    RpcError,
)
from hardpoint_mcp.wire.headers import Path, request_headers

Era = Literal["auto", "modern", "handshake"]

# A Python server needs seconds to import its SDK, so a silent one is not old for that alone: after
# this time it is asked the old way too, and whichever answer comes first counts.
_PROBE_PATIENCE: Final = 4.0
# Over HTTP an old server refuses what it does not know; one that is silent is busy.
_PROBE_PATIENCE_HTTP: Final = 15.0
_MAX_ROUNDS: Final = 10


class Asker(Protocol):
    """Who answers what a server asks in the middle of a call."""

    capabilities: Mapping[str, Any]
    """What the client in front declared; nothing else is promised to the server."""
    owner: object
    """Equal for calls of one client: a question that names no call may go to any of them."""
    era: Era
    """How that client speaks."""

    async def ask(self, questions: Mapping[str, Message]) -> Mapping[str, Message]:
        """The answers by the same keys. A question is `{"method", "params"}`.

        Raises:
            RpcError: When it is not answered.
        """


@attrs.frozen
class Page:
    """Everything that a list method gave."""

    items: tuple[Message, ...]
    warnings: tuple[str, ...] = ()
    ttl: float | None = None
    """For how many seconds the server says that the list holds."""


@attrs.define(eq=False)
class Call:
    """What one request is given besides its parameters."""

    timeout: float
    """Seconds for the work; the time in which a person thinks does not count."""
    asker: Asker | None = None
    on_progress: Callable[[float, float | None, str | None], None] | None = None
    on_log: Callable[[Message], None] | None = None
    meta: Mapping[str, Any] = attrs.field(factory=dict)
    first_answers: Any = None
    """Answers that the client in front sent along unasked; what they are worth, the server says."""


@attrs.frozen
class _Agreed:
    """What a negotiation gave."""

    version: str
    result: Message
    info: Any


class Session:
    """A negotiated conversation over a channel."""

    def __init__(
        self,
        channel: Channel,
        *,
        client: Mapping[str, str],
        capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        self.channel = channel
        self.version: str = ""
        self.capabilities: Message = {}
        """The server's."""
        self.info: Message = {}
        self.instructions: str | None = None
        self.param_headers: Callable[[str], Mapping[Path, str]] = lambda tool: {}
        """Which arguments of a tool travel as headers too."""
        self.relist: Callable[[], Any] | None = None
        """Called when the server says that those headers are wrong."""
        self._client = dict(client)
        self._capabilities = dict(capabilities or {})

    @property
    def modern(self) -> bool:
        return self.version in versions.MODERN

    # negotiation -------------------------------------------------------------------------------

    async def open(self, era: Era, timeout: float) -> None:
        """Agree on a version.

        Raises:
            ConnectionLost: When the server is gone, or silent for `timeout` seconds.
            RpcError: When it speaks, and no common version is found.
        """
        try:
            async with asyncio.timeout(timeout):
                if era == "handshake":
                    agreed = await self._old_way()
                else:
                    agreed = await self._negotiate(self._patience if era == "auto" else timeout)
                await self._adopt(agreed)
        except TimeoutError:
            what = f"the server did not answer within {timeout:g} s"
            raise ConnectionLost(what, sent=False) from None

    @property
    def _patience(self) -> float:
        """How long the new way is tried alone."""
        return _PROBE_PATIENCE_HTTP if self.channel.each_request_alone else _PROBE_PATIENCE

    async def _negotiate(self, patience: float) -> _Agreed:
        """Ask the new way, then the old; a slow server is asked both ways at once."""
        probe = asyncio.ensure_future(self._discover(versions.MODERN[-1]))
        handshake: asyncio.Future[_Agreed] | None = None
        try:
            await asyncio.wait((probe,), timeout=patience)
            if not probe.done():
                handshake = asyncio.ensure_future(self._handshake())
                await asyncio.wait((probe, handshake), return_when=asyncio.FIRST_COMPLETED)
                # An answer to the probe was under way: the server is of the new kind after all.
                if _code(handshake) == UNSUPPORTED_VERSION:
                    await asyncio.wait((probe,))
            if probe.done():
                try:
                    return await probe
                except AuthRequired:
                    raise
                except RpcError as error:
                    if error.code == UNSUPPORTED_VERSION:
                        if (version := _common(error.data)) is not None:
                            return await self._discover(version)
                        if not _speaks_handshake(error.data):
                            raise
                except ConnectionLost as error:
                    if not (error.sent and self.channel.each_request_alone):
                        raise
                except BadAnswer:
                    pass  # a web page, for example: no sign of the new way
            return await (handshake or self._old_way())
        finally:
            for attempt in (probe, handshake):
                if attempt is not None and not attempt.done():
                    attempt.cancel()
                    await asyncio.wait((attempt,))
                if attempt is not None and not attempt.cancelled():
                    attempt.exception()  # seen; what counts was raised above

    async def _old_way(self) -> _Agreed:
        try:
            return await self._handshake()
        except RpcError as error:
            # A server that was updated since it was met last, and speaks only the new way.
            if error.code != UNSUPPORTED_VERSION:
                raise
            return await self._discover(_common(error.data) or versions.MODERN[-1])

    async def _discover(self, version: str) -> _Agreed:
        result = await self._send("server/discover", {}, Exchange("server/discover"), version)
        offered = result.get("supportedVersions")
        common = [v for v in versions.MODERN if isinstance(offered, list) and v in offered]
        if not common:
            raise RpcError(INVALID_REQUEST, "the server offers no stateless protocol version")
        meta = result.get("_meta")
        info = meta.get(versions.SERVER_KEY) if isinstance(meta, dict) else None
        return _Agreed(common[-1], result, info)

    async def _handshake(self) -> _Agreed:
        params = {
            "protocolVersion": versions.HANDSHAKE[-1],
            "capabilities": self._capabilities,
            "clientInfo": self._client,
        }
        result = await self.channel.request(Exchange("initialize"), params, {})
        version = result.get("protocolVersion")
        if version not in versions.HANDSHAKE:
            what = f"the server speaks protocol version {version!r}, which is unknown"
            raise RpcError(INVALID_REQUEST, what)
        return _Agreed(version, result, result.get("serverInfo"))

    async def _adopt(self, agreed: _Agreed) -> None:
        capabilities = agreed.result.get("capabilities")
        instructions = agreed.result.get("instructions")
        self.version = agreed.version
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.instructions = instructions if isinstance(instructions, str) else None
        self.info = agreed.info if isinstance(agreed.info, dict) else {}
        self.channel.set_version(self.version)
        if not self.modern:
            headers = {"mcp-protocol-version": self.version}
            await self.channel.notify("notifications/initialized", {}, headers)

    # requests ----------------------------------------------------------------------------------

    async def request(self, method: str, params: Message, call: Call) -> Message:
        """The final result of one request; what the server asks on the way is put to the asker.

        Raises:
            TimeoutError: After `call.timeout` seconds of the server's own time.
            RpcError: The server answered with an error.
            ConnectionLost: The server is gone.
        """
        async with asyncio.timeout(call.timeout) as clock:
            params = dict(params)
            if call.meta:
                params["_meta"] = dict(call.meta)
            if call.first_answers is not None and self.modern:
                params["inputResponses"] = call.first_answers
            asker = None if call.asker is None else _Paused(call.asker, clock)
            for _ in range(_MAX_ROUNDS):
                result = await self._once(method, params, call, asker)
                if result.get("resultType") != "input_required":
                    return result
                params = await self._answered(params, result, asker)
            raise RpcError(INVALID_REQUEST, f"the server asked {_MAX_ROUNDS} times without an end")

    async def _once(
        self, method: str, params: Message, call: Call, asker: _Paused | None
    ) -> Message:
        for last in (False, True):
            exchange = Exchange(method)
            exchange.on_progress, exchange.on_log = call.on_progress, call.on_log
            if asker is not None:
                exchange.answer, exchange.owner = asker.answer, asker.owner
            capabilities = self._capabilities if asker is None else asker.capabilities
            try:
                return await self._send(method, params, exchange, self.version, capabilities)
            except RpcError as error:
                if last or error.code != HEADER_MISMATCH or self.relist is None:
                    raise
                await self.relist()
        raise AssertionError("unreachable")

    async def _answered(self, params: Message, result: Message, asker: _Paused | None) -> Message:
        """The parameters of the next round."""
        questions = result.get("inputRequests")
        questions = questions if isinstance(questions, dict) else {}
        params = {k: v for k, v in params.items() if k not in ("inputResponses", "requestState")}
        if questions:
            if asker is None:
                what = ", ".join(
                    sorted(
                        {str(q.get("method")) for q in questions.values() if isinstance(q, dict)}
                    )
                )
                raise RpcError(
                    INVALID_REQUEST, f"the server asks for {what}, and nobody is there to answer"
                )
            params["inputResponses"] = dict(await asker.ask(questions))
        if isinstance(result.get("requestState"), str):
            params["requestState"] = result["requestState"]
        return params

    async def _send(
        self,
        method: str,
        params: Message,
        exchange: Exchange,
        version: str,
        capabilities: Mapping[str, Any] | None = None,
    ) -> Message:
        if version not in versions.MODERN:
            return await self.channel.request(exchange, params, {"mcp-protocol-version": version})
        envelope = {
            versions.VERSION_KEY: version,
            versions.CLIENT_KEY: self._client,
            versions.CAPABILITIES_KEY: dict(
                self._capabilities if capabilities is None else capabilities
            ),
        }
        params = params | {"_meta": {**params.get("_meta", {}), **envelope}}
        tool = params.get("name") if method == "tools/call" else None
        mapped = self.param_headers(tool) if isinstance(tool, str) else {}
        headers = request_headers(version, method, params, mapped)
        return await self.channel.request(exchange, params, headers)

    # lists -------------------------------------------------------------------------------------

    async def collect(
        self,
        method: str,
        key: str,
        call: Call,
        *,
        max_pages: int = 100,
        max_items: int = 10_000,
        max_bytes: int = 32 * 1024 * 1024,
    ) -> Page:
        """All pages of a list. What exceeds a bound, or goes in circles, is cut with a warning."""
        items: list[Message] = []
        warnings: list[str] = []
        seen: set[str] = set()
        cursor: str | None = None
        size, ttl = 0, None
        for _ in range(max_pages):
            result = await self.request(method, {} if cursor is None else {"cursor": cursor}, call)
            page = result.get(key)
            if not isinstance(page, list):
                warnings.append(f"{method} gave no list of {key}")
                break
            items += (item for item in page if isinstance(item, dict))
            size += len(json.dumps(page))
            if isinstance(result.get("ttlMs"), int | float):
                ttl = max(0.0, result["ttlMs"] / 1000)
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                break
            if cursor in seen:
                warnings.append(f"{method} repeats its cursor; what came until then is kept")
                break
            seen.add(cursor)
            if len(items) > max_items or size > max_bytes:
                warnings.append(f"{method} gives more than is kept; the rest is left out")
                break
        else:
            warnings.append(f"{method} has more than {max_pages} pages; the rest is left out")
        return Page(tuple(items[:max_items]), tuple(warnings), ttl)


class _Paused:
    """An asker before whom the clock stands still: people are slower than time-outs."""

    def __init__(self, asker: Asker, clock: asyncio.Timeout) -> None:
        self.capabilities = asker.capabilities
        self.owner = asker.owner
        self._asker = asker
        self._clock = clock
        self._open = 0
        self._left = 0.0

    async def ask(self, questions: Mapping[str, Message]) -> Mapping[str, Message]:
        loop = asyncio.get_running_loop()
        if self._open == 0 and (when := self._clock.when()) is not None:
            self._left = when - loop.time()
            self._clock.reschedule(None)
        self._open += 1
        try:
            return await self._asker.ask(questions)
        finally:
            self._open -= 1
            if self._open == 0:
                with contextlib.suppress(RuntimeError):  # the call has ended meanwhile
                    self._clock.reschedule(loop.time() + self._left)

    async def answer(self, method: str, params: Message) -> Message:
        """One question of a server that asks with requests of its own."""
        answers = await self.ask({"question": {"method": method, "params": params}})
        answer = answers.get("question")
        if not isinstance(answer, Mapping):
            raise RpcError(INVALID_REQUEST, "the question was not answered")
        return dict(answer)


def _code(attempt: asyncio.Future[Any]) -> int | None:
    if not attempt.done() or attempt.cancelled():
        return None
    error = attempt.exception()
    return error.code if isinstance(error, RpcError) else None


def _supported(data: Any) -> Sequence[Any]:
    supported = data.get("supported") if isinstance(data, dict) else None
    return supported if isinstance(supported, list) else ()


def _common(data: Any) -> str | None:
    common = [version for version in versions.MODERN if version in _supported(data)]
    return common[-1] if common else None


def _speaks_handshake(data: Any) -> bool:
    supported = _supported(data)
    return not supported or any(version in versions.HANDSHAKE for version in supported)
