"""Read rules and say whether one matches a call. What a match means is decided in `decide`."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final

import attrs

from hardpoint.config import RuleEntry, Source
from hardpoint.context import JobContext
from hardpoint.errors import ConfigError
from hardpoint.policy.verdict import DecisionWord, Reason
from hardpoint.tools import Effect, Subject, SubjectKind

_RULE: Final = re.compile(r"(?P<tool>[A-Za-z0-9_.*?-]+)(?:\((?P<spec>.*)\))?", re.DOTALL)
_KEYS: Final = frozenset({"tool", "where", "reason", "match", "not_match", "when", "unless"})
_CONDITIONS: Final = frozenset({"domain", "effects", "user", "origin", "provenance"})
_NAMED: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_-]*):(?P<glob>.*)", re.DOTALL)


@attrs.frozen
class Rule:
    """One rule as it was read."""

    decision: DecisionWord
    tool: str
    """A tool name, or a glob over tool names."""
    spec: str | None = None
    where: Mapping[str, Any] = attrs.field(factory=dict)
    reason: str | None = None
    match: tuple[Any, ...] = ()
    not_match: tuple[Any, ...] = ()
    when: Mapping[str, Any] = attrs.field(factory=dict)
    unless: Mapping[str, Any] = attrs.field(factory=dict)
    source: Source = Source()

    def __str__(self) -> str:
        if self.where:
            return f"{self.tool} where {json.dumps(dict(self.where), default=str)}"
        return self.tool if self.spec is None else f"{self.tool}({self.spec})"

    @property
    def is_bare(self) -> bool:
        """A rule about the tool as such, whatever the arguments."""
        return self.spec in (None, "*") and not self.where

    @property
    def is_unconditional(self) -> bool:
        return self.is_bare and not self.when and not self.unless

    def names(self, tool: str) -> bool:
        return self.tool == tool or (
            any(star in self.tool for star in "*?") and fnmatch.fnmatchcase(tool, self.tool)
        )

    def because(self, why: str, segment: str | None = None) -> Reason:
        return Reason(self.reason or why, str(self), str(self.source), segment)


def parse_rule(entry: RuleEntry) -> Rule:
    """Read one rule.

    Raises:
        ConfigError: It is not a rule; the message names file and line and says what is wrong.
    """
    spec = entry.spec
    if isinstance(spec, str):
        return _parse_text(entry, spec)
    unknown = set(spec) - _KEYS
    if unknown:
        raise _wrong(
            entry, f"unknown key {sorted(unknown)[0]!r}; known: {', '.join(sorted(_KEYS))}"
        )
    if not isinstance(spec.get("tool"), str):
        raise _wrong(entry, "a rule table needs `tool`, the name of a tool")
    for group in ("when", "unless", "where"):
        if not isinstance(spec.get(group, {}), Mapping):
            raise _wrong(entry, f"`{group}` must be a table")
    for group in ("when", "unless"):
        odd = set(spec.get(group, {})) - _CONDITIONS
        if odd:
            raise _wrong(
                entry,
                f"`{group}` has no condition {sorted(odd)[0]!r};"
                f" known: {', '.join(sorted(_CONDITIONS))}",
            )
    base = _parse_text(entry, spec["tool"])
    return attrs.evolve(
        base,
        where=dict(spec.get("where", {})),
        reason=spec.get("reason"),
        match=_examples(entry, spec, "match"),
        not_match=_examples(entry, spec, "not_match"),
        when=dict(spec.get("when", {})),
        unless=dict(spec.get("unless", {})),
    )


def _parse_text(entry: RuleEntry, text: str) -> Rule:
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise _wrong(entry, f"{text!r} is not a rule; write tool, tool(SPEC) or server__*")
    if found["spec"] == "":
        raise _wrong(entry, f"{text!r} has an empty SPEC; write {found['tool']!r} for every call")
    return Rule(entry.decision, found["tool"], found["spec"], source=entry.source)


def _examples(entry: RuleEntry, table: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    value = table.get(key, ())
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _wrong(entry, f"`{key}` must be a list of examples")
    return tuple(value)


def _wrong(entry: RuleEntry, why: str) -> ConfigError:
    return ConfigError(f"{entry.source}: policy.{entry.decision}: {why}")


# one rule for one tool -------------------------------------------------------------------------

Matcher = Callable[[Mapping[str, Any], Sequence[Subject]], bool]


@attrs.frozen
class BoundRule:
    """A rule read for one tool: what its SPEC means is settled."""

    rule: Rule
    kind: SubjectKind | None
    """`command` when the SPEC is a command pattern, which `decide` hands on as a whole."""
    matches: Matcher
    names_exactly: bool = False
    """The rule spells out one call, so that it may allow what always asks."""

    @cached_property
    def reason(self) -> Reason:
        """What is said when it matches."""
        return self.rule.because("matches")

    def applies(
        self,
        domain: str,
        effects: Collection[Effect],
        context: JobContext,
        seen: Collection[str] = (),
    ) -> bool:
        """Whether the `when` and `unless` of the rule let it count for this caller."""
        if not self.rule.when and not self.rule.unless:
            return True
        facts: Mapping[str, Any] = {
            "domain": (domain,),
            "effects": effects,
            "user": (context.user_id,),
            "origin": (context.origin,),
            "provenance": seen,
        }
        if any(not _holds(wanted, facts[key]) for key, wanted in self.rule.when.items()):
            return False
        return not self.rule.unless or not all(
            _holds(wanted, facts[key]) for key, wanted in self.rule.unless.items()
        )


def _holds(wanted: Any, facts: Collection[str]) -> bool:
    options = [wanted] if isinstance(wanted, str) else wanted
    return any(fnmatch.fnmatchcase(fact, str(option)) for fact in facts for option in options)


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
        ConfigError: The SPEC fits neither a parameter nor the tool's subjects.
    """
    if rule.where:
        return BoundRule(rule, None, _where_matcher(rule, rule.where), _all_literal(rule.where))
    if rule.is_bare:
        return BoundRule(rule, "command" if kind == "command" else None, _always_true)
    assert rule.spec is not None
    if kind == "command":
        return BoundRule(rule, "command", _always_true)
    named = _NAMED.fullmatch(rule.spec)
    properties = (parameters or {}).get("properties", {})
    if named and (named["name"] in properties):
        where = {named["name"]: named["glob"]}
        return BoundRule(rule, None, _where_matcher(rule, where), _all_literal(where))
    if kind is not None:
        from hardpoint.subjects import parse_pattern

        try:
            pattern = parse_pattern(kind, rule.spec)
        except ConfigError as error:
            raise ConfigError(f"{rule.source}: rule {str(rule)!r}: {error.message}") from error
        return BoundRule(rule, kind, _subject_matcher(rule, kind, pattern), _is_literal(rule.spec))
    known = ", ".join(sorted(properties)) or "none"
    raise ConfigError(
        f"{rule.source}: rule {str(rule)!r} can match nothing: {tool!r} has no parameter of that"
        f" name (it has: {known}) and no path, URL or command subject"
    )


def _always_true(params: Mapping[str, Any], subjects: Sequence[Subject]) -> bool:
    return True


def _where_matcher(rule: Rule, where: Mapping[str, Any]) -> Matcher:
    every = rule.decision == "allow"

    def matches(params: Mapping[str, Any], subjects: Sequence[Subject]) -> bool:
        return all(
            name in params and _value_matches(params[name], wanted, every)
            for name, wanted in where.items()
        )

    return matches


def _value_matches(value: Any, wanted: Any, every: bool) -> bool:
    if isinstance(value, list) and not isinstance(wanted, list):
        hits = [_value_matches(member, wanted, every) for member in value]
        return bool(hits) and (all(hits) if every else any(hits))
    if isinstance(value, str) and isinstance(wanted, str):
        return _glob(wanted)(value) is not None
    if isinstance(wanted, str):
        return any(_json_equal(value, meant) for meant in _as_json(wanted))
    return _json_equal(value, wanted)


@lru_cache(maxsize=1024)
def _as_json(text: str) -> tuple[Any, ...]:
    """The value that a text is in JSON, if it is one."""
    try:
        return (json.loads(text),)
    except (ValueError, RecursionError):
        return ()


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
    return re.compile(fnmatch.translate(pattern)).fullmatch


def _subject_matcher(rule: Rule, kind: SubjectKind, pattern: Any) -> Matcher:
    every = rule.decision == "allow"

    def matches(params: Mapping[str, Any], subjects: Sequence[Subject]) -> bool:
        hits = [pattern.matches(s.value, s.operation) for s in subjects if s.kind == kind]
        return bool(hits) and (all(hits) if every else any(hits))

    return matches


def _is_literal(text: str) -> bool:
    return not any(star in text for star in "*?[")


def _all_literal(where: Mapping[str, Any]) -> bool:
    return all(not isinstance(value, str) or _is_literal(value) for value in where.values())


def rules_for(rules: Iterable[Rule], tool: str) -> Sequence[Rule]:
    """The rules that name a tool, in the order deny, ask, allow."""
    order: Mapping[str, int] = {"deny": 0, "ask": 1, "allow": 2}
    return sorted((r for r in rules if r.names(tool)), key=lambda r: order[r.decision])
