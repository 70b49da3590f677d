"""The `[mcp]` table: which servers there are, and how the gateway is offered."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import attrs

Transport = Literal["stdio", "http", "sse"]
PrefixMode = Literal["server", "mcp", "none"]

_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def is_local(url: str) -> bool:
    """Whether a URL names this machine: `localhost`, a loopback address, nothing like them."""
    host = urlsplit(url).hostname or ""
    if host.rstrip(".") == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _strings(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


def _positive(instance: Any, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} must be more than 0, not {value}")


def _url(instance: Any, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is None or "${" in value.partition("/")[0]:
        return
    check_url(value)


def check_url(value: str) -> None:
    """Raise ValueError for a URL that a server may not have."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"url {value!r} cannot be read: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url {value!r} must be an https address")
    if parts.username or parts.password:
        raise ValueError("url must not hold a user or password; use headers or oauth")
    if parts.scheme == "http" and not is_local(value):
        raise ValueError(f"url {value!r} must use https; plain http is only for this machine")


def _headers(instance: Any, attribute: attrs.Attribute[Any], value: Mapping[str, str]) -> None:
    for name, text in value.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a header name")
        if any(character in text for character in "\r\n\0"):
            raise ValueError(f"the header {name!r} holds a line break")


@attrs.frozen(kw_only=True)
class OAuthConfig:
    """How tokens for an HTTP server are had, where its own metadata does not say it."""

    client_id: str | None = None
    """A client that was registered by hand; else the server is asked to register one."""
    client_secret: str | None = attrs.field(default=None, repr=False)
    """The name of the secret that holds it, as `secret:NAME`."""
    client_metadata_url: str | None = None
    """An https address with this client's metadata document, used as client id where allowed."""
    scopes: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    redirect_port: int = 0
    """The loopback port that the browser comes back to; 0 takes a free one."""
    grant: Literal["person", "client_credentials"] = "person"
    """Who logs in: a person, or this program with its own id and secret."""
    issuer: str | None = None
    """The authorization server that the program's own secret is for, and may be sent to."""

    def __attrs_post_init__(self) -> None:
        if self.grant == "client_credentials" and not (
            self.client_id and self.client_secret and self.issuer
        ):
            raise ValueError("client_credentials needs client_id, client_secret and issuer")


@attrs.frozen(kw_only=True)
class LimitConfig:
    """How often the tools of one server may be called by one user, each."""

    requests_per_minute: int = attrs.field(default=60, validator=attrs.validators.ge(1))
    requests_per_hour: int = attrs.field(default=1000, validator=attrs.validators.ge(1))


@attrs.frozen(kw_only=True)
class ServerConfig:
    """One MCP server: a command to start, or an address."""

    command: str | None = None
    args: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    env: dict[str, str] = attrs.field(factory=dict, repr=False)
    """Its environment beyond HOME, PATH and the like; `secret:NAME` takes a stored secret."""
    cwd: str | None = None
    url: str | None = attrs.field(default=None, validator=_url)
    transport: Transport | None = None
    """Found out by trying when it is not given."""
    headers: dict[str, str] = attrs.field(factory=dict, repr=False, validator=_headers)
    """Sent with every request; `secret:NAME` and `Bearer secret:NAME` take a stored secret."""
    oauth: OAuthConfig | None = None
    enabled: bool = True
    description: str = ""

    include: tuple[str, ...] = attrs.field(default=("*",), converter=_strings)
    """Globs of the server's own tool names."""
    exclude: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    rename: dict[str, str] = attrs.field(factory=dict)
    """The server's own name of a tool to the name wanted; the prefix still comes before it."""
    prefix: PrefixMode | None = None
    """Overrides `[mcp] prefix`."""
    resources: bool = True
    prompts: bool = True

    trusted: bool = False
    """Believe its annotations: read-only tools need no approval then."""
    read_only: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    """Globs of tools that are known to change nothing, whatever the server says."""
    pin: bool = True
    """Refuse a tool whose definition changed since it was first approved."""
    rate_limit: LimitConfig | None = None
    max_concurrent: int = attrs.field(default=16, validator=attrs.validators.ge(1))
    max_result: int = attrs.field(default=64 * 1024 * 1024, validator=attrs.validators.ge(1024))
    """Bytes of one message of the server; a longer one costs its call."""

    timeout: float = attrs.field(default=60.0, validator=_positive)
    startup_timeout: float = attrs.field(default=60.0, validator=_positive)
    idle_timeout: float = attrs.field(default=600.0, validator=_positive)
    """Seconds without a call after which the server is stopped; the next call starts it again."""

    def __attrs_post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ValueError("a server needs either command or url")
        if self.command is not None and self.transport in ("http", "sse"):
            raise ValueError(f"transport {self.transport!r} needs url, not command")
        if self.url is not None and self.transport == "stdio":
            raise ValueError("transport 'stdio' needs command, not url")
        if self.command is not None and (self.headers or self.oauth):
            raise ValueError("headers and oauth are for servers with a url")
        if self.url is not None and (self.args or self.env or self.cwd):
            raise ValueError("args, env and cwd are for servers with a command")


@attrs.frozen(kw_only=True)
class ClientIdentity:
    """Who a bearer token stands for at the gateway."""

    token: str = attrs.field(repr=False)
    """The token as `secret:NAME`, or its SHA-256 as `sha256:HEX`."""
    user: str
    session: str | None = None
    tools: tuple[str, ...] = attrs.field(default=("*",), converter=_strings)
    """Globs of the tools that this client may see and call."""


@attrs.frozen(kw_only=True)
class GatewayOAuth:
    """Accept access tokens of an authorization server (the gateway is a resource server)."""

    issuer: str
    resource: str
    """The gateway's own address, which tokens must be made for."""
    jwks_url: str | None = None
    introspection_url: str | None = None
    introspection_client: str | None = None
    introspection_secret: str | None = attrs.field(default=None, repr=False)
    required_scopes: tuple[str, ...] = attrs.field(default=(), converter=_strings)


@attrs.frozen(kw_only=True)
class ServeConfig:
    """How `hardpoint serve` offers everything as one MCP server."""

    name: str = "hardpoint"
    instructions: str | None = None
    user: str = "local"
    """Whom calls count for when a client does not have to say who it is."""
    allowed_hosts: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    """Further Host headers; loopback names are always allowed."""
    allowed_origins: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    clients: dict[str, ClientIdentity] = attrs.field(factory=dict)
    oauth: GatewayOAuth | None = None
    page_size: int = attrs.field(default=200, validator=attrs.validators.ge(1))
    list_ttl: float = attrs.field(default=60.0, validator=attrs.validators.ge(0))
    """Seconds for which clients may keep a list without asking again."""
    search: bool | None = None
    """Offer a search tool instead of all tools. Not given: beyond `search_above` of them."""
    search_above: int = attrs.field(default=500, validator=attrs.validators.ge(1))
    approvals: Literal["ask", "refuse"] = "ask"
    """Whether the client's person may answer approvals, or only an operator elsewhere."""
    answer_timeout: float = attrs.field(default=600.0, validator=_positive)
    """Seconds for which an answer of the client's person is waited for."""


@attrs.frozen(kw_only=True)
class McpConfig:
    """The whole `[mcp]` table."""

    servers: dict[str, ServerConfig] = attrs.field(factory=dict)
    prefix: PrefixMode = "server"
    """`server__tool`, `mcp__server__tool`, or the server's own names."""
    serve: ServeConfig = attrs.field(factory=ServeConfig)
    catalogue_ttl: float = attrs.field(default=3600.0, validator=attrs.validators.ge(0))
    """Seconds after which a remembered list of tools is fetched again when its server is used."""

    @servers.validator
    def _check_names(
        self, attribute: attrs.Attribute[Any], value: Mapping[str, ServerConfig]
    ) -> None:
        for name in value:
            check_server_name(name)


def check_server_name(name: str) -> None:
    """Raise ValueError for a name that no server may have."""
    if not _SERVER_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a server name: letters, digits, '_', '-', '.', at most 64"
        )
