"""Say what a call would meet on its way, without taking it."""

from __future__ import annotations

from typing import Any

from hardpoint._call import canonicalise, coerce, find, preview
from hardpoint._core import Core
from hardpoint._state import Call
from hardpoint.calls import ToolCall
from hardpoint.context import JobContext
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
        "rules": [f"{b.rule.decision} {b.rule} ({b.rule.source})" for b in plan.rules],
        "domain": plan.domain_name,
        "domain_available": domain is not None,
        "contains": None if domain is None else dict(domain.explain()),
        "timeout_seconds": plan.timeout.total_seconds(),
        "limits": [
            f"{counter}: {limit.requests_per_minute} a minute, {limit.requests_per_hour} an hour"
            for counter, limit in plan.limits
        ],
        "secrets": sorted(secrets(call.params)) if callable(secrets) else [],
        "approvers": [name for name, _ in core.approvers] or ["queue"],
        "provenance": plan.provenance,
    }
