"""`result_read`: the rest of a result that was cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hardpoint.context import JobContext
from hardpoint.parts import ToolOutput
from hardpoint.tools import Effect, Tool

PAGE_BYTES: Final = 24_576


class ResultReadTool(Tool):
    """Read on in a result that was too long to give at once."""

    name = "result_read"
    description = (
        "Read on in a result that was cut. Give the result_ref and the offset that the notice"
        " named."
    )

    def __init__(self, results: Any, *, page: int = PAGE_BYTES) -> None:
        """Read from these results, at most `page` bytes at a time."""
        self._results = results
        self._page = page

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "result_ref": {"type": "string", "description": "As the notice gave it"},
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "default": 0,
                    "description": "Byte to begin at",
                },
                "max_bytes": {
                    "type": "integer",
                    "minimum": 4,
                    "maximum": self._page,
                    "default": self._page,
                    "description": "How much to read",
                },
            },
            "required": ["result_ref"],
            "additionalProperties": False,
        }

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("read",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        found = await self._results.read(
            params["result_ref"],
            offset=params.get("offset", 0),
            max_bytes=params.get("max_bytes", self._page),
            user=ctx.user_id,
        )
        return ToolOutput.success(found)
