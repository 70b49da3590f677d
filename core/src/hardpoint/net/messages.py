"""One request and one response as values, checked before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from hardpoint.errors import InvalidParameters
from hardpoint.net.allowlist import TOKEN
from hardpoint.net.url import Url

MAX_HEADERS: Final = 64
MAX_HEADER_NAME: Final = 512
MAX_HEADER_VALUE: Final = 8192

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
# Python knows these as text encodings; on hostile input they are slow, or make other text of it.
_NO_CHARSETS = frozenset(("idna", "punycode", "raw_unicode_escape", "unicode_escape", "utf_7"))
_BAD_VALUE = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
# Headers that frame or route the message. A caller who could set them could smuggle a second
# request, or talk to another host behind a shared front end.
CLIENT_SETS: Final = frozenset(
    (
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)


@attrs.frozen
class HttpRequest:
    """What goes out, before credentials are injected."""

    method: str
    url: Url
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    body: bytes | None = attrs.field(default=None, repr=False)


@attrs.frozen
class HttpResponse:
    """What came back, injected credentials already masked."""

    status: int
    url: str
    """The address that answered, after redirects and without injected credentials."""
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    """Names in lower case, in the order received."""
    body: bytes = attrs.field(default=b"", repr=False)
    """Decompressed, at most `max_bytes` of it."""
    truncated: bool = False
    """True when the body was longer than `body`."""
    redirects: tuple[str, ...] = ()
    """The addresses that redirected here, in order."""

    def header(self, name: str, default: str = "") -> str:
        """The first header of this name, whatever its letter case."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), default)

    @property
    def location(self) -> str | None:
        """Where the response redirects to; None when it is no redirect."""
        return self.header("location") or None if self.status in REDIRECTS else None

    @property
    def media_type(self) -> str:
        """The type of the body in lower case, without parameters; empty when none was sent."""
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        """The body as text, by the declared character set or UTF-8; never fails."""
        declared = _CHARSET.search(self.header("content-type"))
        charset = declared[1].lower().replace("-", "_") if declared else "utf_8"
        try:
            return self.body.decode("utf_8" if charset in _NO_CHARSETS else charset, "replace")
        except (LookupError, UnicodeError):
            return self.body.decode("utf-8", "replace")


REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))


def check_method(method: str) -> str:
    """The method in upper case.

    Raises:
        InvalidParameters: When it is not a word, or one that needs a tunnel.
    """
    upper = method.upper()
    if not TOKEN.fullmatch(method) or upper in ("CONNECT", "TRACE"):
        raise InvalidParameters(f"{method[:20]!r} is not a method that can be sent")
    return upper


def check_headers(headers: Headers, *, url: Url, body: bytes | None) -> tuple[tuple[str, str], ...]:
    """The headers as they will be sent.

    Raises:
        InvalidParameters: For a name or value that HTTP does not allow or the client sets.
    """
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    if len(pairs) > MAX_HEADERS:
        raise InvalidParameters(f"{len(pairs)} headers were given; at most {MAX_HEADERS} are sent")
    # What these two may say is known, and callers often say it.
    redundant = {"host": url.authority, "content-length": str(len(body or b""))}
    checked = []
    for name, value in pairs:
        if len(name) > MAX_HEADER_NAME or not TOKEN.fullmatch(name):
            raise InvalidParameters(f"{name[:40]!r} is not a valid header name")
        value = value.strip(" \t")
        if len(value) > MAX_HEADER_VALUE or _BAD_VALUE.search(value):
            raise InvalidParameters(
                f"the value of the header {name!r} is too long, or holds a line break or another"
                " control character"
            )
        if name.lower() in CLIENT_SETS:
            if redundant.get(name.lower()) == value.lower():
                continue
            raise InvalidParameters(
                f"the header {name!r} is set by the client itself", hint="leave it out"
            )
        _encodable(name, value)
        checked.append((name, value))
    return tuple(checked)


def _encodable(name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidParameters(f"the value of the header {name!r} is not valid Unicode") from None
