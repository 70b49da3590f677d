"""Say what a call would meet on its way, without taking it."""

from __future__ import annotations

from typing import Any

from hardpoint._asking import request_of
from hardpoint._call import canonicalise, coerce, find, preview
from hardpoint._core import Core
from hardpoint._state import Call
from hardpoint.calls import ToolCall
from hardpoint.context import JobContext
from hardpoint.policy.decide import modes_in_force
from hardpoint.redaction import redact_params


async def explain(core: Core, request: ToolCall, context: JobContext) -> dict[str, Any]:
    """Everything that a call would meet.

    Raises:
        ToolError: The call would fail before the policy is asked.
    """
    verdict = await preview(core, request, context)
    call = Call(core, request, context, None, None)
    await find(call)
    coerce(call)
    await canonicalise(call)
    call.verdict = verdict
    plan = call.plan
    domain = plan.domain
    record = next((r for r in core.plugins.records.values() if r.owner == plan.entry.owner), None)
    secrets = getattr(plan.tool, "secret_names", None)
    return {
        "tool": plan.entry.name,
        "owner": plan.entry.owner,
        "plugin": None if record is None else record.name,
        "version": None if record is None else record.version,
        "params": redact_params(call.params, plan.sensitive),
        "subjects": [f"{s.kind} {s.operation}".strip() + f": {s.value}" for s in call.subjects],
        "effects": sorted(call.effects),
        "decision": verdict.decision,
        "requirement": verdict.requirement.value,
        "reasons": [str(reason) for reason in verdict.reasons],
        "segments": [f"{p.segment}: {p.requirement}" for p in verdict.parts],
        "rules": [f"{b.rule.decision} {b.rule} ({b.rule.source})" for b in plan.rules],
        "mode": "+".join(modes_in_force(context.mode, core.mode)),
        "earlier_answer": _earlier_answer(call),
        "approvers": [name for name, _ in core.approvers],
        "domain": plan.domain_name,
        "domain_available": domain is not None,
        "contains": _containment(call),
        "timeout_seconds": plan.timeout.total_seconds(),
        "limits": [
            f"{counter}: {limit.requests_per_minute} a minute, {limit.requests_per_hour} an hour"
            for counter, limit in (*plan.limits, *verdict.limits)
        ],
        "budgets": _budgets(core, context),
        "secrets": sorted(secrets(call.params)) if callable(secrets) else [],
        "provenance": plan.provenance,
    }


def _containment(call: Call) -> dict[str, Any] | None:
    """What holds the call back: the tool's own sandbox or process, else its domain."""
    own = getattr(call.plan.tool, "containment", None)
    if callable(own):
        return dict(own())
    domain = call.plan.domain
    return None if domain is None else dict(domain.explain())


def _earlier_answer(call: Call) -> str | None:
    """The grant that would save the question; looking at it uses nothing up."""
    if call.verdict.decision != "ask":
        return None
    grant: str | None = call.core.grants.covers(request_of(call))
    return grant


def _budgets(core: Core, context: JobContext) -> list[str]:
    if core.budget is None:
        return []
    return [f"{a.name} {a.dimension}: {a.shown()}" for a in core.budget.list(context)]
