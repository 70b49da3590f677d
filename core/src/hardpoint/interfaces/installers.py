"""Finding, installing and checking extensions: WASM modules, MCP servers."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from hardpoint.calls import canonical_json
from hardpoint.context import JobContext
from hardpoint.errors import NotAuthorized


@attrs.frozen
class CatalogueEntry:
    """One thing that can be installed."""

    name: str
    kind: str
    """The installer's kind: `wasm_tool`, `mcp_server`."""
    description: str = ""
    source: str = ""
    """A path or https address."""
    sha256: str | None = None
    """The hash that the installed thing must have."""
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    """What else the kind needs, as the catalogue gives it."""
    version: str = ""
    catalogue: str = ""
    """Where it is listed; empty for what an installer knows by itself."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all of it but the place where it is listed; approvals are bound to it."""
        told = attrs.asdict(self, filter=lambda field, _: field.name != "catalogue")
        return hashlib.sha256(canonical_json(told).encode()).hexdigest()


@attrs.frozen
class InstallState:
    """How far an extension is: `available`, `installed`, `needs_auth`, `active`, `quarantined`."""

    name: str
    kind: str
    status: str
    tools: Sequence[str] = ()
    """The names under which its tools are registered when it is active."""
    detail: str = ""
    """What is missing, and what a person can do about it."""
    auth_url: str | None = None
    """Where a person logs in."""


@attrs.frozen
class LockEntry:
    """One pinned thing of the surface that `hardpoint lock` writes down."""

    kind: str
    name: str
    digest: str
    tools: Sequence[str] = ()
    """The registered tools that are not used while this differs from what was written down."""
    granted: Sequence[str] = ()
    """What it is allowed to do."""


class Installer(ABC):
    """Installs one kind of extension."""

    kind: str

    @abstractmethod
    async def find(self, query: str) -> Sequence[CatalogueEntry]: ...

    @abstractmethod
    async def install(self, entry: CatalogueEntry, context: JobContext) -> InstallState:
        """Fetch, check the hash, and keep; does not activate.

        Raises:
            NotAuthorized: When the hash differs.
        """

    @abstractmethod
    async def authenticate(self, name: str, context: JobContext) -> InstallState:
        """Begin or check its login; takes no secret from a model."""

    @abstractmethod
    async def activate(self, name: str, context: JobContext) -> InstallState:
        """Put its tools into the registry. Doing it twice is no error."""

    @abstractmethod
    async def remove(self, name: str, context: JobContext) -> InstallState: ...

    async def upgrade(self, entry: CatalogueEntry, context: JobContext) -> InstallState:
        """Replace what is installed by this; what was there stays when that fails.

        Raises:
            NotAuthorized: When the hash differs, or only a person may do it.
        """
        raise NotAuthorized(
            f"{entry.name!r} can only be replaced by a person: remove it, then install it again"
        )

    @abstractmethod
    async def installed(self) -> Sequence[InstallState]: ...

    async def refresh(self) -> Sequence[str]:
        """Look again at what is only remembered, also when somebody else has to be asked.

        Returns:
            What could not be asked, and why.
        """
        return ()

    async def lock_entries(self) -> Sequence[LockEntry]:
        """What of it belongs into the lock file; reads only what is here."""
        return ()


@attrs.frozen
class CheckResult:
    """What `doctor` found out by trying."""

    name: str
    status: Literal["ok", "warning", "failed", "skipped"]
    detail: str
    hint: str | None = None


class Check(ABC):
    """One probe of `hardpoint doctor`: it tries, it does not read version strings."""

    @abstractmethod
    async def run(self) -> Sequence[CheckResult]: ...


@attrs.frozen
class WasmToolRegistration:
    """What `registry.register_wasm` takes; the wasm plugin carries it out."""

    name: str
    wasm_bytes: bytes = attrs.field(repr=False)
    runtime: Any = None
    capabilities: Any = None
    limits: Any = None
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    secrets_store: Any = None
    oauth_refresh: Any = None
