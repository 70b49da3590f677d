"""What the audit says of a call: kind, fields, and whether the record may wait in a batch."""

from __future__ import annotations

from typing import Any, Final

from hardpoint._state import Call
from hardpoint.calls import CallOutcome
from hardpoint.tools import strictest

Fact = tuple[str, dict[str, Any], bool]

# Records of calls without effects may be written in batches; nothing is lost that matters.
HARMLESS: Final = frozenset(("read",))
_NOTHING: Final[dict[str, Any]] = {}


def of_decision(call: Call) -> Fact:
    """What was decided about a call, refusals included."""
    may_wait = HARMLESS.issuperset(call.effects)
    if call.core.recorder.is_idle:
        return "decided", _NOTHING, may_wait
    context, verdict = call.context, call.verdict
    record: dict[str, Any] = {
        "call_id": call.id,
        "tool": call.request.tool,
        "user": context.user_id,
        "session": context.session_id,
        "project": context.project,
        "origin": call.core.origin if context.handle is None else "tool",
        "parent": None if context.handle is None else context.handle.call_id,
        "mode": context.mode,
        "decision": _decision(call),
        "policy": call.judged,
        "requirement": strictest((call.requirement, verdict.requirement)).value,
        "reasons": [reason.to_json() for reason in verdict.reasons],
        "params": call.redacted.params,
        "subjects": [
            {"kind": s.kind, "value": s.value, "operation": s.operation} for s in call.subjects
        ],
        "effects": sorted(call.effects),
    }
    if call.plan is not None:
        record["domain"] = call.plan.domain_name
        record["owner"] = call.plan.entry.owner
    if call.digest is not None:
        record["digest"] = call.digest
    if call.error is not None:
        record["error"] = {"kind": call.error.kind, "message": call.error.message}
    return "decided", record, may_wait


def of_end(call: Call, outcome: CallOutcome) -> Fact:
    """How a call ended."""
    may_wait = HARMLESS.issuperset(call.effects)
    if call.core.recorder.is_idle:
        return "finished", _NOTHING, may_wait
    record: dict[str, Any] = {
        "call_id": call.id,
        "tool": call.request.tool,
        "ok": outcome.ok,
        "duration_ms": round(outcome.duration.total_seconds() * 1000, 3),
        "provenance": outcome.provenance,
        "truncated": outcome.truncated,
    }
    if outcome.output is not None and outcome.output.cost is not None:
        record["cost"] = str(outcome.output.cost)
    if outcome.error is not None:
        record["error"] = {"kind": outcome.error.kind, "message": outcome.error.message}
    return "finished", record, may_wait


def of_cancellation(call: Call, error: BaseException) -> Fact:
    """That a call was cancelled before its end."""
    record = {"call_id": call.id, "tool": call.request.tool, "error": type(error).__name__}
    return "cancelled", record, False


def _decision(call: Call) -> str:
    if call.error is None:
        return call.verdict.decision
    return {"not_authorized": "deny", "approval_required": "ask"}.get(call.error.kind, "refused")
