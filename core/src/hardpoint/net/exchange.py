"""One request with its redirects: each hop judged, resolved once, pinned, injected and bounded."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from hardpoint.errors import ExternalService, InvalidParameters, NotAuthorized
from hardpoint.net.allowlist import AllowList
from hardpoint.net.binding import Binding, inject, matching
from hardpoint.net.guard import UrlGuard
from hardpoint.net.masking import Masker
from hardpoint.net.messages import Headers, HttpRequest, HttpResponse, check_headers
from hardpoint.net.resolve import Resolver
from hardpoint.net.url import Url

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT: Final = 10.0
"""Seconds for one attempt to connect; a name can have more addresses to try."""

Reveal = Callable[[str], Awaitable[str | None]]
"""Looks up the value of a secret by its name."""
BeforeSend = Callable[[HttpRequest], Awaitable[None] | None]
"""Sees each request before credentials are injected; raises to stop it."""

# What a redirect to another host may still carry. Everything else could be a credential.
_HARMLESS = frozenset(("accept", "accept-language", "user-agent"))


@attrs.define
class Exchange:
    """What one request needs, and how far it has come."""

    guard: UrlGuard
    resolver: Resolver
    transport: Callable[[], httpx2.AsyncBaseTransport]
    """Opened when something is really sent: a refused request costs no import."""
    user_agent: str
    bindings: Sequence[Binding]
    reveal: Reveal | None
    before_send: BeforeSend | None
    allow: AllowList | None
    method: str
    body: bytes | None
    max_bytes: int
    max_redirects: int | None
    """None: a redirect is the answer."""

    host: str = ""
    _location: str = ""
    """Where the last hop redirected to, as the server wrote it."""
    _masker: Masker = attrs.field(factory=Masker)
    """Grows with each hop: a later host may know what an earlier one was sent."""
    _received: bytearray = attrs.field(factory=bytearray)

    async def run(self, text: str, headers: Headers) -> HttpResponse:
        """Send the request and follow its redirects."""
        url = self.guard.check(text)
        sent = check_headers(headers, url=url, body=self.body)
        redirects: list[str] = []
        while True:
            response = await self._hop(url, sent)
            if response.location is None or self.max_redirects is None:
                return attrs.evolve(response, redirects=tuple(redirects))
            if len(redirects) == self.max_redirects:
                raise NotAuthorized(
                    f"more than {self.max_redirects} redirects, the next one to"
                    f" {response.location!r}",
                    hint="request the final address itself",
                )
            redirects.append(response.url)
            target = self.guard.check(url.join(self._location))
            if target.origin != url.origin:
                self._leave(url, target)
                sent = tuple(pair for pair in sent if pair[0].lower() in _HARMLESS)
            url = target

    def partial(self) -> bytes:
        """The body as far as it came."""
        return self._kept(complete=False)

    def _leave(self, url: Url, target: Url) -> None:
        """Nothing meant for one host reaches another, and coming back does not restore it."""
        if self._masker.finds(self._location):
            raise NotAuthorized(
                f"{url.authority!r} answered with a redirect to {target.authority!r}"
                " that carries the injected credential"
            )
        self.bindings = ()

    async def _hop(self, url: Url, headers: tuple[tuple[str, str], ...]) -> HttpResponse:
        self.host = url.host
        self._received.clear()
        if self.allow is not None:
            self.allow.require(self.method, url)
        request = HttpRequest(self.method, url, headers, self.body)
        if self.before_send is not None:
            waiting = self.before_send(request)
            if inspect.isawaitable(waiting):
                await waiting
        addresses = await self._addresses(url)
        return await self._send(await self._with_credentials(request), url, addresses)

    async def _addresses(self, url: Url) -> tuple[str, ...]:
        """Look the name up once: what comes back is judged here and connected to in `_send`."""
        if url.is_address:
            return (url.host,)
        found = await self.resolver.resolve(url.host, url.port)
        return self.guard.check_addresses(url.host, found)

    async def _with_credentials(self, request: HttpRequest) -> HttpRequest:
        fitting = matching(self.bindings, request.method, request.url)
        values: dict[str, str] = {}
        for binding in fitting:
            value = await self.reveal(binding.secret) if self.reveal else None
            if value is not None:
                values[binding.secret] = value
        request, masker = inject(request, fitting, values)
        self._masker |= masker
        return request

    async def _send(
        self, request: HttpRequest, shown: Url, addresses: tuple[str, ...]
    ) -> HttpResponse:
        from hardpoint.net.transport import ERRORS

        wire = _to_wire(request, addresses, self.user_agent)
        try:
            response = await self.transport().handle_async_request(wire)
            try:
                return await self._read(response, shown)
            finally:
                await response.aclose()
        except ERRORS as error:
            text = f"the request to {shown.authority!r} failed: {_reason(error)}"
            # The cause is not chained: its request holds injected credentials.
            raise ExternalService(self._masker.mask_text(text)) from None

    async def _read(self, response: httpx2.Response, shown: Url) -> HttpResponse:
        self._location = response.headers.get("location", "")
        made = HttpResponse(
            response.status_code,
            self._masker.mask_text(str(shown)),
            tuple(
                (name.lower(), self._masker.mask_text(value))
                for name, value in response.headers.multi_items()
            ),
        )
        if self.method == "HEAD" or (made.location is not None and self.max_redirects is not None):
            return made
        _check_coding(response.headers.get("content-encoding", ""))
        # A little more than is kept, so that a secret across the cut is still recognised.
        enough = self.max_bytes + self._masker.longest
        async for chunk in response.aiter_bytes():
            self._received += chunk
            if len(self._received) > enough:
                break
        truncated = len(self._received) > self.max_bytes
        return attrs.evolve(made, body=self._kept(complete=not truncated), truncated=truncated)

    def _kept(self, *, complete: bool) -> bytes:
        body = self._masker.mask(bytes(self._received))
        if not complete and self._masker.longest > 1:
            # The last bytes could be the first half of a secret.
            body = body[: 1 - self._masker.longest]
        return body[: self.max_bytes]


def _to_wire(request: HttpRequest, addresses: tuple[str, ...], user_agent: str) -> httpx2.Request:
    import httpx2

    from hardpoint.net.transport import PINNED

    headers = {
        "Host": request.url.authority,
        "User-Agent": user_agent,
        "Accept": "*/*",
        "Accept-Encoding": _accept_encoding(),
    }
    given = {name.lower() for name, _ in request.headers}
    pairs = [pair for pair in headers.items() if pair[0].lower() not in given]
    wire = httpx2.Request(
        request.method,
        str(request.url),
        headers=[(name.encode(), value.encode()) for name, value in [*pairs, *request.headers]],
        content=request.body,
        extensions={
            PINNED: addresses,
            "timeout": {"connect": CONNECT_TIMEOUT, "read": None, "write": None, "pool": None},
        },
    )
    read_again = (wire.url.raw_host.decode(), wire.url.raw_path.decode())
    if read_again != (request.url.host, request.url.target):
        raise InvalidParameters("the URL cannot be sent as it was judged; write it more simply")
    return wire


@functools.cache
def _accept_encoding() -> str:
    from hardpoint.net.transport import content_codings

    return ", ".join(content_codings())


def _check_coding(header: str) -> None:
    # Codings within codings multiply what few bytes can cost; an unknown one hides the body.
    codings = [coding for coding in map(str.strip, header.lower().split(",")) if coding]
    codings = [coding for coding in codings if coding != "identity"]
    if len(codings) > 1 or not set(codings) <= set(_accept_encoding().split(", ")):
        raise ExternalService(
            f"the answer is encoded as {header[:60]!r}, which was not asked for and is not read"
        )


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__)[:300]
