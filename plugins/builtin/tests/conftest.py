"""A real HTTPS server on the loopback interface, and a call context that may reach it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import attrs
import pytest
import trustme

from hardpoint import JobContext
from hardpoint.interfaces import CallHandle
from hardpoint.net import PinnedClient, UrlGuard

HOST = "api.example.com"


@attrs.frozen
class Received:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    sni: str | None
    connection: int
    """Counts connections, from 1."""


Reply = tuple[int, Sequence[tuple[str, str]], bytes]
"""Status, headers, body."""
Handler = Callable[[Received, asyncio.StreamWriter], Awaitable[Reply | None]]
"""Writes the answer itself, or returns it."""


@attrs.define
class Server:
    """Answers requests by their path; `received` holds them all."""

    port: int = 0
    routes: dict[str, Handler | Reply] = attrs.field(factory=dict)
    received: list[Received] = attrs.field(factory=list)
    connections: int = 0
    sni: str | None = None

    def url(self, path: str = "/", host: str = HOST, scheme: str = "https") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number, sni = self.connections, self.sni
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").split("\r\n")[:-2]
                method, target, _ = first.split(" ")
                headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Received(method, target, headers, body, sni, number)
                self.received.append(request)
                path = target.partition("?")[0]
                route = self.routes.get(path, (404, (), b""))
                reply = await route(request, writer) if callable(route) else route
                if reply is not None:
                    writer.write(as_bytes(reply))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass  # the client went away, which many tests are about
        finally:
            writer.close()


def as_bytes(reply: Reply) -> bytes:
    status, headers, body = reply
    lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Loopback:
    """Finds every name at home."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]


class FakeServices:
    """What a tool is given in a call, as far as these tools use it."""

    def __init__(self, client: PinnedClient) -> None:
        self._client = client
        self.secrets = {"key": "synthetic-value/1"}
        self.saved: dict[str, bytes] = {}
        self.results = self

    def http(self, bindings: Sequence[Any] = ()) -> PinnedClient:
        async def reveal(name: str) -> str | None:
            return self.secrets.get(name)

        return self._client.bound(bindings, reveal)

    async def save(self, data: bytes, *, name: str, media_type: str, context: JobContext) -> str:
        self.saved[name] = data
        return f"ref-{name}"

    async def read(self, ref: str, *, max_bytes: int, user: str) -> dict[str, Any]:
        return {"size": len(self.saved[ref.removeprefix("ref-")])}


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
async def serve(authority: trustme.CA) -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """Start servers; `names` stand in the certificate, `tls=False` speaks plain http."""
    async with AsyncExitStack() as stack:

        async def start(
            routes: dict[str, Handler | Reply] | None = None,
            *,
            names: Sequence[str] = ("api.example.com", "*.example.com", "other.example.net"),
            address: str = "127.0.0.1",
            port: int = 0,
            tls: bool = True,
        ) -> Server:
            server = Server(routes=routes or {})
            context = None
            if tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                authority.issue_cert(*names).configure_cert(context)

                def note(_: Any, name: str | None, __: Any) -> None:
                    server.sni = name

                context.sni_callback = note
            listening = await asyncio.start_server(server.serve, address, port, ssl=context)
            server.port = listening.sockets[0].getsockname()[1]
            stack.callback(listening.close)
            return server

        yield start


@pytest.fixture
async def services(trusting: ssl.SSLContext) -> AsyncIterator[FakeServices]:
    guard = UrlGuard(allow_private=["127.0.0.0/8"])
    async with PinnedClient(guard=guard, resolver=Loopback(), verify=trusting) as client:
        yield FakeServices(client)


@pytest.fixture
def context(services: FakeServices) -> JobContext:
    return JobContext(user_id="ana").bound(CallHandle("call-1", services))  # type: ignore[arg-type]
