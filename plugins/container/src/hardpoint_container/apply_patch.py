"""`apply_patch`: replace exact texts in a file of the workspace."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from hardpoint import ApprovalRequirement, JobContext, ToolOutput, ToolRateLimitConfig
from hardpoint.errors import InvalidParameters
from hardpoint_container.patching import Edit, apply_edits
from hardpoint_container.paths import Operation
from hardpoint_container.tooling import KIB, PathTool, boolean, sandbox_of, schema, string

PATCH_BYTES: Final = 10 * KIB * KIB
EDITS: Final = 256


class ApplyPatchTool(PathTool):
    """Replace exact texts in one file."""

    name = "apply_patch"
    subject_kind = "path"
    description = (
        "Change a file of the workspace: replace old_string by new_string. old_string must be in"
        " the file exactly once, unless replace_all is true. Several changes go into edits; either"
        " all are made or none."
    )
    operation: ClassVar[Operation] = "write"
    needs = frozenset({"read", "write"})

    def parameters_schema(self) -> dict[str, Any]:
        edit = schema(
            "old_string new_string",
            old_string=string("The text to replace, exactly as it is in the file."),
            new_string=string("The text to put in its place."),
            replace_all=boolean("Replace every match.", default=False),
        )
        return schema(
            "path",
            path=string("Path of the file, relative to the workspace."),
            old_string=string("The text to replace, exactly as it is in the file."),
            new_string=string("The text to put in its place."),
            replace_all=boolean("Replace every match.", default=False),
            edits={
                "type": "array",
                "description": "Several changes, in place of old_string and new_string.",
                "items": edit,
                "minItems": 1,
                "maxItems": EDITS,
            },
        )

    def output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "replacements": {"type": "integer"},
                "success": {"type": "boolean"},
                "diff": {"type": "string"},
            },
            "required": ["path", "replacements", "success"],
        }

    def requires_approval(self, params: Any) -> ApprovalRequirement:
        return ApprovalRequirement.UNLESS_AUTO_APPROVED

    def rate_limit_config(self) -> ToolRateLimitConfig:
        return ToolRateLimitConfig(20, 200)

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        path, edits = params["path"], edits_of(params)
        sandbox = sandbox_of(ctx)
        data, digest = await sandbox.read_whole(path, PATCH_BYTES)
        patched = apply_edits(data, edits, path)
        if len(patched.data) > PATCH_BYTES:
            raise InvalidParameters(
                f"the file would have {len(patched.data)} bytes, more than the {PATCH_BYTES}"
                " that can be patched"
            )
        await sandbox.replace(path, patched.data, expect=digest)
        return ToolOutput.success(
            {
                "path": path,
                "replacements": patched.replacements,
                "success": True,
                "diff": patched.preview,
            }
        )


def edits_of(params: dict[str, Any]) -> list[Edit]:
    """The edits of a call, from either form.

    Raises:
        InvalidParameters: Neither form is there, or both.
    """
    single = [name for name in ("old_string", "new_string") if name in params]
    if "edits" in params:
        if single:
            raise InvalidParameters("give either edits, or old_string and new_string")
        return [
            Edit(edit["old_string"], edit["new_string"], edit.get("replace_all", False))
            for edit in params["edits"]
        ]
    if len(single) < 2:
        raise InvalidParameters("old_string and new_string are both needed, or edits")
    return [Edit(params["old_string"], params["new_string"], params.get("replace_all", False))]
