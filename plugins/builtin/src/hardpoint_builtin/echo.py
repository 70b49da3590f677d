"""`echo`: give the message back. The smallest tool there is; good for trying a set-up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hardpoint import JobContext, Tool, ToolOutput


class EchoTool(Tool):
    """Give the message back."""

    name = "echo"
    description = "Echo back the input message. Useful for testing."

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"message": {"type": "string", "description": "Message to echo"}},
            "required": ["message"],
            "additionalProperties": False,
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        return ToolOutput.text(params["message"])

    def effects(self, params: Mapping[str, Any]) -> frozenset[Any]:
        return frozenset()

    def requires_sanitization(self) -> bool:
        return False
