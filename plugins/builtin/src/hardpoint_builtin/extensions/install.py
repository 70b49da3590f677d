"""`tool_install` and `tool_upgrade`: what a person approved is exactly what is installed.

Both turn a name into one catalogue entry before anybody is asked, and put the entry's hashes into
the arguments that are shown and approved. They read only what the last search has fetched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import attrs

from hardpoint import ApprovalRequirement, Canonical, Effect, JobContext, Tool, ToolOutput
from hardpoint.errors import InvalidParameters, NotAuthorized
from hardpoint.interfaces import CatalogueEntry, InstallState
from hardpoint_builtin.extensions import sources
from hardpoint_builtin.extensions.catalogue import PIP_PLUGIN
from hardpoint_builtin.extensions.records import Records
from hardpoint_builtin.extensions.states import describe, for_a_person, installer_for, known

TIMEOUT = timedelta(minutes=5)
NAME = {"type": "string", "minLength": 1, "maxLength": 64}
KIND = {
    "type": "string",
    "description": "mcp_server, wasm_tool, or what another installer brings;"
    " needed when several kinds have that name.",
}


class _Installing(Tool):
    """What both have in common."""

    def approval_requirement(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        return ApprovalRequirement.ALWAYS

    def effects(self, params: Mapping[str, Any]) -> Collection[Effect]:
        return ("network", "write", "process")

    def execution_timeout(self) -> timedelta:
        return TIMEOUT


class ToolInstallTool(_Installing):
    """Install one entry of a catalogue."""

    name = "tool_install"
    description = (
        "Install an extension (a WebAssembly tool or an MCP server) from the configured catalogues."
        " A person is always asked. First find it: tool_search(query, discover=true);"
        " afterwards: tool_auth if it needs a login, then tool_activate."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "name": {**NAME, "description": "The name, as tool_search gives it."},
                "kind": KIND,
                "url": {
                    "type": "string",
                    "description": "Its source; only to choose among catalogue entries.",
                },
                "sha256": {"type": "string", "description": "The hash that it must have."},
                "fingerprint": {
                    "type": "string",
                    "description": "The hash of the whole catalogue entry; filled in.",
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        }

    async def canonicalise(self, params: dict[str, Any], context: JobContext) -> Canonical:
        entry = _choose(await known(context.services), params)
        made = {"name": entry.name, "kind": entry.kind, "url": entry.source or _address(entry)}
        if entry.sha256 is not None:
            made["sha256"] = entry.sha256
        return Canonical({**made, "fingerprint": entry.fingerprint})

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        services = ctx.services
        entry = _choose(await known(services), params)
        state = await installer_for(services, entry.kind).install(entry, ctx)
        records = Records(services)
        records.put(entry)
        told = describe(services, state, entry, records.all()[entry.kind, entry.name])
        return ToolOutput.success({**told, "message": _message(state, "installed")})


class ToolUpgradeTool(_Installing):
    """Replace installed extensions by what the catalogues have now."""

    name = "tool_upgrade"
    description = (
        "Upgrade an installed extension, or without a name all of them, to what the catalogues have"
        " now. A person is always asked. Look for new versions first:"
        " tool_search(query, discover=true)."
    )

    def parameters_schema(self) -> dict[str, Any]:
        upgrade = {"type": "object", "additionalProperties": {"type": "string"}}
        return {
            "type": "object",
            "properties": {
                "name": {**NAME, "description": "Which one; all outdated ones when absent."},
                "kind": KIND,
                "upgrades": {"type": "array", "items": upgrade, "description": "Filled in."},
            },
            "additionalProperties": False,
        }

    async def canonicalise(self, params: dict[str, Any], context: JobContext) -> Canonical:
        outdated = await _outdated(context.services, params)
        made: dict[str, Any] = {k: params[k] for k in ("name", "kind") if k in params}
        return Canonical({**made, "upgrades": [_shown(entry) for entry in outdated]})

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        services = ctx.services
        records = Records(services)
        outdated = await _outdated(services, params)
        if [_shown(entry) for entry in outdated] != params.get("upgrades", []):
            raise NotAuthorized("the catalogues changed since this was approved; call again")
        results = []
        for entry in outdated:
            state = await installer_for(services, entry.kind).upgrade(entry, ctx)
            records.put(entry)
            told = describe(services, state, entry, records.all()[entry.kind, entry.name])
            results.append({**told, "message": _message(state, "upgraded")})
        if not results:
            return ToolOutput.success({"upgraded": [], "message": "everything is up to date"})
        return ToolOutput.success({"upgraded": results})


# choosing --------------------------------------------------------------------------------------


def _choose(found: sources.Found, params: Mapping[str, Any]) -> CatalogueEntry:
    """The one entry that is meant.

    Raises:
        InvalidParameters: There is none, or several.
        NotAuthorized: It is not what was expected, or not for a model to install.
    """
    name = params["name"]
    entries = [
        entry
        for entry in sources.matches(found, name, params.get("kind"))
        if params.get("url") in (None, "", entry.source, _address(entry))
    ]
    if not entries:
        hint = f'look it up first: tool_search(query="{name}", discover=true)'
        if params.get("url"):
            hint += "; what is in no catalogue can only be added by a person"
        why = f" ({'; '.join(found.problems[:3])})" if found.problems else ""
        raise InvalidParameters(f"no known catalogue has an extension {name!r}{why}", hint=hint)
    if len(entries) > 1:
        kinds = " or ".join(sorted(entry.kind for entry in entries))
        raise InvalidParameters(f"there are several extensions {name!r}; say kind {kinds}")
    entry = entries[0]
    if entry.kind == PIP_PLUGIN:
        raise NotAuthorized(
            f"{name!r} is a plugin, which is trusted code", hint=for_a_person(entry)
        )
    for key, has in (("sha256", entry.sha256), ("fingerprint", entry.fingerprint)):
        expected = str(params.get(key) or has or "").lower().removeprefix("sha256:")
        if expected != (has or ""):
            raise NotAuthorized(
                f"the catalogue entry {name!r} is not the expected one: its {key} is {has}",
                hint="look at it again with tool_search(discover=true)",
            )
    return entry


async def _outdated(services: Any, params: Mapping[str, Any]) -> Sequence[CatalogueEntry]:
    """The entries that differ from what was installed of them.

    Raises:
        InvalidParameters: The named extension was not installed by `tool_install`.
    """
    name, kind = params.get("name"), params.get("kind")
    records = {
        key: record
        for key, record in Records(services).all().items()
        if name in (None, key[1]) and kind in (None, key[0])
    }
    if name is not None and not records:
        raise InvalidParameters(
            f"{name!r} was not installed by tool_install", hint="a person upgrades what they added"
        )
    entries = {(e.kind, e.name): e for e in (await known(services)).entries}
    return [
        entries[key]
        for key, record in sorted(records.items())
        if key in entries and entries[key].fingerprint != record.fingerprint
    ]


def _address(entry: CatalogueEntry) -> str:
    return str(entry.extra.get("url", ""))


def _shown(entry: CatalogueEntry) -> dict[str, str]:
    shown = attrs.asdict(entry, filter=lambda field, _: field.name in ("name", "kind", "version"))
    shown |= {"url": entry.source or _address(entry), "fingerprint": entry.fingerprint}
    return {**shown, **({"sha256": entry.sha256} if entry.sha256 else {})}


def _message(state: InstallState, done: str) -> str:
    return {
        "needs_auth": f"{state.name} is {done}; it needs a login before it works",
        "active": f"{state.name} is {done} and its tools can be called",
        "quarantined": f"{state.name} is {done} but quarantined: {state.detail}",
    }.get(state.status, f"{state.name} is {done}; it is not active yet")
