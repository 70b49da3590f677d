"""The HTTP client of every tool: requests that are judged, pinned and bounded.

The steps of one request stand in `exchange`. Which tool may call what, and how much of an answer a
model sees, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from hardpoint.errors import InvalidParameters, NotAuthorized, ToolTimeout
from hardpoint.net.allowlist import AllowList
from hardpoint.net.binding import Binding, matching
from hardpoint.net.exchange import BeforeSend, Exchange, Reveal
from hardpoint.net.guard import UrlGuard
from hardpoint.net.messages import Headers, HttpResponse, check_method
from hardpoint.net.resolve import Resolver, SystemResolver

if TYPE_CHECKING:
    import ssl

    import httpx2

MEGABYTE: Final = 1024 * 1024


class PinnedClient:
    """An HTTP client for requests that come from a model or from code that nobody trusts.

    Every hop's URL is judged, its name resolved once, every address judged, and the connection made
    to exactly these addresses. Cookies, proxies and environment variables play no part.

    Example:
        async with PinnedClient() as client:
            response = await client.request("GET", "https://example.com/")

    Args:
        guard: Which schemes and addresses may be used.
        resolver: Looks names up.
        verify: A context, or a file or folder of certificate authorities beside the system's own.
        transport: Sends a request to the addresses in its extensions; else a pool of our own.
        bindings: Secrets that go into matching requests.
        reveal: Looks their values up; without it a request that needs one is refused.
        max_connections: How many may be open at once; further requests wait.
        user_agent: Sent unless the caller names one.
    """

    def __init__(
        self,
        *,
        guard: UrlGuard | None = None,
        resolver: Resolver | None = None,
        verify: ssl.SSLContext | str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        bindings: Sequence[Binding] = (),
        reveal: Reveal | None = None,
        max_connections: int = 100,
        user_agent: str = "hardpoint",
    ) -> None:
        self.guard = guard or UrlGuard()
        self.user_agent = user_agent
        self._resolver = resolver or SystemResolver()
        self._shared = _Shared(verify, max_connections, transport)
        self._bindings = tuple(bindings)
        self._reveal = reveal
        self._before_send: BeforeSend | None = None
        self._owns = True

    def bound(
        self,
        bindings: Sequence[Binding] = (),
        reveal: Reveal | None = None,
        *,
        before_send: BeforeSend | None = None,
        guard: UrlGuard | None = None,
    ) -> PinnedClient:
        """A client on the same connections that injects these secrets into matching requests."""
        client = PinnedClient.__new__(PinnedClient)
        client.__dict__.update(self.__dict__, _owns=False)
        client._bindings = tuple(bindings)
        client._reveal = reveal
        client._before_send = before_send or self._before_send
        client.guard = guard or self.guard
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection. A client from `bound` leaves them open."""
        if self._owns:
            await self._shared.aclose()

    def matching(self, method: str, url: str) -> list[Binding]:
        """The bindings that a request to this URL would carry; empty for a URL that is refused."""
        try:
            return matching(self._bindings, check_method(method), self.guard.check(url))
        except (InvalidParameters, NotAuthorized):
            return []

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Headers = (),
        body: bytes | None = None,
        timeout: float = 30.0,
        max_bytes: int = 5 * MEGABYTE,
        follow: bool = False,
        max_redirects: int = 3,
        allow: AllowList | None = None,
        before_send: BeforeSend | None = None,
    ) -> HttpResponse:
        """Send one request and read its answer.

        Args:
            timeout: Seconds for everything together, redirects included.
            max_bytes: How much of the body is kept, after decompression; reading stops there.
            follow: Whether a GET or HEAD follows redirects. Other methods never do; the response
                then is the redirect itself.
            allow: Requests outside this list are refused, on every hop.

        Raises:
            InvalidParameters: When the request could not be sent as written.
            NotAuthorized: When a hop is refused; the message names the rule.
            ExternalService: When the host cannot be reached or breaks off.
            ToolTimeout: When the time is over; `partial` holds the body so far.
        """
        import asyncio

        method = check_method(method)
        exchange = Exchange(
            guard=self.guard,
            resolver=self._resolver,
            transport=self._shared.transport,
            user_agent=self.user_agent,
            bindings=self._bindings,
            reveal=self._reveal,
            before_send=before_send or self._before_send,
            allow=allow,
            method=method,
            body=body,
            max_bytes=max_bytes,
            max_redirects=max_redirects if follow and method in ("GET", "HEAD") else None,
        )
        clock = asyncio.timeout(timeout)
        try:
            async with clock:
                return await exchange.run(url, headers)
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise ToolTimeout(
                timedelta(seconds=timeout),
                f"no complete answer from {exchange.host!r} within {timeout:g} s",
                partial=exchange.partial() or None,
            ) from error


class _Shared:
    """The connections of a client and of all bound to it, opened at the first request."""

    def __init__(
        self,
        verify: ssl.SSLContext | str | None,
        max_connections: int,
        transport: httpx2.AsyncBaseTransport | None,
    ) -> None:
        self._verify = verify
        self._max_connections = max_connections
        self._transport = transport

    def transport(self) -> httpx2.AsyncBaseTransport:
        if self._transport is None:
            from hardpoint.net.transport import PinnedTransport, tls_context

            self._transport = PinnedTransport(
                tls_context(self._verify), max_connections=self._max_connections
            )
        return self._transport

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
