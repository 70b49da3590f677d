"""Finding, installing and checking extensions: WASM modules, MCP servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from hardpoint.context import JobContext


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


@attrs.frozen
class InstallState:
    """How far an extension is: `available`, `installed`, `needs_auth`, `active`, `quarantined`."""

    name: str
    kind: str
    status: str
    tools: Sequence[str] = ()
    detail: str = ""
    auth_url: str | None = None


@attrs.frozen
class LockEntry:
    """One pinned thing of the surface that `hardpoint lock` writes down."""

    kind: str
    name: str
    digest: str


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
    async def authenticate(self, name: str, context: JobContext) -> InstallState: ...

    @abstractmethod
    async def activate(self, name: str, context: JobContext) -> InstallState: ...

    @abstractmethod
    async def remove(self, name: str, context: JobContext) -> InstallState: ...

    @abstractmethod
    async def installed(self) -> Sequence[InstallState]: ...

    async def lock_entries(self) -> Sequence[LockEntry]:
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
