"""One call as data: what was asked for and how it ended. Who asked is in `context`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import attrs

from hardpoint.errors import (
    ApprovalRequired,
    InvalidParameters,
    NotAuthorized,
    RateLimited,
    ToolError,
)
from hardpoint.model_text import render_error, render_result
from hardpoint.parts import Provenance, ToolOutput, part_to_json

# the call --------------------------------------------------------------------------------------


@attrs.frozen
class ToolCall:
    """A request to run one tool."""

    tool: str
    params: dict[str, Any] = attrs.field(factory=dict)
    id: str = ""
    """Unique in this process; the runtime makes one when it is empty."""


def canonical_json(value: Any) -> str:
    """One spelling for equal JSON values: sorted keys, no blanks, ASCII. NaN is a ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def call_digest(tool: str, definition_hash: str, params: Any, domain: str, user_id: str) -> str:
    """What an approval belongs to: a hash of tool, definition, arguments, domain and user."""
    parts = [tool, definition_hash, canonical_json(params), domain, user_id]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


# how it ended ----------------------------------------------------------------------------------


@attrs.frozen
class CallOutcome:
    """How one call ended. Exactly one of `output` and `error` is there."""

    tool: str
    call_id: str
    output: ToolOutput | None = None
    error: ToolError | None = None
    duration: timedelta = timedelta(0)
    provenance: Provenance = "untrusted"
    truncated: bool = False
    result_ref: str | None = None
    """Where the whole result can be read when it was cut: `result_read(result_ref=…)`."""
    warnings: tuple[str, ...] = ()
    decision: Mapping[str, Any] | None = None
    """Why the call was allowed, asked about or denied."""
    partial: ToolOutput | None = None
    """What a cut-short call gave out before its end."""
    digest: str | None = None
    title: str | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def result(self) -> Any:
        return self.output.result if self.output is not None else None

    def unwrap(self) -> ToolOutput:
        """The output.

        Raises:
            ToolError: The error of a failed call.
        """
        if self.error is not None:
            raise self.error
        assert self.output is not None
        return self.output

    def to_model_text(self) -> str:
        """The outcome as text for a model: escaped and wrapped by provenance, errors actionable."""
        if self.error is not None:
            text = render_error(self.tool, self.error, notices=self.warnings)
            if self.partial is not None:
                text += "\nOutput before it stopped:\n" + render_result(
                    self.tool, self.partial.result, self.partial.parts, provenance=self.provenance
                )
            return text
        assert self.output is not None
        return render_result(
            self.tool,
            self.output.result,
            self.output.parts,
            provenance=self.provenance,
            notices=self.warnings,
        )

    def to_json(self) -> dict[str, Any]:
        """The shape of `hardpoint call --json`."""
        head: dict[str, Any] = {"ok": self.ok, "tool": self.tool, "call_id": self.call_id}
        if self.error is not None:
            return head | {"error": error_to_json(self.error)} | self._partial_json()
        assert self.output is not None
        cost = self.output.cost
        body: dict[str, Any] = {
            "result": self.output.result,
            "cost": None if cost is None else str(cost),
            "duration_ms": round(self.duration.total_seconds() * 1000, 3),
            "truncated": self.truncated,
            "result_ref": self.result_ref,
            "warnings": list(self.warnings),
        }
        return head | body | self._parts_json(self.output)

    def _partial_json(self) -> dict[str, Any]:
        if self.partial is None:
            return {}
        return {"partial": {"result": self.partial.result} | self._parts_json(self.partial)}

    @staticmethod
    def _parts_json(output: ToolOutput) -> dict[str, Any]:
        if not output.parts:
            return {}
        return {"parts": [part_to_json(part) for part in output.parts]}


def error_to_json(error: ToolError) -> dict[str, Any]:
    """An error in the shape of `hardpoint call --json`."""
    retry_after = error.retry_after if isinstance(error, RateLimited) else None
    issues = error.issues if isinstance(error, InvalidParameters) else ()
    decision = error.decision if isinstance(error, NotAuthorized | ApprovalRequired) else None
    return {
        "kind": error.kind,
        "message": error.message,
        "hint": error.hint,
        "issues": [attrs.asdict(issue) for issue in issues],
        "retry_after": None if retry_after is None else retry_after.total_seconds(),
        "approval_id": error.approval_id if isinstance(error, ApprovalRequired) else None,
        "decision": decision,
    }
