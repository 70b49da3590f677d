"""Matchers for what a call acts on: command lines, paths, URLs and plain text.

Which rule applies and what it leads to is decided in the policy; here is only what a pattern says
and, for command lines, how strict to be with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from hardpoint.errors import ConfigError
from hardpoint.subjects.path import PathPattern
from hardpoint.subjects.text import TextPattern
from hardpoint.subjects.url import UrlPattern

if TYPE_CHECKING:
    from hardpoint.subjects.command import (
        UNRESOLVED,
        CommandAnswer,
        CommandPattern,
        CommandReason,
        CommandVerdict,
        Segment,
        decide_command,
        judge_command,
    )

__all__ = [
    "UNRESOLVED",
    "CommandAnswer",
    "CommandPattern",
    "CommandReason",
    "CommandVerdict",
    "PathPattern",
    "Pattern",
    "Segment",
    "TextPattern",
    "UrlPattern",
    "decide_command",
    "judge_command",
    "parse_pattern",
]


def __getattr__(name: str) -> Any:
    # Understanding command lines takes tables and a grammar that only they need.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hardpoint.subjects import command

    return getattr(command, name)


class Pattern(Protocol):
    """What `parse_pattern` gives."""

    @property
    def spec(self) -> str: ...

    def matches(self, value: object, operation: str = "") -> bool:
        """Whether a subject of the pattern's kind fits."""
        ...


def parse_pattern(kind: Literal["path", "url", "text"] | str, spec: str) -> Pattern:
    """Read the SPEC of a rule for one kind of subject.

    Args:
        kind: `path`, `url` or `text`; for command lines use `decide_command`, which judges a line
            with all rules at once.
        spec: What stands in the brackets of the rule.

    Raises:
        ConfigError: The SPEC is no pattern of this kind.
    """
    if kind == "path":
        return PathPattern.parse(spec)
    if kind == "url":
        return UrlPattern.parse(spec)
    if kind == "text":
        return TextPattern.parse(spec)
    raise ConfigError(f"no pattern can be written for subjects of kind {kind!r}")
