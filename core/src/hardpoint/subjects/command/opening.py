"""What a command turns out to run besides itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from hardpoint.subjects.command.finding import Finding
from hardpoint.subjects.command.words import HOLE, Word

INPUT: Final = Word(HOLE, "{input}", splits=True)
"""Words that come from standard input, one or many."""


def _tuple(words: Iterable[Word]) -> tuple[Word, ...]:
    return tuple(words)


@attrs.frozen
class Runs:
    """A program with its arguments, in words of the line."""

    words: tuple[Word, ...] = attrs.field(converter=_tuple)
    context: str
    at: int | None = None
    """Where these words start among those of the command that runs them."""
    deletes_matches: bool = False
    """It is run on everything that a search finds."""


@attrs.frozen
class Code:
    """Text for a shell."""

    text: Word
    context: str


@attrs.frozen
class Script:
    """A file whose content is run, or text that only exists at run time."""

    path: Word
    context: str
    shell: bool = True


@attrs.frozen
class Stdin:
    """Standard input is run."""

    context: str
    shell: bool = True


Inner = Runs | Code | Script | Stdin


@attrs.define
class Opened:
    """Everything that a command runs, and what is wrong with the way it does."""

    inner: list[Inner] = attrs.field(factory=list)
    findings: list[Finding] = attrs.field(factory=list)
    neutral: bool = False
    """Running something this way changes nothing that a rule would care about."""
    assignments: list[tuple[str, Word]] = attrs.field(factory=list)
    aliases: list[str] = attrs.field(factory=list)

    def add(self, *inner: Inner) -> Opened:
        self.inner += inner
        return self

    def find(self, *findings: Finding) -> Opened:
        self.findings += findings
        return self


def joined(words: Sequence[Word]) -> Word:
    """One text of several words, as `eval` and `ssh` make it."""
    return Word(
        " ".join(word.text for word in words),
        " ".join(word.shown for word in words),
        splits=any(word.splits for word in words),
        substitutions=tuple(span for word in words for span in word.substitutions),
        variables=tuple(name for word in words for name in word.variables),
    )
