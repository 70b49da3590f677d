"""Read the rules of the configuration. What one means for a tool is settled in `binding`."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import attrs

from hardpoint.config import RuleEntry, Source
from hardpoint.errors import ConfigError
from hardpoint.limits import ToolRateLimitConfig
from hardpoint.policy.conditions import NO_CONDITIONS, Conditions, Facts, hold, read_conditions
from hardpoint.policy.verdict import DecisionWord, Reason
from hardpoint.protected import canonical_name

_RULE: Final = re.compile(r"(?P<tool>[A-Za-z0-9_.*?-]+)(?:\((?P<spec>.*)\))?", re.DOTALL)
_KEYS: Final = frozenset(
    {"tool", "where", "reason", "match", "not_match", "when", "unless", "rate_limit"}
)


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
    when: Conditions = NO_CONDITIONS
    unless: Conditions = NO_CONDITIONS
    rate_limit: ToolRateLimitConfig | None = None
    """How often one user may make the calls that it matches, all of them together."""
    source: Source = attrs.field(factory=Source)

    def __str__(self) -> str:
        name = self.tool if self.spec is None else f"{self.tool}({self.spec})"
        if not self.where:
            return name
        return f"{name} where {json.dumps(dict(self.where), default=str)}"

    @property
    def is_glob(self) -> bool:
        return any(star in self.tool for star in "*?")

    @property
    def is_bare(self) -> bool:
        """A rule about the tool as such, whatever the arguments."""
        return self.spec in (None, "*") and not self.where

    @property
    def is_unconditional(self) -> bool:
        return self.is_bare and not self.when and not self.unless

    def applies(self, facts: Facts) -> bool:
        """Whether `when` and `unless` let the rule count.

        An allow rule counts when everything about the call is in its `when`; a rule that restricts
        counts when anything is. For `unless` it is the other way round.
        """
        widens = self.decision == "allow"
        if self.when and not hold(self.when, facts, all_of_them=widens):
            return False
        return not self.unless or not hold(self.unless, facts, all_of_them=not widens)

    def names(self, tool: str) -> bool:
        """Whether it speaks of this tool; names that the registry takes for one are one here."""
        return self.tool == tool or _named(self.tool, self.is_glob, tool)

    def because(self, why: str, segment: str | None = None) -> Reason:
        return Reason(self.reason or why, str(self), str(self.source), segment)


@lru_cache(maxsize=65_536)
def _named(pattern: str, is_glob: bool, tool: str) -> bool:
    pattern, tool = canonical_name(pattern), canonical_name(tool)
    return fnmatch.fnmatchcase(tool, pattern) if is_glob else tool == pattern


def parse_rule(entry: RuleEntry) -> Rule:
    """Read one rule.

    Raises:
        ConfigError: It is not a rule; the message names file and line and says what is wrong.
    """
    try:
        if isinstance(entry.spec, str):
            return _parse_text(entry, entry.spec)
        return _parse_table(entry, entry.spec)
    except ValueError as error:
        raise ConfigError(f"{entry.source}: policy.{entry.decision}: {error}") from error


def _parse_text(entry: RuleEntry, text: str) -> Rule:
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a rule; write tool, tool(SPEC) or server__*")
    if found["spec"] is not None and not found["spec"].strip():
        raise ValueError(f"{text!r} has an empty SPEC; write {found['tool']!r} for every call")
    return Rule(entry.decision, found["tool"], found["spec"], source=entry.source)


def _parse_table(entry: RuleEntry, table: Mapping[str, Any]) -> Rule:
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}")
    if not isinstance(table.get("tool"), str):
        raise ValueError("a rule table needs `tool`, the name of a tool")
    reason = table.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise ValueError("`reason` must be text")
    return attrs.evolve(
        _parse_text(entry, table["tool"]),
        where=_where(table),
        reason=reason,
        match=_examples(table, "match"),
        not_match=_examples(table, "not_match"),
        when=read_conditions("when", table["when"]) if "when" in table else NO_CONDITIONS,
        unless=read_conditions("unless", table["unless"]) if "unless" in table else NO_CONDITIONS,
        rate_limit=_rate_limit(entry, table),
    )


def _where(table: Mapping[str, Any]) -> Mapping[str, Any]:
    if "where" not in table:
        return {}
    where = table["where"]
    if not isinstance(where, Mapping) or not where:
        # An empty one would make a rule about some calls a rule about all of them.
        raise ValueError("`where` must be a table of parameters and what they are; leave it out")
    return dict(where)


def _examples(table: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    value = table.get(key, ())
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"`{key}` must be a list of examples")
    return tuple(value)


def _rate_limit(entry: RuleEntry, table: Mapping[str, Any]) -> ToolRateLimitConfig | None:
    if "rate_limit" not in table:
        return None
    if entry.decision == "deny":
        raise ValueError("`rate_limit` means nothing in a rule that denies")
    from hardpoint.serde import structure

    try:
        return structure(table["rate_limit"], ToolRateLimitConfig, "rate_limit")
    except ConfigError as error:
        raise ValueError(error.message) from error


def rules_for(rules: Iterable[Rule], tool: str) -> Sequence[Rule]:
    """The rules that name a tool, in the order deny, ask, allow."""
    order: Mapping[str, int] = {"deny": 0, "ask": 1, "allow": 2}
    return sorted((r for r in rules if r.names(tool)), key=lambda r: order[r.decision])
