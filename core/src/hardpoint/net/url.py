"""Read a URL strictly, into the one form in which it is judged and sent.

Two parsers that read a URL differently are how a guard is passed, so there is one: what cannot be
read in exactly one way is refused, and the client sends `Url.target` to `Url.host`, nothing else.
Whether a host may be contacted is not decided here.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import Final, NoReturn

import attrs

from hardpoint.errors import InvalidParameters

MAX_URL: Final = 16_384
DEFAULT_PORTS: Final = {"https": 443, "http": 80}

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\Z")
_NUMERIC_LABEL = re.compile(r"[0-9]+\Z|0[xX][0-9a-fA-F]*\Z")
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_DOTTED_QUAD = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}\Z")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNSAFE = {
    "path": re.compile(r"[^!$&\'()*+,;=:@/%\w.~\[\]-]", re.ASCII),
    "query": re.compile(r"[^!$&\'()*+,;=:@/?%\w.~\[\]{}`^|-]", re.ASCII),
}
_DOT = re.compile(r"\.|%2[eE]")


@attrs.frozen
class Url:
    """An absolute URL in canonical form."""

    scheme: str
    host: str
    """A lower-case ASCII name without a final dot, or an IP address without brackets."""
    port: int
    path: str
    """Begins with `/`; percent-encoded; without dot segments."""
    query: str | None = None
    given_path: str = attrs.field(default="/", eq=False)
    """The path as it was written, for rules that refuse odd spellings instead of repairing them."""

    @property
    def authority(self) -> str:
        """Host and, where it is not the scheme's own, port: what a `Host` header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"

    @property
    def is_address(self) -> bool:
        """Whether the host is an address, so that nothing has to be resolved."""
        # No canonical name ends in a number.
        return ":" in self.host or self.host.rpartition(".")[2].isdigit()

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def target(self) -> str:
        """Path and query: what the request line says."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def join(self, location: str) -> str:
        """The URL that a `Location` header means, to be parsed in turn.

        Raises:
            InvalidParameters: When the header could mean two things.
        """
        location = location.strip(" ")
        _refuse_controls(location)
        if "\\" in re.split(r"[?#]", location, maxsplit=1)[0]:
            _refuse("a redirect leads to an address with a backslash")
        if _SCHEME.match(location):
            return location
        if location.startswith("//"):
            return f"{self.scheme}:{location}"
        base = f"{self.scheme}://{self.authority}"
        if location.startswith("/"):
            return base + location
        if not location or location.startswith("#"):
            return str(self)
        if location.startswith("?"):
            return base + self.path + location
        return base + self.path[: self.path.rindex("/") + 1] + location


def parse_url(text: str) -> Url:
    """Read an absolute URL.

    Blanks around it and the fragment are dropped, blanks and other characters in path and query
    percent-encoded, dot segments resolved.

    Raises:
        InvalidParameters: When it is no absolute URL, or one that parsers read in different ways.
    """
    if not isinstance(text, str):
        _refuse("the URL must be text")
    if len(text) > MAX_URL:
        _refuse(f"the URL has more than {MAX_URL} characters")
    text = text.strip(" ")
    _refuse_controls(text)
    scheme = _SCHEME.match(text)
    if scheme is None or not text.startswith("//", scheme.end()):
        _refuse(
            "the URL must be absolute",
            hint="write it with scheme and host, for example https://example.com/path",
        )
    rest = text[scheme.end() + 2 :].partition("#")[0]
    end = min((at for at in map(rest.find, "/?") if at >= 0), default=len(rest))
    authority, rest = rest[:end], rest[end:]
    given_path, mark, query = rest.partition("?")
    given_path = given_path or "/"
    host, port = _split_authority(authority)
    lower = scheme[1].lower()
    return Url(
        scheme=lower,
        host=canonical_host(host),
        port=port or DEFAULT_PORTS.get(lower, 0),
        path=_resolve_dots(_encode(given_path, "path")),
        query=_encode(query, "query") if mark else None,
        given_path=given_path,
    )


def canonical_host(text: str) -> str:
    """A host as it is compared and resolved: an ASCII name in lower case, or an address.

    Raises:
        InvalidParameters: When it is neither, or an address in an odd spelling.
    """
    if text.startswith("["):
        return _ipv6(text)
    if len(text) > 1024:
        _refuse("the host name is too long")
    name = (text.lower() if text.isascii() else _to_ascii(text)).removesuffix(".")
    if not name:
        _refuse("the URL has no host")
    if _NUMERIC_LABEL.match(name.rpartition(".")[2]):
        if not _DOTTED_QUAD.match(name):
            _refuse(
                f"the host {_short(text)} is an IPv4 address in an unusual spelling",
                hint="write it as four decimal numbers",
            )
        return name
    if not _NAME.match(name):
        _refuse(f"the host {_short(text)} is not a valid name")
    return name


def _split_authority(authority: str) -> tuple[str, int | None]:
    if "\\" in authority:
        _refuse("the URL has a backslash before its path")
    if "@" in authority:
        _refuse(
            "the URL carries user information",
            hint="leave out what stands before the @, and send credentials by a header",
        )
    if authority.startswith("["):
        host, bracket, tail = authority.partition("]")
        host += bracket
    else:
        host, colon, tail = authority.partition(":")
        tail = colon + tail
    if not tail or tail == ":":
        return host, None
    digits = tail[1:]
    if tail[0] != ":" or not re.fullmatch(r"[0-9]{1,5}", digits):
        _refuse(f"the host and port {_short(authority)} cannot be read")
    port = int(digits)
    if not 1 <= port <= 65535:
        _refuse(f"the port {port} is not between 1 and 65535")
    return host, port


def _ipv6(text: str) -> str:
    inner = text[1:-1]
    if "%" in inner:
        _refuse("the address in the URL has a zone identifier")
    try:
        if not text.endswith("]") or not inner.isascii():
            raise ValueError
        return IPv6Address(inner).compressed
    except ValueError:
        _refuse(f"the host {_short(text)} is not a valid IPv6 address")


def _to_ascii(text: str) -> str:
    import idna  # httpx2 depends on it; most hosts are ASCII and never need it

    try:
        mapped = idna.uts46_remap(text, std3_rules=False, transitional=False)
        return ".".join(
            label if label.isascii() else idna.alabel(label).decode() for label in mapped.split(".")
        )
    except (idna.IDNAError, UnicodeError):
        _refuse(f"the host {_short(text)} is not a valid international name")


def _encode(text: str, part: str) -> str:
    try:
        return _UNSAFE[part].sub(
            lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()),
            _ESCAPE.sub("%25", text),
        )
    except UnicodeEncodeError:
        _refuse("the URL holds characters that are not valid Unicode")


def _resolve_dots(path: str) -> str:
    kept: list[str] = []
    segments = path.split("/")[1:]
    for at, segment in enumerate(segments):
        plain = _DOT.sub(".", segment)
        if plain == "..":
            del kept[-1:]
        elif plain != ".":
            kept.append(segment)
            continue
        if at == len(segments) - 1:
            kept.append("")
    return "/" + "/".join(kept)


def _refuse_controls(text: str) -> None:
    if _CONTROL.search(text):
        _refuse("the URL holds a line break or another control character")


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "…")


def _refuse(why: str, hint: str | None = None) -> NoReturn:
    raise InvalidParameters(why, hint=hint)
