"""What reading a command line gives: its simple commands, and everything that was doubtful."""

from __future__ import annotations

import re
from typing import Final

import attrs

from hardpoint.subjects.command.lexer import HereDocument
from hardpoint.subjects.command.words import Span, Word

UNKNOWN_FEED: Final = Span(-1, -1)
"""Something is written to a command, and nobody knows by which."""


@attrs.define
class Redirect:
    """One redirection."""

    operator: str
    target: Word
    document: HereDocument | None = None
    descriptor: str = ""

    @property
    def reads(self) -> bool:
        return self.operator in ("<", "<<", "<<-", "<<<", "<>", "<&")

    @property
    def writes(self) -> bool:
        return self.operator in (">", ">>", ">|", "&>", "&>>", "<>") or (
            self.operator == ">&" and not re.fullmatch(r"\d+-?|-", self.target.text)
        )


@attrs.define
class Command:
    """One simple command, or the redirections of a compound one (then without words)."""

    words: list[Word]
    assignments: list[tuple[str, Word]]
    redirects: list[Redirect]
    source: str
    start: int
    """Where its first word stands in the line, behind assignments and redirections; -1 inside a
    text of its own."""
    depth: int
    context: str
    feed: Span | None
    """The commands whose output may be its standard input."""
    pipeline: int
    function: str | None
    """The function in whose body it stands."""
    outer: list[Redirect] = attrs.field(factory=list)
    """Redirections of the compound commands around it."""
    background: bool = False
    is_test: bool = False


@attrs.define
class Reading:
    """What one dialect makes of a line."""

    commands: list[Command] = attrs.field(factory=list)
    functions: set[str] = attrs.field(factory=set)
    doubts: list[str] = attrs.field(factory=list)
    failure: str | None = None
    """Why the line cannot be read to its end."""
    gave_up: bool = False
    """The failure is ours: a shell may well read on."""
    inner_texts: list[tuple[int, int]] = attrs.field(factory=list)
    documents: list[tuple[int, int]] = attrs.field(factory=list)
