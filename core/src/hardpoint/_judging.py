"""What a decision about one call is made of. How it is made is in `policy.decide`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hardpoint._state import ALLOWED, Call
from hardpoint.errors import NotAuthorized
from hardpoint.limits import ToolRateLimitConfig
from hardpoint.plugins import HookFunction
from hardpoint.policy.conditions import Facts
from hardpoint.policy.decide import Question, decide, modes_in_force
from hardpoint.policy.verdict import PolicyVerdict, Reason
from hardpoint.tools import ApprovalRequirement, Effect, strictest

LEAVING: Final[frozenset[Effect]] = frozenset(("network", "send"))


def judge(call: Call) -> None:
    """Put the policy's verdict on a call, before any earlier answer and any person.

    Raises:
        NotAuthorized: Something that has a say failed, or a rule cannot be read.
    """
    plan = call.plan
    if plan.rule_error is not None:
        raise NotAuthorized(
            f"a rule for {plan.entry.name!r} cannot be read, so it is denied:"
            f" {plan.rule_error.message}"
        )
    own, call.imposed, imposed_by = _requirements(call)
    call.requirement = strictest((own, call.imposed))
    call.verdict = ALLOWED
    if not _needs_no_verdict(call):
        call.seen = call.core.labels.seen(call.context)
        call.verdict = decide(_question(call, own, imposed_by), plan.rules)
    if call.verdict.decision != "deny" and not LEAVING.isdisjoint(call.effects):
        _refuse_leaks(call)
    call.judged = call.verdict.decision


def denied(call: Call) -> NotAuthorized:
    """The error of a call that the policy denies."""
    verdict = call.verdict
    return NotAuthorized(
        f"{call.plan.entry.name!r} was denied: {verdict.explain()}",
        decision=verdict.to_json(call.plan.entry.name),
        hint=None if verdict.retry else "Do not retry this call; another way is needed.",
    )


def limits_of(call: Call, function: HookFunction) -> Sequence[tuple[str, ToolRateLimitConfig]]:
    """What one plugin's hook limits a call by: names of counters, and limits."""
    answer = _ask_hook(call, function) or ()
    if not all(isinstance(limit, ToolRateLimitConfig) for limit in answer):
        raise NotAuthorized(f"plugin {function.plugin!r} gave something that is not a rate limit")
    return [(f"{call.plan.entry.name}:{function.plugin}", limit) for limit in answer]


def _ask_hook(call: Call, function: HookFunction) -> Any:
    """Ask one decision hook; an exception means deny."""
    try:
        return function(call=call.redacted, tool=call.plan.definition, context=call.context)
    except Exception as error:  # a hook is foreign code
        raise NotAuthorized(
            f"plugin {function.plugin!r} failed to decide: {type(error).__name__}: {error}"
        ) from error


def _needs_no_verdict(call: Call) -> bool:
    return (
        call.requirement is ApprovalRequirement.NEVER
        and not call.plan.rules
        and call.context.mode in ("default", "auto")
        and call.core.mode in (None, "default", "auto")
        and not any(subject.kind == "command" for subject in call.subjects)
        and (not call.core.config.policy.egress_after or LEAVING.isdisjoint(call.effects))
    )


def _requirements(call: Call) -> tuple[ApprovalRequirement, ApprovalRequirement, str]:
    """What the tool asks for, the strictest of what others ask for, and who does."""
    plan = call.plan
    name = plan.entry.name
    own = plan.fixed_own_requirement
    if own is None:
        try:
            answers = (
                plan.tool.requires_approval(call.params),
                plan.tool.approval_requirement(call.params),
            )
            own = strictest([ApprovalRequirement(answer) for answer in answers])
        except Exception as error:  # a tool's own method is foreign code; its failure means no
            raise NotAuthorized(
                f"{name!r} failed to say what approval it needs: {type(error).__name__}: {error}"
            ) from error
    imposed, by = ApprovalRequirement.NEVER, ""
    if plan.config.approval is not None:
        imposed, by = ApprovalRequirement(plan.config.approval), f"[tools.{name}] approval"
    for function in plan.requirement_hooks:
        answer = _ask_hook(call, function)
        if answer is None:
            continue
        try:
            found = ApprovalRequirement(answer)
        except ValueError as error:
            raise NotAuthorized(
                f"plugin {function.plugin!r} gave {answer!r}, which is no approval requirement"
            ) from error
        if found.rank > imposed.rank:
            imposed, by = found, f"plugin {function.plugin!r}"
    return own, imposed, by


def _question(call: Call, own: ApprovalRequirement, imposed_by: str) -> Question:
    core, context = call.core, call.context
    return Question(
        tool=call.plan.entry.name,
        params=call.params,
        subjects=call.subjects,
        own=own,
        imposed=call.imposed,
        imposed_by=imposed_by,
        facts=Facts(
            domain=call.plan.domain_name,
            effects=call.effects,
            user=context.user_id,
            origins=call.origins,
            seen=call.seen,
        ),
        modes=modes_in_force(context.mode, core.mode),
        auto_approve=context.auto_approve,
        autonomous=context.autonomous,
        allowed_tools=context.allowed_tools,
        egress_after=core.config.policy.egress_after,
    )


def _refuse_leaks(call: Call) -> None:
    """Arguments that leave the machine are scanned; a found secret stops the call."""
    findings = call.core.leaks.scan_value(call.params)
    blocked = sorted({finding.kind for finding in findings if finding.action == "block"})
    if blocked:
        why = f"the arguments hold what looks like a secret ({', '.join(blocked)}) and would leave"
        call.verdict = PolicyVerdict("deny", call.requirement, (Reason(why),), retry=False)
    elif findings:
        kinds = ", ".join(sorted({finding.kind for finding in findings}))
        call.notes.append(f"the arguments hold sensitive text ({kinds})")
