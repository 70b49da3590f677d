"""What the audit says of a call."""

from __future__ import annotations

from typing import Any, Final

from hardpoint._record import Fact, Shared
from hardpoint._state import Call
from hardpoint.calls import CallOutcome
from hardpoint.tools import ApprovalRequirement, strictest

# Records of calls without effects may be written in batches; nothing is lost that matters.
HARMLESS: Final = frozenset(("read",))
NOTHING: Final = Fact("nothing", {})


def of_decision(call: Call) -> Fact:
    """What was decided about a call, refusals included."""
    if call.core.recorder.is_idle:
        return NOTHING
    own: dict[str, Any] = {"call_id": call.id, "params": call.redacted_params}
    if call.subjects:
        own["subjects"] = [
            {"kind": s.kind, "value": s.value, "operation": s.operation} for s in call.subjects
        ]
    if call.digest is not None:
        own["digest"] = call.digest
    if call.error is not None:
        own["error"] = {"kind": call.error.kind, "message": call.error.message}
    return Fact("decided", own, HARMLESS.issuperset(call.effects), _shared(call))


def _shared(call: Call) -> Shared:
    """What a caller's calls of one tool have in common; kept with the plan until it changes."""
    plan = call.plan
    if plan is None or call.error is not None:
        return Shared(_shared_facts(call))
    key = (call.verdict, call.judged, call.requirement, call.imposed, call.effects, call.seen)
    known = plan.recorded
    if known is None or known[0] is not call.context or known[1] != key:
        known = plan.recorded = (call.context, key, Shared(_shared_facts(call)))
    return known[2]


def _shared_facts(call: Call) -> dict[str, Any]:
    context, verdict = call.context, call.verdict
    facts: dict[str, Any] = {
        "tool": call.request.tool,
        "user": context.user_id,
        "session": context.session_id,
        "project": context.project,
        "origin": call.root_origin if context.handle is None else "tool",
        "parent": None if context.handle is None else context.handle.call_id,
        "mode": context.mode,
        "rights": _rights(call),
        "decision": _decision(call),
        "policy": call.judged,
        "requirement": strictest((call.requirement, verdict.requirement)).value,
        "reasons": [reason.to_json() for reason in verdict.reasons],
        "effects": sorted(call.effects),
    }
    if call.plan is not None:
        facts["domain"] = call.plan.domain_name
        facts["owner"] = call.plan.entry.owner
    return facts


def _rights(call: Call) -> dict[str, Any]:
    """What the verdict depended on beside the call itself, so that it can be judged again."""
    context = call.context
    rights: dict[str, Any] = {}
    if context.auto_approve:
        auto = context.auto_approve
        rights["auto_approve"] = auto if isinstance(auto, bool) else sorted(auto)
    if context.autonomous:
        rights["autonomous"] = True
        rights["allowed"] = call.request.tool in context.allowed_tools
    if call.imposed is not ApprovalRequirement.NEVER:
        rights["imposed"] = call.imposed.value
    if context.handle is not None:
        rights["root"] = call.root_origin
    if call.seen:
        rights["seen"] = sorted(call.seen)
    return rights


def of_end(call: Call, outcome: CallOutcome) -> Fact:
    """How a call ended."""
    if call.core.recorder.is_idle:
        return NOTHING
    own: dict[str, Any] = {
        "call_id": call.id,
        "tool": call.request.tool,
        "ok": outcome.ok,
        "duration_ms": round(outcome.duration.total_seconds() * 1000, 3),
        "provenance": outcome.provenance,
        "truncated": outcome.truncated,
    }
    if outcome.output is not None and outcome.output.cost is not None:
        own["cost"] = str(outcome.output.cost)
    if outcome.error is not None:
        own["error"] = {"kind": outcome.error.kind, "message": outcome.error.message}
    return Fact("finished", own, HARMLESS.issuperset(call.effects))


def of_cancellation(call: Call, error: BaseException) -> Fact:
    """That a call was cancelled before its end."""
    own = {"call_id": call.id, "tool": call.request.tool, "error": type(error).__name__}
    return Fact("cancelled", own)


def _decision(call: Call) -> str:
    if call.error is None:
        return call.verdict.decision
    return {"not_authorized": "deny", "approval_required": "ask"}.get(call.error.kind, "refused")
