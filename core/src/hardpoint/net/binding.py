"""Say which stored secret goes into which requests, and put it there at the last moment.

A binding names the secret; its value is looked up by whoever owns secrets and lives no longer than
the request. Nothing before the injection, and nothing that comes back, shows it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote_plus

import attrs

from hardpoint.errors import ConfigError, NotAuthorized
from hardpoint.net.allowlist import TOKEN, AllowList, AllowPattern
from hardpoint.net.masking import Masker
from hardpoint.net.messages import CLIENT_SETS, HttpRequest
from hardpoint.net.url import Url


@attrs.frozen
class Bearer:
    """`Authorization: Bearer VALUE`."""


@attrs.frozen
class Basic:
    """`Authorization: Basic …` with a user name and the secret as password."""

    username: str


@attrs.frozen
class Header:
    """A header of any name, for example `X-Api-Key: VALUE`."""

    name: str
    prefix: str = ""


@attrs.frozen
class Query:
    """A query parameter."""

    name: str


@attrs.frozen
class UrlPath:
    """A piece of the path, where the URL says `{placeholder}`."""

    placeholder: str


Location = Bearer | Basic | Header | Query | UrlPath
_LOCATIONS: Final[Mapping[str, type[Location]]] = {
    "bearer": Bearer,
    "basic": Basic,
    "header": Header,
    "query": Query,
    "url_path": UrlPath,
}


def _texts(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _allow_list(binding: Binding) -> AllowList:
    return AllowList(
        [
            AllowPattern(host, path, binding.methods)
            for host in binding.hosts
            for path in binding.paths or (None,)
        ],
        allow_http=binding.allow_http,
    )


@attrs.frozen
class Binding:
    """One secret, the requests it may accompany, and its place in them.

    Raises:
        ConfigError: When the binding could not be followed as written.
    """

    secret: str
    hosts: tuple[str, ...] = attrs.field(converter=_texts)
    """As in an allow-list: `api.example.com`, `*.example.com`, with `:port` for another port."""
    methods: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Empty for any method."""
    paths: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Prefixes that end at a segment; empty for any path."""
    location: Location = attrs.field(factory=Bearer)
    allow_http: bool = False
    """Whether the secret may travel unencrypted."""
    _allow: AllowList = attrs.field(
        init=False, repr=False, eq=False, default=attrs.Factory(_allow_list, takes_self=True)
    )

    def __attrs_post_init__(self) -> None:
        problems = [*self._allow.problems, *_location_problems(self.location)]
        if not self.hosts:
            problems.append("it names no host")
        if problems:
            raise ConfigError([f"binding of secret {self.secret!r}: {text}" for text in problems])

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Binding:
        """Read `{"secret", "hosts", "methods"?, "paths"?, "location"?}`; a location is
        `{"type": "bearer" | "basic" | "header" | "query" | "url_path", …}`.

        Raises:
            ConfigError: For unknown keys or types.
        """
        fields = dict(data)
        location = dict(fields.pop("location", None) or {"type": "bearer"})
        kind = location.pop("type", None)
        if kind not in _LOCATIONS:
            raise ConfigError(
                f"binding location type {kind!r}: write one of {', '.join(_LOCATIONS)}"
            )
        try:
            return cls(**fields, location=_LOCATIONS[kind](**location))
        except TypeError as error:
            text = re.sub(r"^\w+\.__init__\(\) ", "", str(error))
            raise ConfigError(f"binding {data.get('secret')!r}: {text}") from error

    def covers(self, method: str, url: Url) -> bool:
        """Whether the secret goes into this request."""
        if not self._allow.judge(method, url).allowed:
            return False
        return not isinstance(self.location, UrlPath) or _marker(self.location) in url.path

    @property
    def _slot(self) -> tuple[str, str]:
        match self.location:
            case Bearer() | Basic():
                return "header", "authorization"
            case Header(name):
                return "header", name.lower()
            case Query(name):
                return "query", name
            case UrlPath(placeholder):
                return "path", placeholder

    def _rank(self, method: str, url: Url) -> tuple[int, bool]:
        """How narrowly the binding was written for this request."""
        fitting = [
            pattern
            for pattern in self._allow.patterns
            if AllowList((pattern,), allow_http=self.allow_http).judge(method, url).allowed
        ]
        return max(
            (len(pattern.path_prefix or ""), not pattern.host.startswith("*."))
            for pattern in fitting
        )


def matching(bindings: Sequence[Binding], method: str, url: Url) -> list[Binding]:
    """The bindings that apply to a request: for one place in it the narrowest one alone."""
    chosen: dict[tuple[str, str], Binding] = {}
    for binding in bindings:
        if not binding.covers(method, url):
            continue
        rival = chosen.get(binding._slot)
        if rival is None or binding._rank(method, url) > rival._rank(method, url):
            chosen[binding._slot] = binding
    return list(chosen.values())


def inject(
    request: HttpRequest, bindings: Sequence[Binding], values: Mapping[str, str]
) -> tuple[HttpRequest, Masker]:
    """Put secret values into a request. What the caller wrote in the same place gives way.

    Args:
        request: The request as the caller made it.
        bindings: Those that apply to it, from `matching`.
        values: The value of every secret they name.

    Returns:
        The request to send, and the masker for all that comes back.

    Raises:
        NotAuthorized: When a value is missing or cannot stand where it belongs.
    """
    hidden: list[str] = []
    for binding in bindings:
        value = _usable(binding.secret, values.get(binding.secret))
        hidden.append(value)
        match binding.location:
            case Bearer():
                request = _with_header(request, "Authorization", f"Bearer {value}")
            case Basic(username):
                pair = base64.b64encode(f"{username}:{value}".encode()).decode()
                hidden.append(pair)
                request = _with_header(request, "Authorization", f"Basic {pair}")
            case Header(name, prefix):
                request = _with_header(request, name, prefix + value)
            case Query(name):
                request = _with_query(request, name, value)
            case UrlPath() as place:
                path = request.url.path.replace(_marker(place), quote(value, safe=""))
                request = attrs.evolve(request, url=attrs.evolve(request.url, path=path))
    return request, Masker(hidden)


def _with_header(request: HttpRequest, name: str, value: str) -> HttpRequest:
    others = tuple(pair for pair in request.headers if pair[0].lower() != name.lower())
    return attrs.evolve(request, headers=(*others, (name, value)))


def _with_query(request: HttpRequest, name: str, value: str) -> HttpRequest:
    given = (request.url.query or "").split("&")
    kept = [pair for pair in given if pair and unquote_plus(pair.partition("=")[0]) != name]
    kept.append(f"{quote(name, safe='')}={quote(value, safe='')}")
    return attrs.evolve(request, url=attrs.evolve(request.url, query="&".join(kept)))


def _marker(place: UrlPath) -> str:
    # A canonical path holds braces percent-encoded.
    return f"%7B{place.placeholder}%7D"


def _usable(secret: str, value: str | None) -> str:
    # Values copied from a terminal or a file often end in a line break.
    value = (value or "").strip()
    if not value:
        raise NotAuthorized(
            f"the secret {secret!r} that this request needs is not set",
            hint=f"set it with: hardpoint secrets set {secret}",
        )
    if not value.isprintable():
        raise NotAuthorized(
            f"the secret {secret!r} holds a line break or another control character",
            hint=f"set it again with: hardpoint secrets set {secret}",
        )
    return value


def _location_problems(location: Location) -> list[str]:
    match location:
        case Header(name) if name.lower() in CLIENT_SETS:
            return [f"the header {name!r} is set by the client itself"]
        case Header(name, prefix) if not TOKEN.fullmatch(name) or not f"x{prefix}".isprintable():
            return [f"{name!r} with prefix {prefix!r} makes no valid header"]
        case Basic(username) if ":" in username or not username.isprintable():
            return ["a user name holds neither a colon nor control characters"]
        case Query(name) if not name:
            return ["a query parameter needs a name"]
        case UrlPath(placeholder) if not re.fullmatch(r"\w+", placeholder, re.ASCII):
            return [f"the placeholder {placeholder!r} is not one word"]
    return []
