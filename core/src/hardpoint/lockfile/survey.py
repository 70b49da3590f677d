"""Say what the surface is now: installed distributions, registered tools, and what plugins tell."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hardpoint.calls import canonical_json
from hardpoint.entries import Entry
from hardpoint.errors import HardpointError
from hardpoint.interfaces import LockEntry
from hardpoint.lockfile import LockedDistribution, LockedThing, LockedTool, Surface
from hardpoint.plugins import PluginManager
from hardpoint.registry import APPLICATION, ToolRegistry

CORE: Final = "hardpoint"

# Written by whoever installs, and different on every machine.
_LOCAL: Final = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")


async def survey(registry: ToolRegistry, plugins: PluginManager) -> tuple[Surface, Sequence[str]]:
    """Everything there is, and what could not tell what it is made of.

    What the host program registers itself is its own code and not in it.
    """
    things: list[LockEntry] = []
    silent: list[str] = []
    sources = {f"{kind} extensions": i for kind, i in plugins.extension("installer").items()}
    sources |= {f"domain {name}": owned.value for name, owned in plugins.domains.items()}
    for what, source in sorted(sources.items()):
        try:
            things += await source.lock_entries()
        except HardpointError as error:
            silent.append(f"{what}: {error.message}")
    surface = Surface(
        {name: made for name in owners(plugins) if (made := distribution(name)) is not None},
        {e.name: locked_tool(e) for e in registry.entries() if e.owner != APPLICATION},
        by_kind(things),
    )
    return surface, silent


def by_kind(entries: Iterable[LockEntry]) -> dict[str, dict[str, LockedThing]]:
    found: dict[str, dict[str, LockedThing]] = {}
    for each in entries:
        thing = LockedThing(each.digest, tuple(sorted(each.granted)), tuple(sorted(each.tools)))
        found.setdefault(each.kind, {})[each.name] = thing
    return found


def locked_tool(entry: Entry) -> LockedTool:
    definition = entry.definition
    return LockedTool(
        owner=definition.owner or entry.owner,
        definition=definition.hash,
        description=_hash(definition.description),
        parameters=_hash(canonical_json(definition.parameters)),
    )


# distributions ---------------------------------------------------------------------------------


def owners(plugins: PluginManager) -> Sequence[str]:
    """The distributions that bring something: the core and the active plugins."""
    active = (r.distribution for r in plugins.records.values() if r.status == "active")
    return sorted({CORE, *(name for name in active if name is not None)})


def distribution(name: str) -> LockedDistribution | None:
    """An installed distribution; None when it has none of this name.

    Two environments with the same wheel give the same.
    """
    found = _find(name)
    if found is None:
        return None
    if _is_editable(found):
        return LockedDistribution(found.version, editable=True)
    rows = sorted(f"{path} {digest}" for path, digest in _recorded(found))
    return LockedDistribution(found.version, _hash("\n".join(rows)))


def changed_files(name: str) -> Sequence[str]:
    """The files of a distribution that are not as they were installed."""
    found = _find(name)
    if found is None or _is_editable(found):
        return []
    return [
        path
        for path, digest in _recorded(found)
        if _file_hash(Path(str(found.locate_file(path))), digest.partition("=")[0]) != digest
    ]


def _find(name: str) -> Any:
    from importlib_metadata import PackageNotFoundError
    from importlib_metadata import distribution as find

    try:
        return find(name)
    except PackageNotFoundError:
        return None


def _is_editable(found: Any) -> bool:
    try:
        told: Mapping[str, Any] = json.loads(found.read_text("direct_url.json") or "{}")
        return bool(told.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False


def _recorded(found: Any) -> Iterator[tuple[str, str]]:
    """Path and hash of each file that came out of the wheel."""
    for row in csv.reader((found.read_text("RECORD") or "").splitlines()):
        if len(row) != 3 or not row[1]:
            continue
        path = row[0]
        folder, _, file = path.rpartition("/")
        # Scripts are written at installation, with the path of the interpreter in them.
        if path.startswith("..") or (folder.endswith(".dist-info") and file in _LOCAL):
            continue
        yield path, row[1]


def _file_hash(path: Path, algorithm: str) -> str:
    try:
        digest = hashlib.new(algorithm, path.read_bytes()).digest()
    except (OSError, ValueError):
        return ""
    return f"{algorithm}={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def ask_again(plugins: PluginManager) -> Sequence[str]:
    """Let installers look at what they only remember; what could not be asked."""
    failures: list[str] = []
    for kind, installer in plugins.extension("installer").items():
        try:
            failures += await installer.refresh()
        except HardpointError as error:
            failures.append(f"{kind}: {error.message}")
    return failures
