"""The HTTP client of MCP connections and logins: every address judged, every connection pinned.

The server's own address was chosen by an operator, so it may be in a private network. Whatever the
server names (metadata, an authorization server) was not, and must be public, or on the same host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from hardpoint.errors import HardpointError
from hardpoint_mcp.config import is_local

if TYPE_CHECKING:
    import httpx2

PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
_CONNECTIONS: Final = 256


def make_client(
    url: str, *, auth: httpx2.Auth | None = None, user_agent: str = "hardpoint"
) -> httpx2.AsyncClient:
    """A client for one server. Proxies and the environment play no part."""
    import httpx2

    from hardpoint.net import SystemResolver, UrlGuard
    from hardpoint.net.transport import PINNED, PinnedTransport, tls_context

    local = is_local(url)
    own_host = (urlsplit(url).hostname or "").lower()
    own = UrlGuard(allow_http=local, allow_private=(*PRIVATE, *LOOPBACK) if local else PRIVATE)
    # A server of this machine may name others of this machine; no other server may.
    others = UrlGuard(allow_http=local, allow_private=LOOPBACK if local else ())

    class Guarded(httpx2.AsyncBaseTransport):
        def __init__(self) -> None:
            self._resolver = SystemResolver()
            self._inner = PinnedTransport(tls_context(), max_connections=_CONNECTIONS)

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            host = request.url.host.lower()
            guard = own if host == own_host else others
            try:
                judged = guard.check(str(request.url))
                if judged.is_address:
                    addresses: tuple[str, ...] = (judged.host,)
                else:
                    found = await self._resolver.resolve(judged.host, judged.port)
                    addresses = guard.check_addresses(judged.host, found)
            except HardpointError as error:
                raise httpx2.ConnectError(error.message, request=request) from error
            request.extensions = {**request.extensions, PINNED: addresses}
            response = await self._inner.handle_async_request(request)
            response.request = request
            return response

        async def aclose(self) -> None:
            await self._inner.aclose()

    return httpx2.AsyncClient(
        transport=Guarded(),
        auth=auth,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx2.Timeout(30.0, connect=10.0, read=None),
        headers={"user-agent": user_agent},
    )
