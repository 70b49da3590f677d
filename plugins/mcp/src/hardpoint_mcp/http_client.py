"""The HTTP client of MCP connections and logins: every address judged, every connection pinned.

The server's own address was chosen by an operator, so it may be in a private network. Whatever the
server names (metadata, an authorization server) was not, and must be public, or on the same host.
This module is imported with the first HTTP server.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Final
from urllib.parse import urlsplit

import httpcore2
import httpx2

from hardpoint.errors import HardpointError
from hardpoint.net import SystemResolver, UrlGuard
from hardpoint.net.transport import PINNED, PinnedTransport, tls_context
from hardpoint_mcp.config import is_local

PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
_CONNECTIONS: Final = 256


def make_client(url: str, *, auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    """A client for one server. Proxies and the environment play no part."""
    return httpx2.AsyncClient(
        transport=GuardedTransport(url),
        auth=auth,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx2.Timeout(30.0, connect=10.0, read=None),
        headers={"user-agent": "hardpoint"},
    )


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Judges each request's address before it is connected to; its errors are httpx2's."""

    def __init__(self, url: str) -> None:
        local = is_local(url)
        private = (*PRIVATE, *LOOPBACK) if local else PRIVATE
        self._own_host = (urlsplit(url).hostname or "").lower()
        self._own = UrlGuard(allow_http=local, allow_private=private)
        # A server of this machine may name others of this machine; no other server may.
        self._others = UrlGuard(allow_http=local, allow_private=LOOPBACK if local else ())
        self._resolver = SystemResolver()
        self._inner = PinnedTransport(tls_context(), max_connections=_CONNECTIONS)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        guard = self._own if request.url.host.lower() == self._own_host else self._others
        try:
            judged = guard.check(str(request.url))
            addresses: tuple[str, ...] = (judged.host,)
            if not judged.is_address:
                found = await self._resolver.resolve(judged.host, judged.port)
                addresses = guard.check_addresses(judged.host, found)
        except HardpointError as error:
            raise httpx2.ConnectError(error.message, request=request) from error
        request.extensions = {**request.extensions, PINNED: addresses}
        with _as_httpx2(request):
            response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Body(response.stream, request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, request: httpx2.Request) -> None:
        self._inner = inner
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx2(self._request):
            async for piece in self._inner:
                yield piece

    async def aclose(self) -> None:
        with _as_httpx2(self._request):
            await self._inner.aclose()


# From the narrow to the wide.
_MEANING: Final = (
    (httpcore2.ConnectTimeout, httpx2.ConnectTimeout),
    (httpcore2.ConnectError, httpx2.ConnectError),
    (httpcore2.PoolTimeout, httpx2.PoolTimeout),
    (httpcore2.ReadTimeout, httpx2.ReadTimeout),
    (httpcore2.WriteTimeout, httpx2.WriteTimeout),
    (httpcore2.ReadError, httpx2.ReadError),
    (httpcore2.WriteError, httpx2.WriteError),
    (httpcore2.RemoteProtocolError, httpx2.RemoteProtocolError),
    (httpcore2.LocalProtocolError, httpx2.LocalProtocolError),
    (httpcore2.UnsupportedProtocol, httpx2.UnsupportedProtocol),
    (httpcore2.TimeoutException, httpx2.ReadTimeout),
    (httpcore2.ProtocolError, httpx2.RemoteProtocolError),
    (httpcore2.NetworkError, httpx2.ReadError),
    (OSError, httpx2.ReadError),
)


@contextlib.contextmanager
def _as_httpx2(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except tuple(ours for ours, _ in _MEANING) as error:
        theirs = next(theirs for ours, theirs in _MEANING if isinstance(error, ours))
        raise theirs(str(error), request=request) from error
