"""Whom a call is put before, and what an answer changes. Answers are kept by `policy.grants`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import attrs

from hardpoint._state import Call
from hardpoint.errors import ApprovalRequired, NotAuthorized
from hardpoint.interfaces import ApprovalRequest
from hardpoint.policy import approval
from hardpoint.policy.decide import modes_in_force
from hardpoint.policy.grants import strictest_mode
from hardpoint.policy.verdict import Reason
from hardpoint.redaction import redact_params
from hardpoint.tools import Subject


async def ask_about(call: Call) -> bool:
    """Let an earlier answer or a person decide.

    Returns:
        True when the arguments were edited.

    Raises:
        NotAuthorized: The answer is no, or there is none.
        ApprovalRequired: Nobody can be asked now.
    """
    request = request_of(call)
    try:
        if _was_answered(call, request):
            return False
        answer = await _ask(call, request)
    except (NotAuthorized, ApprovalRequired) as refusal:
        refusal.decision = call.verdict.to_json(call.plan.entry.name)
        raise
    if isinstance(answer, approval.Edited):
        _edit(call, answer, request)
        return True
    if answer.scope != "once":
        call.core.grants.remember(answer.scope, request)
    _allow(call, f"approved ({answer.scope}) by {answer.by}")
    return False


def _was_answered(call: Call, request: ApprovalRequest) -> bool:
    """Whether this very call, or its pattern, was approved before."""
    grants = call.core.grants
    # A caller names the answer to its own call; what that call calls has answers of its own.
    named = call.context.approval if call.context.handle is None else None
    answer = grants.take(request, named)
    if answer is None:
        grant = grants.covers(request)
        if grant is not None:
            _allow(call, f"covered by an earlier approval ({grant})")
        return grant is not None
    if answer.state == "denied":
        said = f": {answer.message}" if answer.message else ""
        raise NotAuthorized(
            f"{answer.answered_by} said no to exactly this call{said}",
            hint="Do not retry this call.",
        )
    _allow(call, f"approved before, for exactly this call ({answer.id}, {answer.answered_by})")
    return True


async def _ask(call: Call, request: ApprovalRequest) -> approval.Approved | approval.Edited:
    core, context = call.core, call.context
    clock_stopped = call.family.waiting() if call.family is not None else nullcontext()
    with clock_stopped, core.outside(call):
        return await approval.ask(request, context, core.approvers, core.grants)


def _allow(call: Call, why: str) -> None:
    call.verdict = attrs.evolve(call.verdict, decision="allow", reasons=(Reason(why),))


def _edit(call: Call, answer: approval.Edited, request: ApprovalRequest) -> None:
    """Take over the new arguments; what was left as it was shown stays what it really is."""
    call.edits += 1
    if call.edits > approval.MAX_EDITS:
        raise NotAuthorized(f"the call was edited {call.edits} times; call again as it should be")
    call.params = {
        name: call.params[name] if name in call.params and request.params.get(name) == value
        else value
        for name, value in answer.params.items()
    }  # fmt: skip
    told = f": {answer.message}" if answer.message else ""
    shown = json.dumps(
        redact_params(call.params, call.plan.sensitive), ensure_ascii=False, default=str
    )
    call.notes.append(
        f"{answer.by} changed the arguments to {shown}{told}."
        " This is what was called; do not repeat the call as it was."
    )


def request_of(call: Call) -> ApprovalRequest:
    """What a person is to decide about, with secrets taken out."""
    plan, core, context = call.plan, call.core, call.context
    name = plan.entry.name
    params, _ = core.leaks.redact_value(redact_params(call.params, plan.sensitive))
    subjects = tuple(
        attrs.evolve(subject, value=core.leaks.redact_value(subject.value)[0])
        for subject in call.subjects
    )
    # What cannot be shown cannot be remembered either.
    remember = call.verdict.may_remember and subjects == tuple(call.subjects)
    return ApprovalRequest(
        id=approval.new_approval_id(),
        digest=call.digest or call.make_digest(),
        tool=name,
        params=params,
        requirement=call.verdict.requirement,
        user_id=context.user_id,
        session_id=context.session_id,
        project=context.project,
        description=plan.definition.description,
        reasons=tuple(core.leaks.redact(str(reason)) for reason in call.verdict.reasons),
        subjects=subjects,
        effects=frozenset(call.effects),
        domain=plan.domain_name,
        verdicts=("once", "session", "always", "edit", "no")
        if remember
        else ("once", "edit", "no"),
        pattern=pattern_of(name, call.subjects) if remember else None,
        origin=call.root_origin if context.handle is None else "tool",
        workspace=None if context.workspace is None else str(context.workspace),
        mode=strictest_mode(modes_in_force(context.mode, core.mode)),
        definition_hash=f"{plan.entry.owner} {plan.definition.hash}",
    )


def pattern_of(tool: str, subjects: Sequence[Subject]) -> str:
    """What a `session` or `always` answer is remembered for, exactly as it is shown."""
    return f"{tool}({'; '.join(map(_shown, subjects))})" if subjects else tool


def _shown(subject: Subject) -> str:
    value: Any = subject.value if isinstance(subject.value, str) else shlex.join(subject.value)
    # Two subjects must not look like one that holds the separator.
    value = json.dumps(value) if "; " in value or value.startswith('"') else value
    if not subject.operation or subject.kind == "command":
        return str(value)
    return f"{subject.operation}{' ' if subject.kind == 'url' else ':'}{value}"
