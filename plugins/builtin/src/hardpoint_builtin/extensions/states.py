"""How far each extension is, over all installers and catalogues, as tools answer it.

The states are `available`, `installed`, `needs_auth`, `active` and `quarantined`. Each comes with
the call that leads on: search, install, log in, activate, use.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from hardpoint.errors import ExecutionFailed, HardpointError, InvalidParameters
from hardpoint.interfaces import CatalogueEntry, Installer, InstallState
from hardpoint_builtin.extensions import sources
from hardpoint_builtin.extensions.catalogue import PIP_PLUGIN
from hardpoint_builtin.extensions.records import Record, Records

logger = logging.getLogger(__name__)

Described = dict[str, Any]


# what the other tools of this plugin ask --------------------------------------------------------


async def search_catalogues(services: Any, query: str, limit: int = 10) -> Described:
    """The extensions that fit a query, installed or not; addresses are fetched when not fresh.

    Returns:
        `results` (each with `name`, `kind`, `description`, `status`, `next` …), `searched_online`,
        and `problems` with what could not be read.
    """
    found = await _with_installers(services, await sources.refresh(services))
    ranked = sources.rank(found.entries, query)[:limit]
    states = {(s.kind, s.name): s for s in await installed(services)}
    records = Records(services).all()
    results = []
    for entry in ranked:
        key = (entry.kind, entry.name)
        state = states.get(key, InstallState(entry.name, entry.kind, "available"))
        results.append(describe(services, state, entry, records.get(key)))
    return {
        "results": results,
        "searched_online": found.searched_online,
        "problems": list(found.problems),
    }


async def list_extensions(
    services: Any, kind: str | None = None, *, include_available: bool = False
) -> list[Described]:
    """The installed extensions, and on request what the known catalogues have beside them."""
    entries = {(e.kind, e.name): e for e in (await known(services)).entries}
    states = {(s.kind, s.name): s for s in await installed(services)}
    if include_available:
        for key, entry in entries.items():
            states.setdefault(key, InstallState(entry.name, entry.kind, "available"))
    records = Records(services).all()
    return [
        describe(services, states[key], entries.get(key), records.get(key))
        for key in sorted(states)
        if kind in (None, key[0])
    ]


async def known(services: Any) -> sources.Found:
    """What can be installed as far as this machine knows it; asks no network."""
    import asyncio

    return await _with_installers(services, await asyncio.to_thread(sources.known, services))


async def _with_installers(services: Any, found: sources.Found) -> sources.Found:
    """The entries of the catalogues, then those that installers know by themselves."""
    entries = {(e.kind, e.name): e for e in found.entries}
    problems = list(found.problems)
    for installer in installers(services).values():
        try:
            for entry in await installer.find(""):
                entries.setdefault((entry.kind, entry.name), entry)
        except HardpointError as error:
            problems.append(error.message)
    return attrs.evolve(found, entries=tuple(entries.values()), problems=tuple(problems))


# installers and their states -------------------------------------------------------------------


def installers(services: Any) -> Mapping[str, Installer]:
    """The installers by the kind that they install."""
    return {each.kind: each for each in services.extensions("installer").values()}


def installer_for(services: Any, kind: str) -> Installer:
    """The installer of a kind.

    Raises:
        ExecutionFailed: No plugin brings one.
    """
    there = installers(services)
    if kind not in there:
        kinds = ", ".join(sorted(there)) or "nothing"
        raise ExecutionFailed(
            f"no plugin here installs a {kind}; what can be installed is: {kinds}",
            hint=f"a person can: pip install hardpoint-{kind.partition('_')[0]}",
        )
    return there[kind]


async def installed(services: Any) -> Sequence[InstallState]:
    """The states of everything that is installed; a broken installer hides only its own."""
    states: list[InstallState] = []
    for kind, installer in installers(services).items():
        try:
            states += await installer.installed()
        except HardpointError as error:
            logger.warning("the extensions of kind %s cannot be listed: %s", kind, error)
    return states


async def find_installed(services: Any, name: str, kind: str | None = None) -> InstallState:
    """The one installed extension of a name.

    Raises:
        InvalidParameters: There is none, or one of each of several kinds.
    """
    states = await installed(services)
    fitting = [s for s in states if s.name == name and kind in (None, s.kind)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        kinds = " or ".join(sorted(state.kind for state in fitting))
        raise InvalidParameters(f"there are several extensions {name!r}; say kind {kinds}")
    near = difflib.get_close_matches(name, [state.name for state in states], n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    hint = f'find it with tool_search(query="{name}", discover=true), then tool_install'
    raise InvalidParameters(f"no extension {name!r} is installed{meant}", hint=hint)


# in words --------------------------------------------------------------------------------------


def describe(
    services: Any,
    state: InstallState,
    entry: CatalogueEntry | None = None,
    record: Record | None = None,
) -> Described:
    """A state as tools answer it, with the call that leads on."""
    state = _under_lock(services, state)
    told: Described = {"name": state.name, "kind": state.kind, "status": state.status}
    if entry is not None:
        told["description"] = entry.description
        told["catalogue"] = entry.catalogue or None
        told["available_version"] = entry.version or None
    if record is not None:
        told["version"] = record.version or None
        told["sha256"] = record.sha256 or None
        if entry is not None and entry.fingerprint != record.fingerprint:
            told["outdated"] = True
    if state.tools:
        told["tools"] = list(state.tools)
    if state.detail:
        told["detail"] = state.detail
    if entry is not None and entry.kind == PIP_PLUGIN:
        told["status"] = "available"
        told["detail"] = for_a_person(entry)
        return told
    told["next"] = next_step(state)
    return told


def for_a_person(entry: CatalogueEntry) -> str:
    """How a person installs a plugin, which is trusted code."""
    pin = f"=={entry.version}" if entry.version else ""
    package = f"{entry.extra['package']}{pin}"
    return f"only a person installs a plugin: hardpoint plugins install {package}"


def next_step(state: InstallState) -> str:
    """What to do after a state is reached."""
    name = state.name
    match state.status:
        case "available":
            return f'tool_install(name="{name}")'
        case "installed":
            return f'tool_activate(name="{name}")'
        case "needs_auth":
            return f'tool_auth(name="{name}")'
        case "active":
            return f"call {state.tools[0]}" if state.tools else "its tools can be called"
    return "a person has to look at it; do not try again"


def _under_lock(services: Any, state: InstallState) -> InstallState:
    """Active tools that the lock file does not know as they are cannot be called."""
    reasons = [services.quarantined(tool) for tool in state.tools]
    if state.status != "active" or not reasons or not all(reasons):
        return state
    return InstallState(state.name, state.kind, "quarantined", state.tools, str(reasons[0]))
