"""Receive webhooks and hand them to tools that were granted them: an ASGI application.

`POST /webhook/tools/NAME`, as IronClaw has it. In this order: the tool and its grant, the size, the
proofs of `webhook`, one call through all ten steps, and the events that the tool makes of it. A
sender hears a status and no more.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qsl

from hardpoint import JobContext
from hardpoint.errors import ExternalService, HardpointError, NotAuthorized, RateLimited
from hardpoint_wasm.store import Store
from hardpoint_wasm.webhook import FRESH, Unproven, Webhook

logger = logging.getLogger(__name__)

MAX_BODY: Final = 64 * 1024
MAX_EVENTS: Final = 100
_BODY_WITHIN: Final = 10.0
_MAX_SEEN: Final = 10_000
_CONNECTIONS: Final = 100
_HEADERS_WITHIN: Final = 10.0
"""Seconds after which a connection without a request is looked for and closed."""
PREFIX: Final = "/webhook/tools/"
_PRIVATE: Final = ("authorization", "cookie", "proxy-authorization", "x-webhook-secret")
_STATUS: Final = {
    "rate_limited": 429,
    "budget_exceeded": 429,
    "not_authorized": 403,
    "approval_required": 403,
    "disabled": 403,
    "timeout": 504,
}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Refused(Exception):
    """A request that gets no further."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status


class Receiver:
    """The application.

    Args:
        runtime: Makes the calls.
        store: The added tools; read for every request, so that a grant counts at once.
        user_id: Whose secrets prove requests, and as whom the tools run.
    """

    def __init__(self, runtime: Any, store: Store, user_id: str) -> None:
        self._runtime = runtime
        self._store = store
        self._user = user_id
        self._seen: OrderedDict[bytes, float] = OrderedDict()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            status, answer = await self._answer(scope, receive)
        except Refused as refused:
            status, answer = refused.status, {"error": str(refused)}
        body = json.dumps(answer).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        if status in (401, 408, 413):
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(
        self, scope: Mapping[str, Any], receive: Receive
    ) -> tuple[int, dict[str, Any]]:
        path, method = str(scope["path"]), scope["method"]
        name = path.removeprefix(PREFIX).partition("/")[0] if path.startswith(PREFIX) else ""
        webhook = await asyncio.to_thread(self._granted, name)
        if method == "GET":
            return 200, {"status": "ok", "tool": name}
        if method != "POST":
            raise Refused(405, "webhooks are posted")
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        body = await _read(headers, receive)
        await self._prove(name, webhook, headers, body)
        told = {
            "method": method,
            "path": path,
            "query": dict(parse_qsl(scope["query_string"].decode("latin-1"))),
            "headers": _shown(headers, webhook),
            "body_json": _json(body),
            "body_raw": body.decode("utf-8", "replace"),
        }
        # A person granted that requests start it; what it does is judged as ever.
        context = JobContext(user_id=self._user, autonomous=True, interactive=False)
        params = {"action": "handle_webhook", "webhook": told}
        result = await self._call(name, params, context)
        events = _events(result)
        fired = [await self._emit(name, event, context) for event in events]
        return 202, {
            "status": "accepted",
            "tool": name,
            "emitted_events": len(events),
            "fired_routines": sum(fired),
        }

    def _granted(self, name: str) -> Webhook:
        try:
            record = self._store.get(name)
        except HardpointError:
            record = None
        active = record is not None and record.status == "active" and name in record.interfaces
        webhook = record.capabilities.webhook if record is not None and active else None
        if webhook is None:
            raise Refused(404, "no such webhook")
        return webhook

    async def _prove(
        self, name: str, webhook: Webhook, headers: Mapping[str, str], body: bytes
    ) -> None:
        secrets, now = self._runtime.services.secrets, self._runtime.services.clock.now()
        try:
            # Not `reveal`: anybody may send requests, and each would be a line in the audit.
            values = {each: await secrets.resolve(each, self._user) for each in webhook.secrets}
            webhook.verify(headers, body, values, now)
            self._refuse_repeated(name, webhook, headers, body, now)
        except (Unproven, NotAuthorized) as error:
            logger.warning("a request to the webhook of %s is refused: %s", name, error)
            raise Refused(401, "the request does not prove where it comes from") from error

    def _refuse_repeated(
        self, name: str, webhook: Webhook, headers: Mapping[str, str], body: bytes, now: float
    ) -> None:
        """A signed request works once while its time stamp is fresh.

        It is known by what is signed: a signature can be written in many ways, and any header that
        no proof covers can be added.
        """
        if not webhook.stamp_headers:
            return
        while self._seen and (
            next(iter(self._seen.values())) < now - 2 * FRESH or len(self._seen) >= _MAX_SEEN
        ):
            self._seen.popitem(last=False)
        stamps = [headers[each] for each in webhook.stamp_headers]
        key = hashlib.sha256(repr((name, stamps, body)).encode()).digest()
        if key in self._seen:
            raise Unproven("it came before")
        self._seen[key] = now

    async def _call(self, tool: str, params: Mapping[str, Any], context: JobContext) -> Any:
        outcome = await self._runtime.run(tool, params, context)
        if outcome.ok:
            return outcome.result
        logger.warning("the webhook of %s failed: %s", tool, outcome.error)
        raise Refused(_STATUS.get(outcome.error.kind, 400), outcome.error.kind)

    async def _emit(self, tool: str, event: Mapping[str, Any], context: JobContext) -> int:
        params = {
            "event_source": event["source"],
            "event_type": event["event_type"],
            "payload": event.get("payload") or {},
        }
        outcome = await self._runtime.run("event_emit", params, context)
        if not outcome.ok:
            logger.warning("an event of %s cannot be told: %s", tool, outcome.error)
            limited = isinstance(outcome.error, RateLimited)
            raise Refused(429 if limited else 503, "an event could not be told")
        fired = outcome.result.get("fired_routines", 0)
        return fired if isinstance(fired, int) else len(fired)


async def serve(
    receiver: Receiver,
    host: str,
    port: int,
    ready: Callable[[str], None] = lambda url: None,
    *,
    headers_within: float = _HEADERS_WITHIN,
) -> None:
    """Serve until the process is told to stop, or this is cancelled.

    Args:
        receiver: The application.
        host: The address to listen at.
        port: Any free one if 0.
        ready: Told where requests go, once they can.
        headers_within: Seconds for the head of a request; closed at twice that at the latest.

    Raises:
        ExternalService: The address cannot be served on.
    """
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Protocol(AutoHTTPProtocol):  # type: ignore[misc,valid-type]  # one of two
        """Closes what sends no whole head: the server itself would wait for ever."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._look_again()

        def _look_again(self) -> None:
            self.loop.call_later(headers_within, self._look, self.cycle)

        def _look(self, before: Any) -> None:
            waits = self.cycle is None or self.cycle.response_complete
            if waits and self.cycle is before:
                self.transport.close()
            if not self.transport.is_closing():
                self._look_again()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            name = f"[{host}]" if ":" in host else host
            ready(f"http://{name}:{listener.getsockname()[1]}{PREFIX}NAME")

    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise ExternalService(f"{host}:{port} cannot be served on: {error.strerror}") from error
    config = uvicorn.Config(
        receiver,
        http=Protocol,
        log_level="warning",
        access_log=False,
        lifespan="off",
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=2,
    )
    server = Server(config)
    serving = asyncio.ensure_future(server.serve([listener]))
    try:
        await asyncio.shield(serving)
    finally:
        # Cancelled itself, it would leave its sockets open.
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)


async def _read(headers: Mapping[str, str], receive: Receive) -> bytes:
    declared = headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > MAX_BODY:
        raise Refused(413, f"a webhook has at most {MAX_BODY} bytes")
    body = b""
    try:
        async with asyncio.timeout(_BODY_WITHIN):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the request broke off")
                body += bytes(message.get("body", b""))
                if len(body) > MAX_BODY:
                    raise Refused(413, f"a webhook has at most {MAX_BODY} bytes")
                if not message.get("more_body"):
                    return body
    except TimeoutError:
        raise Refused(408, "the request did not come in time") from None


def _shown(headers: Mapping[str, str], webhook: Webhook) -> dict[str, str]:
    """The headers without those that hold a secret: a guest never sees one."""
    hidden = {*_PRIVATE, (webhook.secret_header or "").lower()}
    return {name: value for name, value in headers.items() if name not in hidden}


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _events(result: Any) -> list[Mapping[str, Any]]:
    """What happened, in the tool's words: `{"emit_events": [{source, event_type, payload}]}`."""
    events = result.get("emit_events", []) if isinstance(result, dict) else None
    if not isinstance(events, list) or len(events) > MAX_EVENTS:
        events = [None]
    known: list[Mapping[str, Any]] = [
        event
        for event in events
        if isinstance(event, dict)
        and isinstance(event.get("source"), str)
        and isinstance(event.get("event_type"), str)
    ]
    if len(known) < len(events):
        logger.warning("a tool answered its webhook with something else than an object of events")
        raise Refused(400, "the tool gave no answer that is understood")
    return known
