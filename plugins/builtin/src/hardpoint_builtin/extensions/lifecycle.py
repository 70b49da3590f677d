"""`tool_auth`, `tool_activate`, `tool_remove`, `extension_info`: what happens after installing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hardpoint import ApprovalRequirement, Effect, JobContext, Tool, ToolOutput
from hardpoint.errors import ExternalService, InvalidParameters
from hardpoint.interfaces import InstallState
from hardpoint_builtin.extensions import sources
from hardpoint_builtin.extensions.install import KIND, NAME
from hardpoint_builtin.extensions.records import Records
from hardpoint_builtin.extensions.states import (
    describe,
    find_installed,
    installer_for,
    known,
    next_step,
)


class _OfOne(Tool):
    """A tool about one extension."""

    needs: ApprovalRequirement = ApprovalRequirement.NEVER
    does: frozenset[Effect] = frozenset(("read",))

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "name": {**NAME, "description": "The extension's name."},
                "kind": KIND,
            },
            "required": ["name"],
            "additionalProperties": False,
        }

    def approval_requirement(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        return self.needs

    def effects(self, params: Mapping[str, Any]) -> Collection[Effect]:
        return self.does

    async def described(self, state: InstallState, services: Any) -> dict[str, Any]:
        """A state with what catalogue and records say about the extension."""
        entries = sources.matches(await known(services), state.name, state.kind)
        record = Records(services).all().get((state.kind, state.name))
        return describe(services, state, entries[0] if entries else None, record)


class ToolAuthTool(_OfOne):
    """Log in to an extension's service."""

    name = "tool_auth"
    description = (
        "Begin or check the login of an installed extension. Secrets never pass through here:"
        " the answer says what a person does. When nothing is missing it is activated at once."
    )
    needs = ApprovalRequirement.UNLESS_AUTO_APPROVED
    does = frozenset(("network", "write"))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        services = ctx.services
        before = await find_installed(services, params["name"], params.get("kind"))
        installer = installer_for(services, before.kind)
        state = await installer.authenticate(before.name, ctx)
        needed = before.status == "needs_auth"
        if state.status == "installed":
            state = await installer.activate(before.name, ctx)
        waiting = state.status == "needs_auth"
        if not waiting:
            status = "authenticated" if needed else "no_auth_required"
        else:
            status = "awaiting_authorization" if state.auth_url else "needs_setup"
        return ToolOutput.success(
            {
                "name": state.name,
                "kind": state.kind,
                "status": status,
                "auth_url": state.auth_url,
                "callback_type": "browser" if state.auth_url else None,
                "instructions": state.detail if waiting else None,
                "setup_url": None,
                # No model is ever handed a token.
                "awaiting_token": False,
                "extension_status": state.status,
                "next": f'tool_activate(name="{state.name}") when that is done'
                if waiting
                else next_step(state),
            }
        )


class ToolActivateTool(_OfOne):
    """Make an installed extension's tools callable."""

    name = "tool_activate"
    description = (
        "Make the tools of an installed extension callable, without a restart. Doing it twice is no"
        " error. The answer names the tools, or what is still missing."
    )
    does = frozenset(("network", "write", "process"))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        services = ctx.services
        before = await find_installed(services, params["name"], params.get("kind"))
        installer = installer_for(services, before.kind)
        try:
            state = await installer.activate(before.name, ctx)
        except ExternalService as error:
            if not _is_about_login(error):
                raise
            state = InstallState(before.name, before.kind, "needs_auth", detail=str(error))
        return ToolOutput.success(await self.described(state, services))


class ToolRemoveTool(_OfOne):
    """Remove an extension."""

    name = "tool_remove"
    description = "Remove an installed extension and its tools. A person is always asked."
    needs = ApprovalRequirement.ALWAYS
    does = frozenset(("delete", "write"))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        services = ctx.services
        before = await find_installed(services, params["name"], params.get("kind"))
        await installer_for(services, before.kind).remove(before.name, ctx)
        Records(services).remove(before.kind, before.name)
        return ToolOutput.success(
            {
                "name": before.name,
                "kind": before.kind,
                "status": "available",
                "message": f"{before.name} is removed",
                "removed_tools": list(before.tools),
            }
        )


class ExtensionInfoTool(_OfOne):
    """Everything about one extension."""

    name = "extension_info"
    description = (
        "Say everything about an extension: whether it is available, installed, waiting for a"
        " login, active or quarantined, its version, source, hash and tools, and what to do next."
    )

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        services = ctx.services
        name, kind = params["name"], params.get("kind")
        entries = sources.matches(await known(services), name, kind)
        try:
            state = await find_installed(services, name, kind)
        except InvalidParameters:
            if len(entries) != 1:
                raise
            state = InstallState(name, entries[0].kind, "available")
        told = await self.described(state, services)
        for entry in entries:
            if entry.kind == state.kind:
                told["source"] = entry.source or None
                told["catalogue_sha256"] = entry.sha256
                told |= {k: v for k, v in entry.extra.items() if k not in told}
        return ToolOutput.success(told)


def _is_about_login(error: ExternalService) -> bool:
    text = f"{error.message} {error.hint or ''}".lower()
    return any(word in text for word in ("401", "unauthorized", "log in", "login"))
