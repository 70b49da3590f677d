"""Whom a call is put before, and what an answer changes. Answers are kept by `policy.grants`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import attrs

from hardpoint._state import Call
from hardpoint.errors import ApprovalRequired, NotAuthorized
from hardpoint.interfaces import ApprovalRequest
from hardpoint.policy import approval
from hardpoint.policy.verdict import Reason
from hardpoint.redaction import redact_params
from hardpoint.tools import Subject


def use_earlier_answers(call: Call) -> bool:
    """Whether this very call, or its pattern, was approved before and need not be asked again.

    Raises:
        NotAuthorized: Somebody said no to exactly this call.
    """
    plan, grants, context = call.plan, call.core.grants, call.context
    assert call.digest is not None
    if grants.use(call.digest, context):
        why = Reason("approved before, for exactly this call")
    elif call.verdict.may_remember and grants.covers(
        plan.entry.name,
        plan.definition.hash,
        pattern_of(plan.entry.name, call.subjects),
        context.mode,
        context,
    ):
        why = Reason("covered by an earlier approval")
    else:
        refused = grants.refused(call.digest, context)
        if refused is None:
            return False
        said = f": {refused.message}" if refused.message else ""
        raise NotAuthorized(
            f"{refused.answered_by} said no to exactly this call{said}",
            decision=call.verdict.to_json(plan.entry.name),
            hint="Do not retry this call.",
        )
    call.verdict = attrs.evolve(call.verdict, decision="allow", reasons=(why,))
    return True


async def ask_somebody(call: Call) -> bool:
    """Put the call before the approvers.

    Returns:
        True when the arguments were edited.

    Raises:
        NotAuthorized: The answer is no, or there is none.
        ApprovalRequired: Nobody can be asked now.
    """
    plan, core, context = call.plan, call.core, call.context
    clock_stopped = call.family.waiting() if call.family is not None else nullcontext()
    try:
        with clock_stopped:
            answer = await approval.ask(_request(call), context, core.approvers, core.grants)
    except (NotAuthorized, ApprovalRequired) as refusal:
        refusal.decision = call.verdict.to_json(plan.entry.name)
        raise
    if isinstance(answer, approval.Edited):
        call.params = answer.params
        by = answer.by or "a person"
        told = f": {answer.message}" if answer.message else ""
        shown = redact_params(call.params, plan.sensitive)
        call.notes.append(f"{by} changed the arguments to {shown}{told}")
        return True
    if answer.scope != "once":
        core.grants.remember(
            answer.scope,
            plan.entry.name,
            plan.definition.hash,
            pattern_of(plan.entry.name, call.subjects),
            context.mode,
            context,
        )
    why = Reason(f"approved ({answer.scope}) by {answer.by or 'the approver'}")
    call.verdict = attrs.evolve(call.verdict, decision="allow", reasons=(why,))
    return False


def _request(call: Call) -> ApprovalRequest:
    plan, context = call.plan, call.context
    remember = call.verdict.may_remember
    return ApprovalRequest(
        id=approval.new_approval_id(),
        digest=call.digest or call.make_digest(),
        tool=plan.entry.name,
        params=redact_params(call.params, plan.sensitive),
        requirement=call.requirement,
        user_id=context.user_id,
        session_id=context.session_id,
        project=context.project,
        description=plan.definition.description,
        reasons=tuple(str(reason) for reason in call.verdict.reasons),
        subjects=call.subjects,
        effects=frozenset(call.effects),
        domain=plan.domain_name,
        verdicts=("once", "session", "always", "edit", "no")
        if remember
        else ("once", "edit", "no"),
        pattern=pattern_of(plan.entry.name, call.subjects) if remember else None,
        origin=context.origin,
    )


def pattern_of(tool: str, subjects: Sequence[Subject]) -> str:
    """What a `session` or `always` answer is remembered for, exactly as it is shown."""
    shown = []
    for subject in subjects:
        value = subject.value if isinstance(subject.value, str) else " ".join(subject.value)
        shown.append(f"{subject.operation} {value}".strip())
    return f"{tool}({'; '.join(shown)})" if shown else tool
