"""Allow, ask or deny one call. Who is asked is in `approval`, what is remembered in `grants`."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import attrs

from hardpoint.policy.binding import BoundRule
from hardpoint.policy.conditions import Facts
from hardpoint.policy.verdict import (
    DecisionWord,
    Part,
    PolicyVerdict,
    Reason,
    strictest_decision,
)
from hardpoint.tools import ApprovalRequirement, Subject, strictest

NEVER = ApprovalRequirement.NEVER
UNLESS = ApprovalRequirement.UNLESS_AUTO_APPROVED
ALWAYS = ApprovalRequirement.ALWAYS


@attrs.frozen
class Question:
    """Everything that a decision depends on."""

    tool: str
    params: Mapping[str, Any]
    subjects: Sequence[Subject]
    own: ApprovalRequirement
    """What the tool itself asks for."""
    imposed: ApprovalRequirement
    """What the configuration and plugins ask for."""
    imposed_by: str
    """Who asks for that, as messages name it."""
    facts: Facts
    modes: Collection[str]
    """The caller's mode and the configured one; see `modes_in_force`."""
    auto_approve: bool | Collection[str] = False
    autonomous: bool = False
    allowed_tools: Collection[str] = ()
    egress_after: Collection[str] = ()
    """Once all of these were read, nothing leaves the machine without a question."""


def modes_in_force(asked: str, configured: str | None) -> Collection[str]:
    """The modes that hold for a call.

    The configuration's mode replaces `default`, which is what callers have who say nothing. Where
    both say something both hold, and `auto` counts only if there is no other.
    """
    if configured is None:
        return (asked,)
    return (configured,) if asked == "default" else (asked, configured)


def decide(question: Question, rules: Sequence[BoundRule]) -> PolicyVerdict:
    """Judge one call: any deny is final, then ask, then allow, then what the tool itself needs.

    Args:
        question: The call, with canonical arguments.
        rules: The rules that name the tool.
    """
    verdict = _judge(question, [bound for bound in rules if bound.applies(question.facts)])
    if not question.egress_after or verdict.decision != "allow":
        return verdict
    wanted = set(question.egress_after)
    leaves = not {"network", "send"}.isdisjoint(question.facts.effects)
    if not leaves or not wanted <= set(question.facts.seen):
        return verdict
    why = f"the session has read {' and '.join(sorted(wanted))} content, and this call may send"
    return attrs.evolve(verdict, decision="ask", reasons=(Reason(why), *verdict.reasons))


def _judge(question: Question, rules: Sequence[BoundRule]) -> PolicyVerdict:
    lines = _judge_lines(question)
    requirement = strictest((question.own, question.imposed, lines.requirement))
    verdict = _by_rules(question, rules, lines, requirement)
    return attrs.evolve(verdict, parts=lines.parts) if lines.parts else verdict


def _by_rules(
    question: Question,
    rules: Sequence[BoundRule],
    lines: Lines,
    requirement: ApprovalRequirement,
) -> PolicyVerdict:
    if lines.floor:
        return PolicyVerdict("deny", requirement, lines.floor, retry=False)
    matched = _match(question, rules)
    if matched.denied:
        return PolicyVerdict("deny", requirement, matched.denied, retry=False)
    if "plan" in question.modes and not set(question.facts.effects) <= {"read"}:
        extra = ", ".join(sorted(set(question.facts.effects) - {"read"}))
        why = f"mode 'plan' lets nothing run beyond reading; this call may {extra}"
        return PolicyVerdict("deny", requirement, (Reason(why),), retry=False)
    if "locked" in question.modes and not matched.allowed:
        why = "mode 'locked' runs only what an allow rule names"
        return PolicyVerdict("deny", requirement, (Reason(why),), retry=False)
    if matched.asked:
        verdict = PolicyVerdict("ask", requirement, matched.asked)
    elif matched.allowed and (requirement is not ALWAYS or _spelled_out(question, lines, rules)):
        verdict = PolicyVerdict("allow", requirement, matched.allowed)
    else:
        verdict = _by_requirement(question, requirement, lines)
    return attrs.evolve(verdict, limits=matched.limits) if matched.limits else verdict


def _by_requirement(
    question: Question, requirement: ApprovalRequirement, lines: Lines
) -> PolicyVerdict:
    if requirement is NEVER:
        return PolicyVerdict("allow", requirement)
    who = f"{question.tool!r}"
    if question.own is not requirement and question.imposed is requirement:
        who = question.imposed_by
    why = (Reason(f"{who} asks for approval {requirement.value!r}"), *lines.notes)
    if requirement is ALWAYS:
        if question.autonomous and question.tool in question.allowed_tools:
            listed = Reason("listed in allowed_tools of the autonomous context")
            return PolicyVerdict("allow", requirement, (*why, listed))
        return PolicyVerdict("ask", requirement, why)
    auto = question.auto_approve
    if all(mode == "auto" for mode in question.modes):
        return PolicyVerdict("allow", requirement, (Reason("mode 'auto'"),))
    if auto is True or (not isinstance(auto, bool) and question.tool in auto):
        return PolicyVerdict("allow", requirement, (Reason("auto-approved in this session"),))
    if question.autonomous:
        return PolicyVerdict("allow", requirement, (Reason("autonomous context"),))
    return PolicyVerdict("ask", requirement, why, may_remember=True)


# rules -----------------------------------------------------------------------------------------


@attrs.frozen
class _Matched:
    """The reasons that rules give, and the limits that they set."""

    denied: tuple[Reason, ...]
    asked: tuple[Reason, ...]
    allowed: tuple[Reason, ...]
    limits: tuple[tuple[str, Any], ...]


def _match(question: Question, rules: Sequence[BoundRule]) -> _Matched:
    found: dict[str, list[Reason]] = {"deny": [], "ask": [], "allow": []}
    limits: list[tuple[str, Any]] = []
    kinds = {subject.kind for subject in question.subjects}
    command_rules: list[BoundRule] = []
    for bound in rules:
        rule = bound.rule
        if bound.kind is not None and bound.kind not in kinds:
            # Text is what a call acts on that has no command, path or URL in it.
            if rule.decision != "allow" and kinds != {"text"}:
                why = f"the rule is about a {bound.kind}, and the call does not say which"
                found["ask"].append(rule.because(why))
        elif not bound.matches(question.params, question.subjects):
            continue
        elif bound.kind == "command":
            command_rules.append(bound)
        else:
            found[rule.decision].append(rule.because("matches"))
            if rule.rate_limit is not None:
                limits.append((f"rule:{rule}", rule.rate_limit))
    if command_rules:
        for word, reasons in _match_commands(question, command_rules).items():
            found[word] += reasons
        limits += _limits_on_commands(question, command_rules)
    return _Matched(tuple(found["deny"]), tuple(found["ask"]), tuple(found["allow"]), tuple(limits))


def _spelled_out(question: Question, lines: Lines, rules: Sequence[BoundRule]) -> bool:
    """Whether allow rules name this very call, so that it may pass although it always asks."""
    allowing = [
        bound
        for bound in rules
        if bound.rule.decision == "allow" and bound.matches(question.params, question.subjects)
    ]
    specs = {bound.rule.spec for bound in allowing if bound.kind == "command"}
    if lines.requirement is ALWAYS and question.imposed is not ALWAYS:
        # The line itself asks, and `decide_command` allows its dangerous parts by exact rules only.
        return bool(specs)
    if specs:
        return all(line in specs for line in lines.texts)
    return any(bound.spells_out(question.params, question.subjects) for bound in allowing)


# command lines ---------------------------------------------------------------------------------


@attrs.frozen
class Lines:
    """What the command lines of a call ask for by themselves."""

    requirement: ApprovalRequirement = NEVER
    floor: tuple[Reason, ...] = ()
    """Why one of them never runs."""
    notes: tuple[Reason, ...] = ()
    """Why one of them always asks."""
    texts: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()


NO_LINES: Final = Lines()


def _commands(question: Question) -> list[Any]:
    return [subject.value for subject in question.subjects if subject.kind == "command"]


def _judge_lines(question: Question) -> Lines:
    if not any(subject.kind == "command" for subject in question.subjects):
        return NO_LINES
    requirement, notes, texts, parts = NEVER, [], [], []
    for command in _commands(question):
        from hardpoint.subjects import judge_command

        verdict = judge_command(command)
        grounds = [Reason(why, segment=text) for text, why in verdict.grounds()]
        parts += [Part(s.text, s.requirement, s.why) for s in verdict.segments]
        if verdict.requirement == "deny":
            return Lines(ALWAYS, tuple(grounds), parts=tuple(parts))
        found = ApprovalRequirement(verdict.requirement)
        if found is ALWAYS:
            notes += grounds
        requirement = strictest((requirement, found))
        texts.append(command.strip() if isinstance(command, str) else shlex.join(command))
    return Lines(requirement, (), tuple(notes), tuple(texts), tuple(parts))


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


def _limits_on_commands(
    question: Question, rules: Sequence[BoundRule]
) -> Sequence[tuple[str, Any]]:
    """The limits of the rules that mean any part of a line, whatever they lead to."""
    limited = [bound.rule for bound in rules if bound.rule.rate_limit is not None]
    if not limited:
        return ()
    from hardpoint.subjects import decide_command

    return [
        (f"rule:{rule}", rule.rate_limit)
        for rule in limited
        if any(decide_command(c, ask=[rule]).verdict == "ask" for c in _commands(question))
    ]
