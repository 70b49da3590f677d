"""Decide which requests an allow-list of hosts, paths and methods lets through.

WASM tools, container egress and credential bindings all use this one matcher. Where an address
leads is not decided here: see `guard`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import attrs

from hardpoint.errors import InvalidParameters, NotAuthorized
from hardpoint.net.url import DEFAULT_PORTS, Url, parse_url

TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SEPARATOR = re.compile(rb"[/\\\x00-\x1f\x7f]|%(?:2[eEfF]|5[cC])")
# Longer than UTF-8 allows; some servers read a dot or a slash in them.
_OVERLONG = re.compile(rb"[\xc0\xc1]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]")
_DOT_PARAMETER = re.compile(rb"\.\.?;")


class Denial(StrEnum):
    """Why a request was not let through, in the order in which a request is judged."""

    EMPTY_ALLOWLIST = "empty_allowlist"
    INVALID_URL = "invalid_url"
    INSECURE_SCHEME = "insecure_scheme"
    HOST_NOT_ALLOWED = "host_not_allowed"
    PATH_NOT_ALLOWED = "path_not_allowed"
    METHOD_NOT_ALLOWED = "method_not_allowed"


_STEPS = (Denial.HOST_NOT_ALLOWED, Denial.PATH_NOT_ALLOWED, Denial.METHOD_NOT_ALLOWED)


@attrs.frozen
class Verdict:
    """The answer to one request."""

    allowed: bool
    reason: Denial | None = None
    detail: str = ""


@attrs.frozen
class _Pattern:
    wildcard: bool
    name: str
    port: int | None
    segments: tuple[bytes, ...]

    def covers_host(self, url: Url) -> bool:
        if url.port != (self.port or DEFAULT_PORTS.get(url.scheme)):
            return False
        if not self.wildcard:
            return url.host == self.name
        return not url.is_address and url.host.endswith(f".{self.name}")


def _upper(methods: Iterable[str]) -> tuple[str, ...]:
    return tuple(method.upper() for method in methods)


def _patterns(listed: Iterable[AllowPattern]) -> tuple[AllowPattern, ...]:
    return tuple(listed)


def _read_pattern(pattern: AllowPattern) -> _Pattern | str:
    try:
        bad = [method for method in pattern.methods if not TOKEN.fullmatch(method)]
        if bad:
            raise InvalidParameters(f"{bad[0]!r} is not a method")
        prefix = pattern.path_prefix or "/"
        segments = path_segments(prefix if prefix.startswith("/") else f"/{prefix}")
        wildcard = pattern.host.startswith("*.")
        host, port = _read_host(pattern.host[2:] if wildcard else pattern.host)
        if wildcard and host.is_address:
            raise InvalidParameters("a wildcard cannot stand before an address")
    except InvalidParameters as error:
        return f"pattern for {pattern.host!r}: {error.message}"
    # A prefix means the same with and without its final slash.
    return _Pattern(wildcard, host.host, port, segments[:-1] if not segments[-1] else segments)


def _read_host(text: str) -> tuple[Url, int | None]:
    if re.search(r"[/?#]", text):
        raise InvalidParameters("write the host alone, without scheme and path")
    if text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"  # a bare IPv6 address, which cannot carry a port
    url = parse_url(f"https://{text}/")
    has_port = ":" in text.rpartition("]")[2]
    return url, url.port if has_port else None


@attrs.frozen
class AllowPattern:
    """Requests to one host, or to every host below one, beneath one path.

    A pattern that cannot be read matches nothing; `problem` says why.
    """

    host: str
    """`api.example.com`, or `*.example.com` for every name below it; `:port` for another port."""
    path_prefix: str | None = None
    """Covers the path itself and everything below it; None covers any path."""
    methods: tuple[str, ...] = attrs.field(default=(), converter=_upper)
    """Empty for any method."""
    _read: _Pattern | str = attrs.field(
        init=False, repr=False, eq=False, default=attrs.Factory(_read_pattern, takes_self=True)
    )

    @property
    def problem(self) -> str | None:
        return self._read if isinstance(self._read, str) else None

    def furthest(self, url: Url, segments: tuple[bytes, ...], method: str) -> int:
        """How many of the three steps host, path, method a request passes, in this order."""
        if isinstance(self._read, str) or not self._read.covers_host(url):
            return 0
        if segments[: len(self._read.segments)] != self._read.segments:
            return 1
        return 3 if not self.methods or method in self.methods else 2


@attrs.frozen
class AllowList:
    """The requests that somebody may make; an empty list allows none."""

    patterns: tuple[AllowPattern, ...] = attrs.field(default=(), converter=_patterns)
    allow_http: bool = False

    @classmethod
    def from_json(cls, listed: Iterable[dict[str, Any]], *, allow_http: bool = False) -> AllowList:
        """Read patterns written as `{"host", "path_prefix"?, "methods"?}`."""
        return cls(
            [
                AllowPattern(item["host"], item.get("path_prefix"), item.get("methods") or ())
                for item in listed
            ],
            allow_http=allow_http,
        )

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong with patterns that cannot match anything."""
        return [pattern.problem for pattern in self.patterns if pattern.problem]

    def judge(self, method: str, url: str | Url) -> Verdict:
        """Say whether a request is let through, and if not, how far it came."""
        if not self.patterns:
            return Verdict(False, Denial.EMPTY_ALLOWLIST, "the list allows no request at all")
        try:
            url = parse_url(url) if isinstance(url, str) else url
            if url.scheme != "https" and not (url.scheme == "http" and self.allow_http):
                return Verdict(False, Denial.INSECURE_SCHEME, "only https is allowed")
            segments = path_segments(url.given_path)
        except InvalidParameters as error:
            return Verdict(False, Denial.INVALID_URL, error.message)
        if not TOKEN.fullmatch(method):
            return Verdict(False, Denial.METHOD_NOT_ALLOWED, "the method is not a word")
        method = method.upper()
        furthest = max(pattern.furthest(url, segments, method) for pattern in self.patterns)
        if furthest == len(_STEPS):
            return Verdict(True)
        # Named as they were compared: people look for the difference to their pattern.
        what = (f"host {url.authority!r}", f"path {url.path!r}", f"method {method!r}")[furthest]
        return Verdict(False, _STEPS[furthest], f"{what} is not on the list")

    def require(self, method: str, url: str | Url) -> None:
        """Pass in silence, or raise.

        Raises:
            NotAuthorized: When it is not let through; `decision["reason"]` is the `Denial`.
        """
        verdict = self.judge(method, url)
        if not verdict.allowed:
            raise NotAuthorized(
                f"the request is not on the allow-list: {verdict.detail}",
                decision={"reason": str(verdict.reason)},
                hint="call an allowed host, path and method, or have the operator add this one",
            )


def path_segments(path: str) -> tuple[bytes, ...]:
    """The segments of a path, percent-decoded once, with dot segments resolved.

    Raises:
        InvalidParameters: When a server might see other segments than these: encoded separators,
            broken or doubled escapes, control characters, overlong UTF-8.
    """
    if "\\" in path or _BROKEN_ESCAPE.search(path):
        raise InvalidParameters("the path holds a backslash or a broken percent escape")
    kept: list[bytes] = []
    pieces = path.split("/")[1:]
    for at, piece in enumerate(pieces):
        segment = unquote_to_bytes(piece.encode("utf-8", "surrogatepass"))
        if _SEPARATOR.search(segment) or _DOT_PARAMETER.match(segment) or _OVERLONG.search(segment):
            raise InvalidParameters(
                "the path holds an encoded separator, dot or control character that servers may"
                " read in different ways"
            )
        if segment == b"..":
            del kept[-1:]
        elif segment != b".":
            kept.append(segment)
            continue
        if at == len(pieces) - 1:
            kept.append(b"")
    return tuple(kept)
