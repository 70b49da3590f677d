"""Patterns over URLs.

`domain:example.com`, `domain:*.example.com` (any depth below it, not itself), `method:POST`,
`METHOD URL`, and URL globs such as `https://api.example.com/v1/*`. Several parts apart by blanks
must all hold: `method:POST domain:api.example.com`. A star never reaches from the path into the
host.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import attrs

from hardpoint.errors import ConfigError

_METHODS: Final = frozenset(
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]
)
_HOST: Final = re.compile(r"(?:\*\.)?(?:[^\s*/:@?#\[\]]+|\[[0-9A-Fa-f:.]+\])|\*")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@attrs.frozen
class UrlPattern:
    """One pattern over requests."""

    spec: str
    hosts: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    scheme: str = "*"
    port: int | None = None
    path: str | None = None
    """A glob over path and query; None for any."""

    @classmethod
    def parse(cls, spec: str) -> UrlPattern:
        """Read a pattern.

        Raises:
            ConfigError: It is no pattern over URLs; the message shows one.
        """
        pattern = cls(spec)
        parts = spec.split()
        if not parts:
            raise ConfigError("a URL pattern is empty; write `domain:example.com` or `*`")
        for part in parts:
            name, colon, value = part.partition(":")
            if part == "*":
                continue
            if name == "domain" and colon:
                pattern = attrs.evolve(pattern, hosts=_hosts(value, spec))
            elif name == "method" and colon:
                methods = tuple(value.upper().split(","))
                if not all(methods):
                    raise ConfigError(f"the URL pattern {spec!r} has an empty method")
                pattern = attrs.evolve(pattern, methods=methods)
            elif part.upper() in _METHODS and part == part.upper():
                pattern = attrs.evolve(pattern, methods=(*pattern.methods, part))
            else:
                pattern = _with_url(pattern, part)
        return pattern

    def matches(self, value: object, operation: str = "") -> bool:
        """Whether a request fits.

        Args:
            value: An absolute URL.
            operation: The method.
        """
        if not isinstance(value, str):
            return False
        if self.methods and operation.upper() not in self.methods:
            return False
        try:
            url = urlsplit(value)
            port = url.port or _DEFAULT_PORTS.get(url.scheme)
            host = _normal_host(url.hostname or "")
        except ValueError:
            return False
        if not host:
            return False
        if self.hosts and not any(_host_matches(wanted, host) for wanted in self.hosts):
            return False
        if self.scheme != "*" and url.scheme.lower() != self.scheme:
            return False
        if self.port is not None and port != self.port:
            return False
        return self.path is None or _path_matches(self.path, url)


def _hosts(text: str, spec: str) -> tuple[str, ...]:
    hosts = text.split(",")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise ConfigError(
                f"the URL pattern {spec!r} names the host {host!r}; write `example.com` or"
                " `*.example.com`, without scheme, port or path"
            )
    return tuple("*" if h == "*" else _normal_pattern(h) for h in hosts)


def _normal_pattern(host: str) -> str:
    return "*." + _normal_host(host[2:]) if host.startswith("*.") else _normal_host(host)


def _normal_host(host: str) -> str:
    """Lower case, without a final dot, Unicode names as their ASCII form."""
    host = host.rstrip(".").lower().strip("[]")
    if host.isascii():
        return host
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError:
        return host


def _host_matches(wanted: str, host: str) -> bool:
    if wanted.startswith("*."):
        return host.endswith(wanted[1:]) and len(host) > len(wanted) - 1
    return wanted in ("*", host)


def _with_url(pattern: UrlPattern, text: str) -> UrlPattern:
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise ConfigError(
            f"the URL pattern {pattern.spec!r} is none; write `domain:example.com`,"
            " `method:POST` or `https://example.com/path/*`"
        )
    match = re.fullmatch(r"([^/?#]+)([/?].*)?", rest)
    authority = match[1] if match else ""
    host, colon, port = authority.partition(":") if "[" not in authority else (authority, "", "")
    if not match or "@" in authority or not _HOST.fullmatch(host) or (colon and not port.isdigit()):
        raise ConfigError(f"the URL pattern {pattern.spec!r} has no usable host")
    return attrs.evolve(
        pattern,
        scheme=scheme.lower(),
        hosts=("*" if host == "*" else _normal_pattern(host),),
        port=int(port) if port else None,
        path=match[2] or None,
    )


def _path_matches(glob: str, url: SplitResult) -> bool:
    """Compare the path as a server will read it; a pattern without `?` leaves the query free."""
    path = url.path or "/"
    plain = unquote(path)
    if any(part in (".", "..") for part in plain.split("/")) or "\\" in plain:
        return False
    wanted_path, question, wanted_query = glob.partition("?")
    if not _glob(wanted_path or "/", path) and not _glob(wanted_path or "/", plain):
        return False
    return not question or _glob(wanted_query, url.query)


def _glob(glob: str, text: str) -> bool:
    return fnmatch.fnmatchcase(text, re.sub(r"\*+", "*", glob).replace("[", "[[]"))
