"""Allow, ask or deny one call. Who is asked, and what an answer is remembered for, is in `approval`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from hardpoint.context import JobContext
from hardpoint.policy.rules import BoundRule
from hardpoint.policy.verdict import DecisionWord, PolicyVerdict, Reason, strictest_decision
from hardpoint.tools import ApprovalRequirement, Effect, Subject, strictest

NEVER = ApprovalRequirement.NEVER
UNLESS = ApprovalRequirement.UNLESS_AUTO_APPROVED
ALWAYS = ApprovalRequirement.ALWAYS


@attrs.frozen
class Question:
    """Everything that a decision depends on."""

    tool: str
    params: Mapping[str, Any]
    subjects: Sequence[Subject]
    requirement: ApprovalRequirement
    """The strictest of the tool's own, the configuration's and the plugins'."""
    requirement_from: str
    """Who asks for it, as messages name it."""
    asked_by_tool: bool
    """Whether it is the tool itself that asks for it."""
    effects: Collection[Effect]
    domain: str
    context: JobContext
    modes: Collection[str]
    """The caller's mode and the configured one; each can only take rights away."""
    seen: Collection[str] = ()
    """The provenances that the session has read so far."""
    egress_after: Collection[str] = ()
    """Once all of these were read, nothing leaves the machine without a question."""


def decide(question: Question, rules: Sequence[BoundRule]) -> PolicyVerdict:
    """Judge one call: any deny is final, then ask, then allow, then what the tool itself needs.

    Args:
        question: The call, with canonical arguments.
        rules: The rules that name the tool.
    """
    verdict = _judge(question, rules)
    wanted = set(question.egress_after)
    leaves = not {"network", "send"}.isdisjoint(question.effects)
    if verdict.decision != "allow" or not wanted or not leaves or not wanted <= set(question.seen):
        return verdict
    why = f"the session has read {' and '.join(sorted(wanted))} content, and this call may send"
    return PolicyVerdict("ask", verdict.requirement, (Reason(why), *verdict.reasons))


def _judge(question: Question, rules: Sequence[BoundRule]) -> PolicyVerdict:
    applying = [
        bound
        for bound in rules
        if bound.applies(question.domain, question.effects, question.context, question.seen)
    ]
    floor, requirement, notes = _judge_commands(question)
    if floor:
        return PolicyVerdict("deny", requirement, floor, retry=False)
    matched = _match(question, applying)
    denied = matched.get("deny")
    if denied:
        return PolicyVerdict("deny", requirement, tuple(denied), retry=False)
    if "plan" in question.modes and not set(question.effects) <= {"read"}:
        extra = ", ".join(sorted(set(question.effects) - {"read"}))
        why = f"mode 'plan' lets nothing run beyond reading; this call may {extra}"
        return PolicyVerdict("deny", requirement, (Reason(why),), retry=False)
    asked = matched.get("ask")
    allowed = matched.get("allow")
    if "locked" in question.modes and not allowed:
        why = "mode 'locked' runs only what an allow rule names"
        return PolicyVerdict("deny", requirement, (Reason(why),), retry=False)
    if asked:
        return _unless_listed(question, PolicyVerdict("ask", requirement, tuple(asked)))
    if allowed and (requirement is not ALWAYS or _all_exact(question, applying)):
        return PolicyVerdict("allow", requirement, tuple(allowed))
    return _by_requirement(question, requirement, notes)


def _by_requirement(
    question: Question, requirement: ApprovalRequirement, notes: tuple[Reason, ...]
) -> PolicyVerdict:
    context = question.context
    why = (Reason(f"{question.requirement_from} asks for approval {requirement.value!r}"), *notes)
    if requirement is NEVER:
        return PolicyVerdict("allow", requirement)
    if requirement is UNLESS:
        auto = context.auto_approve
        if all(mode == "auto" for mode in question.modes):
            return PolicyVerdict("allow", requirement, (Reason("mode 'auto'"),))
        if auto is True or (not isinstance(auto, bool) and question.tool in auto):
            return PolicyVerdict("allow", requirement, (Reason("auto-approved in this session"),))
        if context.autonomous:
            return PolicyVerdict("allow", requirement, (Reason("autonomous context"),))
        return PolicyVerdict("ask", requirement, why, may_remember=True)
    return _unless_listed(question, PolicyVerdict("ask", requirement, why))


def _unless_listed(question: Question, verdict: PolicyVerdict) -> PolicyVerdict:
    """An autonomous caller passes `always` and ask rules only for the tools that it was given."""
    if question.context.autonomous and question.tool in question.context.allowed_tools:
        why = Reason("listed in allowed_tools of the autonomous context")
        return attrs.evolve(verdict, decision="allow", reasons=(*verdict.reasons, why))
    return verdict


def _match(question: Question, applying: Sequence[BoundRule]) -> Mapping[str, Sequence[Reason]]:
    found: dict[str, list[Reason]] = {}
    for bound in applying:
        if bound.kind != "command" and bound.matches(question.params, question.subjects):
            found.setdefault(bound.rule.decision, []).append(bound.reason)
    command_rules = [bound for bound in applying if bound.kind == "command"]
    if command_rules:
        for word, reasons in _match_commands(question, command_rules).items():
            found.setdefault(word, []).extend(reasons)
    return found


def _all_exact(question: Question, applying: Sequence[BoundRule]) -> bool:
    """Whether an allow rule spells this very call out."""
    commands = _commands(question)
    for bound in applying:
        if bound.rule.decision != "allow" or not bound.matches(question.params, question.subjects):
            continue
        if bound.kind != "command":
            if bound.names_exactly:
                return True
        # `decide_command` has looked at exactness where the line itself is what asks.
        elif question.asked_by_tool or all(bound.rule.spec == line for line in commands):
            return True
    return False


# command lines ---------------------------------------------------------------------------------


def _commands(question: Question) -> list[Any]:
    return [subject.value for subject in question.subjects if subject.kind == "command"]


def _judge_commands(
    question: Question,
) -> tuple[tuple[Reason, ...], ApprovalRequirement, tuple[Reason, ...]]:
    """The floor: what never runs, and what the command line itself asks for."""
    requirement = question.requirement
    notes: list[Reason] = []
    for command in _commands(question):
        from hardpoint.subjects import judge_command

        verdict = judge_command(command)
        if verdict.requirement == "deny":
            reasons = [Reason(why, segment=text) for text, why in verdict.grounds()]
            return tuple(reasons), ALWAYS, ()
        found = ApprovalRequirement(verdict.requirement)
        if found is ALWAYS:
            notes += [Reason(why, segment=text) for text, why in verdict.grounds()]
        requirement = strictest((requirement, found))
    return (), requirement, tuple(notes)


def _match_commands(
    question: Question, rules: Sequence[BoundRule]
) -> Mapping[str, Sequence[Reason]]:
    from hardpoint.subjects import decide_command

    lists: dict[str, list[Any]] = {"allow": [], "ask": [], "deny": []}
    for bound in rules:
        lists[bound.rule.decision].append(bound.rule)
    found: dict[str, list[Reason]] = {}
    words: list[DecisionWord] = []
    undecided = False
    for command in _commands(question):
        answer = decide_command(command, **lists)
        if answer.verdict is None:
            undecided = True
            continue
        words.append(answer.verdict)
        found.setdefault(answer.verdict, []).extend(
            Reason(reason.why, segment=reason.segment)
            if reason.rule is None
            else reason.rule.because(reason.why, reason.segment)
            for reason in answer.reasons
        )
    if not words:
        return {}
    strictest_word = strictest_decision(words)
    if undecided and strictest_word == "allow":
        # One command that is allowed does not speak for another.
        return {}
    return {strictest_word: found[strictest_word]}
