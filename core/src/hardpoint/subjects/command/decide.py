"""Say what a list of rules makes of a command line: allow, ask, deny, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

import attrs

from hardpoint.subjects.command.judge import judge_command
from hardpoint.subjects.command.model import CommandVerdict, Segment
from hardpoint.subjects.command.patterns import CommandPattern


class HasSpec(Protocol):
    """A rule for a tool whose subject is a command line; without a SPEC it speaks of every call."""

    @property
    def spec(self) -> str | None: ...


@attrs.frozen
class CommandReason:
    """One thing that led to an answer."""

    rule: Any
    """The rule as it was handed in, or None."""
    segment: str | None
    """The part of the line that it is about."""
    why: str


@attrs.frozen
class CommandAnswer:
    """What the rules say about a line."""

    verdict: Literal["allow", "ask", "deny"] | None
    """None when no rule settles it: then the requirement of the line decides who is asked."""
    reasons: tuple[CommandReason, ...]
    judged: CommandVerdict


def decide_command(
    command: str | Sequence[str],
    allow: Iterable[HasSpec | CommandPattern] = (),
    ask: Iterable[HasSpec | CommandPattern] = (),
    deny: Iterable[HasSpec | CommandPattern] = (),
) -> CommandAnswer:
    """Hold the rules against every part of a line: deny first, then ask, then allow.

    Args:
        command: A line for `sh -c`, or the program and its arguments.
        allow: A line is allowed when every part of it is.
        ask: One part that a rule means is enough.
        deny: One part that a rule means is enough.

    Raises:
        ConfigError: A rule's SPEC is no command pattern.
    """
    judged = judge_command(command)
    if judged.requirement == "deny":
        floor = tuple(CommandReason(None, text, why) for text, why in judged.grounds())
        return CommandAnswer("deny", floor, judged)
    denied, doubtful = _search(deny, judged, "denied")
    if denied:
        return CommandAnswer("deny", denied, judged)
    asked, maybe_asked = _search(ask, judged, "to be asked about")
    asked += doubtful + maybe_asked
    if asked:
        return CommandAnswer("ask", asked, judged)
    rules = [(rule, _pattern(rule)) for rule in allow]
    covered, gaps = _cover(rules, judged)
    if gaps:
        return CommandAnswer(None, gaps, judged)
    return CommandAnswer("allow", covered, judged)


def _pattern(rule: HasSpec | CommandPattern) -> CommandPattern:
    if isinstance(rule, CommandPattern):
        return rule
    return CommandPattern.parse("*" if rule.spec is None else rule.spec)


def _search(
    rules: Iterable[HasSpec | CommandPattern], judged: CommandVerdict, word: str
) -> tuple[tuple[CommandReason, ...], tuple[CommandReason, ...]]:
    """The reasons of rules that mean a part of the line, and of those that may mean one."""
    certain, doubtful = [], []
    for rule in rules:
        pattern = _pattern(rule)
        if pattern.is_bare or pattern.spec == judged.text.strip():
            certain.append(CommandReason(rule, judged.text, f"every call is {word}"))
            continue
        for segment in judged.segments:
            match = pattern.finds(segment)
            if match == "yes":
                certain.append(CommandReason(rule, segment.text, f"this part is {word}"))
                break
            if match == "maybe":
                why = f"this part may be {word}: what it is shows only at run time"
                doubtful.append(CommandReason(rule, segment.text, why))
    return tuple(certain), tuple(doubtful)


def _cover(
    rules: Sequence[tuple[HasSpec | CommandPattern, CommandPattern]], judged: CommandVerdict
) -> tuple[tuple[CommandReason, ...], tuple[CommandReason, ...]]:
    """The reasons why every part is allowed, and those why some part is not."""
    if not rules:
        return (), (CommandReason(None, judged.text, "no rule allows it"),)
    notes = judged.notes
    if notes:
        return (), tuple(CommandReason(None, judged.text, why) for why in notes)
    covered: list[CommandReason] = []
    gaps: list[CommandReason] = []
    by_number: dict[int, tuple[Any, CommandPattern]] = {}
    for number, segment in enumerate(judged.segments):
        hit = _hit(rules, judged, segment, by_number)
        if hit is not None:
            by_number[number] = hit
            covered.append(CommandReason(hit[0], segment.text, "this part is allowed"))
        elif segment.cover != "none":
            why = "; ".join(segment.why) or "no rule allows this part"
            gaps.append(CommandReason(None, segment.text, why))
    return tuple(covered), tuple(gaps)


def _hit(
    rules: Sequence[tuple[HasSpec | CommandPattern, CommandPattern]],
    judged: CommandVerdict,
    segment: Segment,
    by_number: dict[int, tuple[Any, CommandPattern]],
) -> tuple[Any, CommandPattern] | None:
    """The rule that allows one part, itself or by spelling out what runs it."""
    for rule, pattern in rules:
        whole = pattern.kind == "exact" and pattern.spec == judged.text.strip()
        if pattern.covers(segment) or (whole and _is_settled(judged)):
            return rule, pattern
    if segment.parent is None or segment.parent not in by_number:
        return None
    rule, pattern = by_number[segment.parent]
    runner = judged.segments[segment.parent]
    if pattern.kind == "exact" and segment.requirement != "deny":
        return rule, pattern
    # `uv run pytest:*` names what runs, not only the runner.
    named = segment.at is not None and pattern.reaches(runner) > segment.at
    return (rule, pattern) if named and segment.cover == "program" else None


def _is_settled(judged: CommandVerdict) -> bool:
    """Whether nothing that asks depends on what is known only at run time."""
    return judged.requirement == "unless_auto_approved" or not any(
        word.literal is None for segment in judged.segments for word in segment.words
    )
