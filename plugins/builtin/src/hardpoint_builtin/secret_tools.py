"""`secret_list`, `secret_delete`: what a user has stored, by name. No tool shows a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hardpoint import (
    ApprovalRequirement,
    Effect,
    InvalidParameters,
    JobContext,
    Tool,
    ToolOutput,
)
from hardpoint.errors import Issue


class SecretListTool(Tool):
    name = "secret_list"
    description = (
        "List the names of your stored secrets, never their values. A person sets one with "
        "`hardpoint secrets set NAME`; tools that need it use it by themselves."
    )
    provenance = "trusted"

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {},
            "required": [],
            "additionalProperties": False,
        }

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("read",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        found = await ctx.services.secrets.providers(ctx.user_id)
        secrets = [{"name": name, "provider": provider} for name, provider in found]
        return ToolOutput.success({"secrets": secrets, "count": len(secrets)})


class SecretDeleteTool(Tool):
    name = "secret_delete"
    description = "Delete one of your stored secrets for good. What uses it stops working."
    provenance = "trusted"

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "Name of the secret"}},
            "required": ["name"],
            "additionalProperties": False,
        }

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        return ApprovalRequirement.UNLESS_AUTO_APPROVED

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("delete",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        name = params["name"].strip()
        if not name or name.casefold().startswith("system:"):
            raise InvalidParameters(
                f"{name!r} is no secret of yours; secret_list names them",
                issues=[Issue("/name", "invalid_value", "a name from secret_list", repr(name))],
            )
        secrets = ctx.services.secrets
        if await secrets.delete(name, ctx.user_id):
            return ToolOutput.success({"status": "deleted", "name": name})
        known = dict(await secrets.providers(ctx.user_id))
        kept = next((where for key, where in known.items() if key == name.lower()), None)
        message = (
            "secret_list names what there is"
            if kept is None
            else f"it is kept by {kept!r}, where nothing can be deleted from here"
        )
        return ToolOutput.success({"status": "not_found", "name": name, "message": message})
