"""A place in a command line, how it moves, and the limits on reading one."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Final, Literal

import attrs

from hardpoint.subjects.command.words import HOLE, Span

Dialect = Literal["bash", "posix"]

MAX_DEPTH: Final = 40
MAX_WORDS: Final = 12_000
_MAX_RETRIES: Final = 64

_BLANKS: Final = re.compile(r"(?:[ \t]|\\\n)*")
CONTINUATION: Final = re.compile(r"(?:\\\n)+")


class Unreadable(Exception):
    """No shell of this dialect reads the line on beyond this place."""


class TooComplex(Unreadable):
    """Some shell may read on; nobody who has to answer soon does."""


@attrs.define
class Piece:
    """What has been read of one word so far."""

    parts: list[str] = attrs.field(factory=list)
    splits: bool = False
    quoted: bool = False
    substitutions: list[Span] = attrs.field(factory=list)
    variables: list[str] = attrs.field(factory=list)

    def add(self, text: str) -> None:
        self.parts.append(text)

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def hole(self, in_quotes: bool) -> None:
        self.parts.append(HOLE)
        self.splits = self.splits or not in_quotes


class Cursor(ABC):
    """A place in a text, and what has been noticed on the way."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.dialect = dialect
        self.pos = 0
        self.depth = 0
        self.retries = 0
        self.word_count = 0
        self.doubts: list[str] = []
        """Places that shells read differently; each makes the line one that asks."""
        self.inner_texts: list[tuple[int, int]] = []
        """Stretches whose inside was read as a text of its own."""
        self.documents: list[tuple[int, int]] = []
        """Stretches that belong to here-documents: operators with end words, and bodies."""
        self.own_text = True
        """Places are places in the line, not in a text inside it."""

    # what `parse` provides ---------------------------------------------------------------------

    @abstractmethod
    def substitution(self, closer: str, fed: bool = False) -> Span:
        """Read commands up to `closer` and past it; `fed` when the line writes to them."""

    @abstractmethod
    def nested(self, text: str) -> Span:
        """Read a text of its own, such as the inside of backquotes."""

    def starts(self, token: str) -> bool:
        """Whether `token` stands here; a line continuation inside it does not matter."""
        if self.text.startswith(token, self.pos):
            return True
        return self.text.startswith(token[0] + "\\\n", self.pos) and bool(self._end_of(token))

    def take(self, token: str) -> bool:
        end = self._end_of(token)
        if end:
            self.pos = end
        return bool(end)

    def _end_of(self, token: str) -> int:
        at = self.pos
        for char in token:
            if self.text.startswith("\\\n", at) and at > self.pos:
                joined = CONTINUATION.match(self.text, at)
                at = joined.end() if joined else at
            if not self.text.startswith(char, at):
                return 0
            at += 1
        return at

    def skip_blanks(self) -> None:
        match = _BLANKS.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()

    def back_to(self, pos: int, depth: int) -> None:
        """Read a stretch a second time, in another way."""
        self.pos, self.depth = pos, depth
        self.retries += 1
        if self.retries > _MAX_RETRIES:
            raise TooComplex("too many places that can be read in two ways")

    @property
    def at_end(self) -> bool:
        return self.pos >= len(self.text)

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooComplex(f"nested more than {MAX_DEPTH} levels deep")
