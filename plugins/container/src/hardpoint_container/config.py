"""The `[plugin.container]` table: what a sandbox is given. Engines enforce it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

IMAGE: Final = "localhost/hardpoint-sandbox:1"
WORKSPACE: Final = "/workspace"
PROXY_PORT: Final = 3128

Limit = Literal["memory", "pids", "cpus"]
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)b?", re.IGNORECASE)


def size_in_bytes(text: str | int) -> int:
    """`"512m"` as a number of bytes.

    Raises:
        ValueError: It is not a size.
    """
    found = _SIZE.fullmatch(str(text).strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size; write for example '512m' or '1g'")
    return int(found[1]) * _UNITS[found[2].lower()]


def _is_size(_: Any, attribute: attrs.Attribute[Any], value: str) -> None:
    if size_in_bytes(value) < 1:
        raise ValueError(f"{attribute.name} must be more than 0 bytes")


def _positive(_: Any, attribute: attrs.Attribute[Any], value: float) -> None:
    if value <= 0:
        raise ValueError(f"{attribute.name} must be more than 0")


def _is_user(_: Any, attribute: attrs.Attribute[Any], value: str) -> None:
    if value != "owner" and not re.fullmatch(r"\d+(:\d+)?", value):
        raise ValueError(f"{attribute.name} is 'owner' or numbers, for example '1000:1000'")


@attrs.frozen
class EgressRule:
    """One place on the network that sandboxes may reach."""

    host: str
    """A host name; `*.example.com` covers every name below it, not `example.com` itself."""
    methods: tuple[str, ...] = ()
    """Empty: any method."""
    paths: tuple[str, ...] = ()
    """Path prefixes that end at a segment; empty: any path."""
    plain: bool = False
    """Also over unencrypted http."""
    tunnel: bool = False
    """Connect straight through, for clients that pin certificates: no path, no method, no secret is
    seen, so `methods`, `paths` and secrets cannot be used with it."""

    def __attrs_post_init__(self) -> None:
        if self.tunnel and (self.methods or self.paths):
            raise ValueError(f"egress rule {self.host!r}: a tunnel cannot look at methods or paths")


@attrs.frozen
class SandboxSecret:
    """A stored secret that commands use without ever seeing it.

    In the sandbox the variable holds a stand-in. The egress gate puts the value in its place, in
    requests to `hosts` and nowhere else.
    """

    name: str
    """The secret's name in the store."""
    env: str
    """The variable that holds the stand-in."""
    hosts: tuple[str, ...]

    def __attrs_post_init__(self) -> None:
        if not self.hosts:
            raise ValueError(f"secret {self.name!r} names no hosts, so nothing could use it")


@attrs.frozen
class EgressConfig:
    """`[plugin.container.egress]`, for `network = "proxy"`."""

    mode: Literal["enforce", "audit"] = "enforce"
    """`audit` lets every public address through and writes down the rules that would be needed."""
    allow: tuple[EgressRule, ...] = ()
    secrets: tuple[SandboxSecret, ...] = ()
    max_body: str = attrs.field(default="64m", validator=_is_size)
    """The largest request or response body."""


@attrs.frozen
class ContainerConfig:
    """`[plugin.container]`."""

    engine: Literal["podman", "bubblewrap"] = "podman"
    podman: str = "podman"
    """The program; a full path or a name on PATH."""
    image: str = IMAGE
    build_image: bool = True
    """Build the default image from this machine's own packages when it is missing. No network."""

    policy: Literal["read_only", "workspace_write", "full_access"] = "workspace_write"
    """`full_access` needs `allow_full_access` too, and asks before every command."""
    allow_full_access: bool = False
    network: Literal["none", "proxy", "open"] = "none"
    """`open` is Podman's own network; only with the policy full_access."""
    egress: EgressConfig = EgressConfig()
    user: str = attrs.field(default="owner", validator=_is_user)
    """Whose rights commands have: the owner of the workspace, or `UID:GID`."""

    memory: str = attrs.field(default="1g", validator=_is_size)
    cpus: float = attrs.field(default=2.0, validator=_positive)
    pids: int = attrs.field(default=256, validator=attrs.validators.ge(16))
    open_files: int = attrs.field(default=1024, validator=attrs.validators.ge(64))
    file_size: str = attrs.field(default="1g", validator=_is_size)
    """The largest file that a command may write."""
    tmp_size: str = attrs.field(default="64m", validator=_is_size)
    workspace_size: str | None = attrs.field(
        default=None, validator=attrs.validators.optional(_is_size)
    )
    """Commands are refused while the workspace holds more than this. Measured between calls: one
    command can pass it."""
    allow_unenforced: frozenset[Limit] = frozenset()
    """Limits that may be missing where this machine cannot enforce them."""

    timeout: float = attrs.field(default=120.0, validator=_positive)
    """Seconds that a command may run when the call does not say."""
    max_timeout: float = attrs.field(default=600.0, validator=_positive)
    start_timeout: float = attrs.field(default=60.0, validator=_positive)
    idle: float = attrs.field(default=300.0, validator=_positive)
    """Seconds without a call after which a sandbox is closed."""
    max_life: float = attrs.field(default=86_400.0, validator=_positive)
    """Seconds after which a sandbox ends whatever happens."""
    max_sandboxes: int = attrs.field(default=16, validator=attrs.validators.ge(1))
    """Sandboxes at one time; the longest idle one makes room."""
    max_background: int = attrs.field(default=4, validator=attrs.validators.ge(0))
    """Commands of one session that may run in the background, each in a sandbox of its own."""
    max_output: str = attrs.field(default="256m", validator=_is_size)
    """A command that writes more than this is killed."""
    kept_output: str = attrs.field(default="16m", validator=_is_size)
    """How much of each stream is kept."""

    env: Mapping[str, str] = attrs.field(factory=dict)
    """Variables for every command."""
    pass_env: frozenset[str] = frozenset({"TZ", "LANG", "LC_ALL", "TERM"})
    """Variables of Hardpoint's own environment that commands may see."""

    def __attrs_post_init__(self) -> None:
        if self.timeout > self.max_timeout:
            raise ValueError("timeout is larger than max_timeout")
        if self.policy == "full_access" and not self.allow_full_access:
            raise ValueError("policy 'full_access' also needs allow_full_access = true")
        if self.network == "open" and (self.policy != "full_access" or self.engine != "podman"):
            raise ValueError("network 'open' needs policy = 'full_access' and Podman")
        if self.network != "proxy" and self.egress != EgressConfig():
            raise ValueError("egress is only used with network = 'proxy'")
        secret_hosts = {host for secret in self.egress.secrets for host in secret.hosts}
        for rule in self.egress.allow:
            if rule.tunnel and rule.host in secret_hosts:
                raise ValueError(f"egress rule {rule.host!r}: a tunnel cannot carry a secret")
