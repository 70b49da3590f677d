"""What a tool asks for: `NAME.capabilities.json` with IronClaw's keys, checked strictly.

Reading it grants nothing. `permissions` names each thing that a person can grant or refuse, `only`
keeps those that were granted. What a capability means at run time is decided in `host` and `http`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from hardpoint_wasm.auth import Auth
from hardpoint_wasm.limits import MIB
from hardpoint_wasm.webhook import WEBHOOK, Webhook

if TYPE_CHECKING:
    from hardpoint.net import AllowList, Binding, Location

MAX_FILE = 256 * 1024
MAX_DESCRIPTION = 4096
MAX_PARAMETERS = 64 * 1024
MAX_REQUEST, MAX_RESPONSE = 2 * MIB, 8 * MIB
"""Hard caps: a byte of a body costs the host many bytes while it moves in or out of a guest."""
MAX_TIMEOUT = 300.0


@attrs.frozen
class RateLimit:
    """How often one user may use a capability of one tool."""

    requests_per_minute: int = 60
    requests_per_hour: int = 1000


@attrs.frozen
class Endpoint:
    """Requests that are allowed."""

    host: str
    path_prefix: str | None = None
    methods: tuple[str, ...] = ()

    @property
    def permission(self) -> str:
        methods = f" {','.join(sorted(m.upper() for m in self.methods))}" if self.methods else ""
        return f"http:{self.host.lower()}{self.path_prefix or ''}{methods}"


@attrs.frozen
class LocationSpec:
    """Where a secret stands in a request."""

    type: Literal["bearer", "basic", "header", "query_param", "url_path"]
    username: str = ""
    name: str = ""
    header_name: str = ""
    prefix: str = ""
    placeholder: str = ""

    def resolve(self) -> Location:
        from hardpoint.net import Basic, Bearer, Header, Query, UrlPath

        match self.type:
            case "basic":
                return Basic(self.username)
            case "header":
                return Header(self.name or self.header_name, self.prefix)
            case "query_param":
                return Query(self.name)
            case "url_path":
                return UrlPath(self.placeholder.strip("{}"))
        return Bearer()


@attrs.frozen
class Credential:
    """A secret that the host puts into requests to some hosts; the tool never sees it."""

    secret_name: str
    location: LocationSpec
    host_patterns: tuple[str, ...] = ()
    optional: bool = False
    """Whether requests go without it while it is not set."""


@attrs.frozen
class Http:
    """Requests through the host."""

    allowlist: tuple[Endpoint, ...] = ()
    credentials: Mapping[str, Credential] = attrs.field(factory=dict)
    rate_limit: RateLimit = RateLimit()
    max_request_bytes: int = MIB
    max_response_bytes: int = MIB
    timeout_secs: float = 30.0

    @property
    def request_cap(self) -> int:
        return min(self.max_request_bytes, MAX_REQUEST)

    @property
    def response_cap(self) -> int:
        return min(self.max_response_bytes, MAX_RESPONSE)

    @property
    def timeout_cap(self) -> float:
        return min(self.timeout_secs, MAX_TIMEOUT)

    def allow_list(self) -> AllowList:
        from hardpoint.net import AllowList, AllowPattern

        return AllowList(AllowPattern(e.host, e.path_prefix, e.methods) for e in self.allowlist)

    def bindings(self, without: Collection[str] = ()) -> list[Binding]:
        """The credentials for the injector, but for the secrets in `without`."""
        from hardpoint.net import Binding

        return [
            Binding(
                credential.secret_name,
                credential.host_patterns,
                location=credential.location.resolve(),
            )
            for credential in self.credentials.values()
            if credential.host_patterns and credential.secret_name not in without
        ]


@attrs.frozen
class Secrets:
    """Names whose existence the tool may ask for: exact, or a prefix with a star."""

    allowed_names: tuple[str, ...] = ()

    def allows(self, name: str) -> bool:
        lowered = name.lower()
        return any(
            lowered.startswith(pattern[:-1].lower())
            if pattern.endswith("*")
            else lowered == pattern.lower()
            for pattern in self.allowed_names
        )


@attrs.frozen
class ToolInvoke:
    """Other tools, by the alias that the tool knows them by."""

    aliases: Mapping[str, str] = attrs.field(factory=dict)
    rate_limit: RateLimit = RateLimit()


@attrs.frozen
class WorkspaceRead:
    """Documents of the user's memory workspace."""

    allowed_prefixes: tuple[str, ...] = ()


@attrs.frozen
class RequiredSecret:
    name: str
    prompt: str
    optional: bool = False


@attrs.frozen
class Setup:
    required_secrets: tuple[RequiredSecret, ...] = ()
    optional_secrets: tuple[RequiredSecret, ...] = ()

    @property
    def secrets(self) -> tuple[RequiredSecret, ...]:
        """All of them, each saying whether one can do without."""
        others = (attrs.evolve(secret, optional=True) for secret in self.optional_secrets)
        return (*self.required_secrets, *others)


@attrs.frozen
class Capabilities:
    """Everything that a tool asks for, or what was granted of it. The default is nothing at all."""

    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    version: str | None = None
    wit_version: str | None = None
    name: str | None = None
    tier: str | None = None
    config: Mapping[str, Any] | None = None
    discovery_summary: Mapping[str, Any] | None = None
    """What `tool_info` tells beyond the schema, in four lists."""
    http: Http | None = None
    secrets: Secrets | None = None
    tool_invoke: ToolInvoke | None = None
    workspace: WorkspaceRead | None = None
    webhook: Webhook | None = None
    auth: Auth | None = None
    setup: Setup | None = None
    warnings: tuple[str, ...] = ()
    """What a careful reader should know; shown when the tool is added."""

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, Any]) -> Capabilities:
        """Read a capabilities file.

        Raises:
            ConfigError: It is not JSON, has an unknown key or a wrong value; every message says
                where.
        """
        from hardpoint_wasm.capability_file import read

        return read(document)

    @property
    def permissions(self) -> tuple[str, ...]:
        """The grantable things, each under a name that can be typed."""
        names: list[str] = []
        if self.http:
            names += [endpoint.permission for endpoint in self.http.allowlist]
            names += [_secret(c.secret_name) for c in self.http.credentials.values()]
        if self.secrets:
            names += [_secret(name) for name in self.secrets.allowed_names]
        if self.tool_invoke:
            names += [f"tool:{alias}" for alias in self.tool_invoke.aliases]
        if self.auth:
            names += self.auth.permissions
        if self.webhook:
            names.append(WEBHOOK)
        if self.workspace:
            names += [f"workspace:{p}" for p in self.workspace.allowed_prefixes] or ["workspace:"]
        return tuple(dict.fromkeys(names))

    def only(self, granted: Collection[str]) -> Capabilities:
        """These capabilities without whatever is not in `granted`."""
        kept = self
        if self.http:
            http = attrs.evolve(
                self.http,
                allowlist=tuple(e for e in self.http.allowlist if e.permission in granted),
                credentials={
                    key: credential
                    for key, credential in self.http.credentials.items()
                    if _secret(credential.secret_name) in granted
                },
            )
            kept = attrs.evolve(kept, http=http)
        if self.secrets:
            names = tuple(n for n in self.secrets.allowed_names if _secret(n) in granted)
            kept = attrs.evolve(kept, secrets=Secrets(names))
        if self.tool_invoke:
            aliases = {a: t for a, t in self.tool_invoke.aliases.items() if f"tool:{a}" in granted}
            kept = attrs.evolve(kept, tool_invoke=attrs.evolve(self.tool_invoke, aliases=aliases))
        if self.auth:
            kept = attrs.evolve(kept, auth=self.auth.only(granted))
        if self.webhook and WEBHOOK not in granted:
            kept = attrs.evolve(kept, webhook=None)
        if self.workspace:
            prefixes = self.workspace.allowed_prefixes
            left = tuple(p for p in prefixes if f"workspace:{p}" in granted)
            # An empty list means every document, so a list that became empty must go.
            allowed = left or (not prefixes and "workspace:" in granted)
            kept = attrs.evolve(kept, workspace=WorkspaceRead(left) if allowed else None)
        return kept


def _secret(name: str) -> str:
    return f"secret:{name.lower()}"
