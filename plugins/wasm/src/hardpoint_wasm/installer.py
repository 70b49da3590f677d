"""Install WebAssembly tools from catalogues, for `tool_install` and its like.

What is installed this way has no permission at all: those are granted by a person, with
`hardpoint wasm grant`. A catalogue entry names the hash of what it installs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from hardpoint.errors import ConfigError, NotAuthorized
from hardpoint.interfaces import CatalogueEntry, Installer, InstallState, JobContext, LockEntry
from hardpoint_wasm import sources
from hardpoint_wasm.install import inspect
from hardpoint_wasm.runtime import folder
from hardpoint_wasm.settings import WasmConfig
from hardpoint_wasm.store import Record
from hardpoint_wasm.toolset import WasmToolset, toolset_of

if TYPE_CHECKING:
    from hardpoint.net.login import Handovers, Show

KIND = "wasm_tool"
_KEYS = {"name", "description", "source", "sha256"}


class WasmInstaller(Installer):
    """Finds, installs and removes the modules of one toolset.

    Args:
        config: The plugin's settings; the toolset that was registered with them is used.
    """

    kind = KIND

    def __init__(self, config: WasmConfig) -> None:
        self._config = config
        self._handovers: Handovers | None = None
        self._services: Any = None

    async def start(self, services: Any) -> None:
        """Renew logins from now on, and begin new ones."""
        from hardpoint.net.login import Handovers
        from hardpoint_wasm.logins import Logins

        self._handovers = Handovers()
        self._services = services
        self._toolset().logins = Logins(services, folder("data") / "logins")

    async def stop(self) -> None:
        if self._handovers is not None:
            await self._handovers.aclose()
        if (logins := self._toolset().logins) is not None:
            await logins.aclose()

    def _toolset(self) -> WasmToolset:
        return toolset_of(self._config)

    async def find(self, query: str) -> Sequence[CatalogueEntry]:
        words = query.lower().split()
        entries = [e for path in self._toolset().config.catalogues for e in read_catalogue(path)]
        return [
            entry
            for entry in entries
            if all(word in f"{entry.name} {entry.description}".lower() for word in words)
        ]

    async def install(self, entry: CatalogueEntry, context: JobContext) -> InstallState:
        toolset = self._toolset()
        record, wasm = await self._fetched(entry, context)
        known = {record.name: record for record in toolset.store.records()}.get(entry.name)
        if known is not None and known.digest != record.digest:
            raise NotAuthorized(
                f"{entry.name} is installed with another content",
                hint=f"a person can replace it: hardpoint wasm add {entry.source}",
            )
        if known is None:
            toolset.store.add(attrs.evolve(record, status="installed"), wasm)
        return await self._state(toolset.store.get(entry.name), context)

    async def upgrade(self, entry: CatalogueEntry, context: JobContext) -> InstallState:
        """Replace a module; what was granted to the old one is not granted to the new one."""
        toolset = self._toolset()
        known = toolset.store.get(entry.name)
        if known.path is not None:
            raise NotAuthorized(f"{entry.name} is a file of {known.path}; a person replaces it")
        record, wasm = await self._fetched(entry, context)
        if record.digest != known.digest or known.status == "quarantined":
            status = "installed" if known.status == "quarantined" else known.status
            toolset.store.add(attrs.evolve(record, status=status), wasm)
            toolset.update()
        return await self._state(toolset.store.get(entry.name), context)

    async def _fetched(self, entry: CatalogueEntry, context: JobContext) -> tuple[Record, bytes]:
        """A module with the hash that its entry names, and the record that it would get."""
        toolset = self._toolset()
        if not entry.sha256:
            raise NotAuthorized(
                f"the catalogue entry {entry.name!r} names no sha256",
                hint=f"a person can add it: hardpoint wasm add {entry.source}",
            )
        [found, *others] = await sources.find(
            entry.source,
            name=entry.name,
            sha256=entry.sha256,
            http=None if context.handle is None else context.services.http(),
            max_bytes=toolset.config.max_module_bytes,
        )
        if others:
            raise ConfigError(f"{entry.source} holds more than one module")
        return await inspect(found, toolset.config, toolset.runtime), found.wasm

    async def authenticate(self, name: str, context: JobContext) -> InstallState:
        """Tell whether a login is missing; begin one where the service has a page for it."""
        from hardpoint_wasm.login import by_browser, scopes_for

        toolset = self._toolset()
        record = toolset.store.get(name)
        state = await self._state(record, context)
        capabilities, logins = record.capabilities, toolset.logins
        auth = capabilities.auth
        if state.status != "needs_auth" or auth is None or logins is None or not self._handovers:
            return state
        if auth.oauth is None:
            return attrs.evolve(state, detail=f"{state.detail}; {_short(auth.lines())}")
        scopes = scopes_for(auth, toolset.store.records())

        async def login(show: Show) -> None:
            user, nobody = context.user_id, lambda line: None
            await by_browser(
                capabilities, scopes, logins, self._services, user, say=nobody, show=show
            )

        address = await self._handovers.begin(f"{name} of {context.user_id}", login)
        return attrs.evolve(
            state,
            auth_url=address,
            detail="a person opens the address in a browser on this machine; elsewhere:"
            f" hardpoint wasm auth {name}",
        )

    async def activate(self, name: str, context: JobContext) -> InstallState:
        toolset = self._toolset()
        record = toolset.store.get(name)
        if record.status == "installed":
            toolset.store.add(attrs.evolve(record, status="active"))
        toolset.update()
        return await self._state(toolset.store.get(name), context)

    async def remove(self, name: str, context: JobContext) -> InstallState:
        toolset = self._toolset()
        record = toolset.store.get(name)
        toolset.store.remove(name)
        toolset.update()
        return InstallState(name, KIND, "available", tuple(record.interfaces))

    async def installed(self) -> Sequence[InstallState]:
        return [await self._state(record, None) for record in self._toolset().store.records()]

    async def lock_entries(self) -> Sequence[LockEntry]:
        records = self._toolset().store.records()
        return [
            LockEntry("wasm", r.name, r.digest, tools=sorted(r.interfaces), granted=r.granted)
            for r in records
        ]

    async def _state(self, record: Record, context: JobContext | None) -> InstallState:
        tools = tuple(record.interfaces)
        if record.status == "quarantined":
            return InstallState(record.name, KIND, "quarantined", tools, record.reason)
        listed = {definition.name for definition in self._toolset().definitions()}
        status, notes = "active" if listed >= set(tools) else "installed", []
        if record.missing:
            notes.append(
                f"not granted: {', '.join(record.missing)}; a person grants them with:"
                f" hardpoint wasm grant {record.name}"
            )
        if record.status == "installed":
            status = "installed"
        lacking = await self._lacking(record, context)
        if lacking:
            status = "needs_auth"
            how = (
                f"a person logs in with: hardpoint wasm auth {record.name}"
                if record.capabilities.auth or record.capabilities.setup
                else "; ".join(f"set the secret with: hardpoint secrets set {n}" for n in lacking)
            )
            notes.append(how)
        return InstallState(record.name, KIND, status, tools, "; ".join(notes))

    async def _lacking(self, record: Record, context: JobContext | None) -> list[str]:
        """The secrets that the tool needs and the user does not have, or no longer."""
        if context is None or context.handle is None:
            return []
        capabilities, logins = record.capabilities, self._toolset().logins
        names: dict[str, None] = {}
        if capabilities.http is not None:
            used = capabilities.http.credentials.values()
            names |= dict.fromkeys(c.secret_name for c in used if not c.optional)
        if capabilities.setup is not None:
            wanted = capabilities.setup.secrets
            names |= dict.fromkeys(secret.name for secret in wanted if not secret.optional)
        secrets, user = context.services.secrets, context.user_id
        return [
            name
            for name in names
            if not await secrets.exists(name, user)
            or (logins is not None and await logins.ended(user, name))
        ]


def _short(lines: Sequence[str]) -> str:
    """A stranger's text, in one line without control characters."""
    text = " ".join(" ".join(lines).split())[:500]
    return "".join(c for c in text if c.isprintable())


def read_catalogue(path: Path) -> list[CatalogueEntry]:
    """The entries of a catalogue file: a JSON list of `{name, description, source, sha256}`.

    Raises:
        ConfigError: It cannot be read.
    """
    path = path.expanduser()
    try:
        data: Any = json.loads(path.read_bytes())
        entries = [
            CatalogueEntry(
                item["name"], KIND, item.get("description", ""), item["source"], item.get("sha256")
            )
            for item in data
            if not set(item) - _KEYS or _unknown(item)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"the catalogue {path} cannot be read: {error}") from error
    # A relative source is meant from where the catalogue is.
    return [
        entry
        if entry.source.startswith(("http://", "https://"))
        else attrs.evolve(entry, source=str(path.parent / entry.source))
        for entry in entries
    ]


def _unknown(item: dict[str, Any]) -> bool:
    raise ValueError(f"unknown key {sorted(set(item) - _KEYS)[0]!r}")
