"""What a judged command line is made of."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, Literal

import attrs

from hardpoint.subjects.command.finding import Requirement
from hardpoint.subjects.command.words import Word


class Unresolved(Enum):
    """The type of `UNRESOLVED`."""

    UNRESOLVED = "unresolved"

    def __repr__(self) -> str:
        return "UNRESOLVED"


UNRESOLVED: Final = Unresolved.UNRESOLVED
"""A word of a segment whose value is known only when the line runs."""

Cover = Literal["none", "program", "bare", "exact"]


@attrs.frozen
class Segment:
    """One simple command of a line, at whatever depth."""

    text: str
    """Its words with one blank between them."""
    words: tuple[Word, ...]
    source: str
    """As it stands in the line."""
    depth: int
    context: str
    """`line`, `substitution`, `function f`, or the program or option that runs it."""
    requirement: Requirement
    why: tuple[str, ...]
    cover: Cover
    """Which allow rules can cover it: none is needed, one for the program, one for every command,
    or one that spells it out."""
    program: str
    """Base name in lower case; empty when it is known only at run time."""
    extras: bool = False
    """It writes a file or sets variables that a rule for its words does not speak of."""
    parent: int | None = None
    """The segment that runs it, by number."""
    at: int | None = None
    """Where its words start among those of `parent`."""

    @property
    def argv(self) -> tuple[str | Unresolved, ...]:
        """Its words; `UNRESOLVED` for each that is known only at run time."""
        return tuple(UNRESOLVED if (text := word.literal) is None else text for word in self.words)


@attrs.frozen
class CommandVerdict:
    """How strict to be with a line, and why."""

    requirement: Requirement
    segments: tuple[Segment, ...]
    reasons: tuple[str, ...]
    """Everything that makes the line more than ordinary."""
    text: str
    """The line."""
    notes: tuple[str, ...] = ()
    """Those of the reasons that are about the line as a whole."""

    def grounds(self) -> Iterator[tuple[str | None, str]]:
        """The reasons with the segment each is about, the strictest only."""
        for note in self.notes:
            yield None, note
        for segment in self.segments:
            if segment.requirement == self.requirement:
                for why in segment.why:
                    yield segment.text, why
