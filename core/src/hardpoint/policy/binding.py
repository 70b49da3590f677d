"""Settle what a rule means for one tool: which parameter, subject or command its SPEC speaks of."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import attrs

from hardpoint.errors import ConfigError
from hardpoint.policy.conditions import Facts
from hardpoint.policy.rules import Rule
from hardpoint.tools import Subject, SubjectKind

_NAMED: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_-]*):(?P<glob>.*)", re.DOTALL)
_NOT_TEXT: Final = frozenset({"number", "integer", "boolean", "null"})

Params = Mapping[str, Any]
Subjects = Sequence[Subject]
Matcher = Callable[[Params, Subjects], bool]


class NotAbout(ConfigError):
    """The rule says nothing about the tool: it has no such parameter and no such subject."""


@attrs.frozen
class BoundRule:
    """A rule read for one tool."""

    rule: Rule
    kind: SubjectKind | None
    """The kind of subject that it looks at. `command`: its SPEC is a command pattern, which
    `decide` holds against the line together with all others; `matches` says the rest."""
    matches: Matcher
    spells_out: Matcher
    """Whether it names this very call and no other, so that it may allow what always asks."""

    def applies(self, facts: Facts) -> bool:
        """Whether the `when` and `unless` of the rule let it count for this call."""
        return self.rule.applies(facts)


def bind_rule(
    rule: Rule, tool: str, parameters: Mapping[str, Any] | None, kind: SubjectKind | None
) -> BoundRule:
    """Settle what a rule means for one tool.

    Args:
        rule: A rule that names the tool.
        tool: The tool's name.
        parameters: The tool's schema; None when its plugin is absent.
        kind: The kind of the tool's subjects.

    Raises:
        NotAbout: The SPEC fits neither a parameter nor the tool's subjects.
        ConfigError: The SPEC is wrong in itself, or can match nothing.
    """
    where = [_parameter(rule, tool, parameters, *each) for each in rule.where.items()]
    if kind == "command" and not (rule.is_bare and rule.decision != "allow"):
        if rule.decision == "allow" and "command" in rule.where:
            raise _wrong(rule, "a command is more than its text; write it as the SPEC: tool(git:*)")
        if rule.spec is not None or rule.decision == "allow":
            _refuse_unreadable(rule)
            return BoundRule(rule, "command", _all_of(where), _never)
    if rule.spec in (None, "*"):
        return BoundRule(rule, None, _all_of(where), _pinned(rule.where))
    assert rule.spec is not None
    named = _NAMED.fullmatch(rule.spec)
    if named and named["name"] in (parameters or {}).get("properties", {}):
        name, glob = named["name"], named["glob"]
        _refuse_impossible(rule, parameters, name, glob)
        matches = _all_of([*where, _named_matcher(rule, name, glob)])
        return BoundRule(rule, None, matches, _pinned({**rule.where, name: glob}))
    if kind is None:
        known = ", ".join(sorted((parameters or {}).get("properties", {}))) or "none"
        raise NotAbout(
            f"{rule.source}: rule {str(rule)!r} can match nothing: {tool!r} has no parameter of"
            f" that name (it has: {known}) and no path, URL or command subject"
        )
    from hardpoint.subjects import parse_pattern

    try:
        pattern = parse_pattern(kind, rule.spec)
    except ConfigError as error:
        raise _wrong(rule, error.message) from error
    matches = _all_of([*where, _subject_matcher(rule, kind, pattern)])
    return BoundRule(rule, kind, matches, _same_subject(rule.spec, kind))


def _wrong(rule: Rule, why: str) -> ConfigError:
    return ConfigError(f"{rule.source}: rule {str(rule)!r}: {why}")


def _refuse_unreadable(rule: Rule) -> None:
    from hardpoint.subjects import CommandPattern

    try:
        CommandPattern.parse("*" if rule.spec is None else rule.spec)
    except ConfigError as error:
        raise _wrong(rule, error.message) from error


# parameters ------------------------------------------------------------------------------------


def _parameter(
    rule: Rule, tool: str, parameters: Mapping[str, Any] | None, name: str, wanted: Any
) -> Matcher:
    """What one line of `where` asks of the arguments."""
    known = (parameters or {}).get("properties", {})
    if known and name not in known and not (parameters or {}).get("additionalProperties"):
        raise NotAbout(
            f"{rule.source}: rule {str(rule)!r} can match nothing: {tool!r} has no parameter"
            f" {name!r}; it has: {', '.join(sorted(known))}"
        )
    every = rule.decision == "allow"
    return lambda params, subjects: name in params and _matches(params[name], wanted, every)


def _matches(value: Any, wanted: Any, every: bool) -> bool:
    """Text by glob, other values by JSON equality; of a list all members, or any."""
    if isinstance(value, list) and not isinstance(wanted, list):
        hits = [_matches(member, wanted, every) for member in value]
        return bool(hits) and (all(hits) if every else any(hits))
    if isinstance(wanted, str):
        return isinstance(value, str) and _glob(wanted)(value) is not None
    return _json_equal(value, wanted)


def _named_matcher(rule: Rule, name: str, glob: str) -> Matcher:
    """`NAME:GLOB`, in which a value that is no text is written as JSON."""
    every = rule.decision == "allow"
    wanted: Any = glob
    as_json: Any = _NOTHING
    try:
        as_json = json.loads(glob)
    except (ValueError, RecursionError):
        pass

    def matches(params: Params, subjects: Subjects) -> bool:
        if name not in params:
            return False
        value = params[name]
        if glob == "*":
            return value != [] or not every
        return _matches(value, wanted, every) or (
            as_json is not _NOTHING and not isinstance(as_json, str)
            and _matches(value, as_json, every)
        )  # fmt: skip

    return matches


_NOTHING: Final = object()


def _refuse_impossible(
    rule: Rule, parameters: Mapping[str, Any] | None, name: str, glob: str
) -> None:
    schema = (parameters or {})["properties"][name]
    types = schema.get("type") if isinstance(schema, Mapping) else None
    types = {types} if isinstance(types, str) else set(types or ())
    if glob == "*" or not types or not types <= _NOT_TEXT:
        return
    try:
        json.loads(glob)
    except (ValueError, RecursionError) as error:
        raise _wrong(
            rule, f"can match nothing: {name!r} is never text, and {glob!r} is no JSON value"
        ) from error


def _json_equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_json_equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_json_equal, a, b))
    return bool(a == b)


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> Callable[[str], Any]:
    # Several stars in a row mean one, and would only cost time.
    return re.compile(fnmatch.translate(re.sub(r"\*+", "*", pattern))).fullmatch


# subjects --------------------------------------------------------------------------------------


def _subject_matcher(rule: Rule, kind: SubjectKind, pattern: Any) -> Matcher:
    every = rule.decision == "allow"

    def matches(params: Params, subjects: Subjects) -> bool:
        hits = [pattern.matches(s.value, s.operation) for s in subjects if s.kind == kind]
        return bool(hits) and (all(hits) if every else any(hits))

    return matches


# exactly this call -----------------------------------------------------------------------------


def _same_subject(spec: str, kind: SubjectKind) -> Matcher:
    between = " " if kind == "url" else ":"

    def same(params: Params, subjects: Subjects) -> bool:
        ours = [s for s in subjects if s.kind == kind]
        return bool(ours) and all(
            spec in (s.value, f"{s.operation}{between}{s.value}") for s in ours
        )

    return same


def _pinned(where: Mapping[str, Any]) -> Matcher:
    """Every argument of the call is named, none by a glob."""
    if not where or any(isinstance(v, str) and re.search(r"[*?\[]", v) for v in where.values()):
        return _never
    return lambda params, subjects: params.keys() <= where.keys()


def _never(params: Params, subjects: Subjects) -> bool:
    return False


def _all_of(matchers: Sequence[Matcher]) -> Matcher:
    return lambda params, subjects: all(matcher(params, subjects) for matcher in matchers)
