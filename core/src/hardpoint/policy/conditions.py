"""The `when` and `unless` of a rule: for which callers, sessions, domains and effects it counts."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs

from hardpoint.tools import ALL_EFFECTS

Conditions = Mapping[str, tuple[str, ...]]
"""By name, the words of which one is wanted. Users and domains may be globs."""

NO_CONDITIONS: Final[Conditions] = {}

# The words that a fact can be; None: any text, so globs make sense.
_WORDS: Final[Mapping[str, Collection[str] | None]] = {
    "domain": None,
    "effects": ALL_EFFECTS,
    "user": None,
    "origin": ("library", "cli", "gateway", "job", "tool", "builder"),
    "provenance": ("trusted", "untrusted", "private"),
}


@attrs.frozen
class Facts:
    """What conditions are held against."""

    domain: str
    effects: Collection[str]
    user: str
    origins: Collection[str]
    """Where the call comes from; one that a tool makes also comes from where its root does."""
    seen: Collection[str] = ()
    """The provenances that the session has read so far, beside what is trusted."""

    def of(self, name: str) -> Collection[str]:
        if name == "effects":
            return self.effects
        if name == "origin":
            return self.origins
        if name == "provenance":
            return self.seen or ("trusted",)
        return (self.domain,) if name == "domain" else (self.user,)


def read_conditions(group: str, table: Any) -> Conditions:
    """Read one table.

    Raises:
        ValueError: A condition is unknown, or can never hold.
    """
    if not isinstance(table, Mapping) or not table:
        raise ValueError(f"`{group}` must be a table of conditions: {', '.join(sorted(_WORDS))}")
    return {name: _words(group, name, wanted) for name, wanted in table.items()}


def _words(group: str, name: str, wanted: Any) -> tuple[str, ...]:
    if name not in _WORDS:
        near = _nearest(name, _WORDS)
        raise ValueError(f"`{group}` has no condition {name!r}{near}")
    words = (wanted,) if isinstance(wanted, str) else wanted
    if (
        not isinstance(words, list | tuple)
        or not words
        or not all(isinstance(word, str) and word for word in words)
    ):
        raise ValueError(f"`{group}.{name}` must be a word or a list of words, at least one")
    known = _WORDS[name]
    for word in words:
        if known is not None and word not in known:
            raise ValueError(f"`{group}.{name}` is never {word!r}{_nearest(word, known)}")
    return tuple(words)


def _nearest(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known))}"


def hold(conditions: Conditions, facts: Facts, *, all_of_them: bool) -> bool:
    """Whether every condition holds.

    Args:
        conditions: What is wanted.
        facts: What is.
        all_of_them: Of a fact with several values, like effects, all must be wanted; otherwise one
            is enough. What widens rights needs the first, what takes them away the second.
    """
    quantifier = all if all_of_them else any
    return all(
        quantifier(_fits(value, wanted) for value in facts.of(name))
        for name, wanted in conditions.items()
    )


def _fits(value: str, wanted: Collection[str]) -> bool:
    return any(fnmatch.fnmatchcase(value, word) for word in wanted)
