"""Keep what differs from the lock file from being called or shown. Everything else goes on.

Distributions are compared once, tools whenever they are looked up, modules and servers after each
change of the registry, a domain's image at its first call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hardpoint.entries import Entry
from hardpoint.errors import ToolDisabled
from hardpoint.interfaces import ExecutionDomain
from hardpoint.lockfile import LockedThing, LockedTool, Surface, read_lock
from hardpoint.lockfile.compare import (
    distribution_difference,
    thing_difference,
    tool_difference,
)
from hardpoint.lockfile.survey import by_kind, distribution, locked_tool
from hardpoint.plugins import PluginManager
from hardpoint.registry import APPLICATION, ToolRegistry

HINT: Final = "`hardpoint verify` shows the difference; a person accepts it with `hardpoint lock`"


class Guard:
    """One lock file in force."""

    def __init__(self, path: Path, registry: ToolRegistry, plugins: PluginManager) -> None:
        """Raises:
        ConfigError: The file cannot be read.
        """
        self.path = path
        self._locked: Surface = read_lock(path)
        self._registry = registry
        self._plugins = plugins
        self._owners: dict[str, str | None] = {}
        self._seen: dict[str, tuple[Entry, str | None]] = {}
        self._things: dict[str, str] = {}
        self._domains: dict[int, str | None] = {}
        self._version = -1

    def reason(self, entry: Entry) -> str | None:
        """Why a tool must not be called; None when it is as it was written down."""
        if entry.owner == APPLICATION:
            return None
        known = self._seen.get(entry.name)
        if known is None or known[0] is not entry:
            known = self._seen[entry.name] = (entry, self._own_reason(entry))
        return known[1] or self._things.get(entry.name)

    async def refuse(self, entry: Entry, domain: ExecutionDomain | None) -> None:
        """Refuse a tool that differs.

        Raises:
            ToolDisabled: It does; the message says how.
        """
        if entry.owner == APPLICATION:
            return
        if self._version != self._registry.version:
            await self._look_again()
        reason = self.reason(entry)
        if reason is None and domain is not None:
            reason = await self._domain_reason(domain)
        if reason is not None:
            raise ToolDisabled(
                f"{entry.name!r} is quarantined: it is not as {self.path.name} says: {reason}",
                hint=HINT,
            )

    async def _look_again(self) -> None:
        version = self._registry.version
        entries = []
        for installer in self._plugins.extension("installer").values():
            entries += await installer.lock_entries()
        found: dict[str, str] = {}
        for kind, things in by_kind(entries).items():
            for name, thing in things.items():
                difference = self._difference(kind, name, thing)
                if difference is not None:
                    locked = self._locked.things.get(kind, {}).get(name)
                    for tool in {*thing.tools, *(locked.tools if locked else ())}:
                        found.setdefault(tool, difference)
        self._things, self._version = found, version

    async def _domain_reason(self, domain: ExecutionDomain) -> str | None:
        key = id(domain)
        if key not in self._domains:
            found: str | None = None
            for kind, things in by_kind(await domain.lock_entries()).items():
                for name, thing in things.items():
                    found = found or self._difference(kind, name, thing)
            self._domains[key] = found
        return self._domains[key]

    def _difference(self, kind: str, name: str, now: LockedThing) -> str | None:
        locked = self._locked.things.get(kind, {}).get(name)
        if locked is None:
            return f"{kind} {name} is not in it"
        detail = thing_difference(locked, now)
        return None if detail is None else f"{kind} {name}: {detail}"

    def _own_reason(self, entry: Entry) -> str | None:
        locked: LockedTool | None = self._locked.tools.get(entry.name)
        if locked is None:
            return "it is not in it"
        detail = tool_difference(locked, locked_tool(entry))
        return detail if detail is not None else self._owner_reason(entry.owner)

    def _owner_reason(self, owner: str) -> str | None:
        if owner not in self._owners:
            now = distribution(owner)
            locked = self._locked.distributions.get(owner)
            detail = distribution_difference(locked, now)
            self._owners[owner] = None if detail is None else f"{owner}: {detail}"
        return self._owners[owner]
