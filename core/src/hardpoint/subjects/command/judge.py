"""Judge a command line: every simple command at every depth, and everything that each of them runs.

The strictest part decides. What the rules of a policy say about the parts is in `decide`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import attrs

from hardpoint.subjects.command import places
from hardpoint.subjects.command.characters import suspicious
from hardpoint.subjects.command.checks import check_program
from hardpoint.subjects.command.danger import table_findings
from hardpoint.subjects.command.environment import check_assignment, is_harmless
from hardpoint.subjects.command.finding import RANK, Finding, ask, refuse, strictest
from hardpoint.subjects.command.forks import fork_bombs, unread_fork_bomb
from hardpoint.subjects.command.interpreters import SHELLS
from hardpoint.subjects.command.model import CommandVerdict, Cover, Segment
from hardpoint.subjects.command.openers import open_command
from hardpoint.subjects.command.opening import Code, Inner, Runs, Stdin
from hardpoint.subjects.command.parse import read_line
from hardpoint.subjects.command.reading import Command, Redirect
from hardpoint.subjects.command.second import second_reading
from hardpoint.subjects.command.sources import Frame, base_name, file_key, printed_text
from hardpoint.subjects.command.staging import Staging, Written
from hardpoint.subjects.command.words import HOLE, Span, Word

# Linux hands a program no argument longer than this, so no shell ever sees such a line.
MAX_LENGTH: Final = 131_072
MAX_SEGMENTS: Final = 3_000
MAX_WORDS: Final = 3_000
_MAX_TEXT: Final = 2 * MAX_LENGTH
_MAX_NESTING: Final = 12
_MAX_DEPTH: Final = 80


def judge_command(command: str | Sequence[str]) -> CommandVerdict:
    """Judge a command line, or a command given as a list of words.

    Args:
        command: A line for `sh -c`, or the program and its arguments.

    Returns:
        How strict to be: `unless_auto_approved` for an ordinary line, `always` for one that
        destroys, needs privileges, sends data away or cannot be told before it runs, `deny` for
        one that never runs.
    """
    line = command if isinstance(command, str) else shlex.join(command)
    return _judge_line(line)


@lru_cache(maxsize=256)
def _judge_line(line: str) -> CommandVerdict:
    judge = _Judge()
    try:
        judge.line(line)
    except RecursionError:
        # The limits on depth are meant to come first; where they do not, no answer means no.
        judge.notes.append(ask("nested too deep to judge"))
    requirement = strictest(
        [*(s.requirement for s in judge.segments), *(f.requirement for f in judge.notes)]
    )
    notes = tuple(
        dict.fromkeys(f.why for f in judge.notes if RANK[f.requirement] >= RANK[requirement])
    )
    reasons = [*notes, *(why for segment in judge.segments for why in segment.why)]
    return CommandVerdict(
        requirement, tuple(judge.segments), tuple(dict.fromkeys(reasons)), line, notes
    )


@attrs.define
class _Part:
    """A program with its arguments, wherever it stands, and what is known of it so far."""

    words: tuple[Word, ...]
    command: Command
    """The command of the text in which it stands."""
    frame: Frame
    depth: int
    context: str
    parent: int | None = None
    at: int | None = None
    findings: list[Finding] = attrs.field(factory=list)
    inner: list[Inner] = attrs.field(factory=list)
    cover: Cover = "program"


class _Judge(Staging):
    def __init__(self) -> None:
        super().__init__()
        self.notes: list[Finding] = []
        self.aliases: set[str] = set()
        self.read = 0
        """How much text has been read, what is inside other text counted again."""

    # texts -------------------------------------------------------------------------------------

    def line(self, line: str) -> None:
        if "\0" in line:
            self.notes.append(refuse("a command line cannot hold NUL"))
            return
        if not line.strip():
            self.notes.append(ask("there is no command"))
            return
        if len(line) > MAX_LENGTH or len(line.encode("utf-8", "replace")) > MAX_LENGTH:
            self.notes.append(ask(f"longer than {MAX_LENGTH} bytes"))
            return
        odd = suspicious(line)
        if odd:
            self.notes.append(ask(odd))
        self.text(line, 0, "line")
        findings, texts = self.staged()
        self.notes += findings
        for text in texts:
            self.text(text, 1, "a file that the line writes")

    def text(
        self,
        text: str,
        depth: int,
        context: str,
        parent: int | None = None,
        outer: tuple[Command, Frame] | None = None,
    ) -> None:
        """Judge text that a shell reads."""
        self.read += len(text)
        if depth > _MAX_NESTING or self.read > _MAX_TEXT:
            self.notes.append(ask("too much inside one line to judge"))
            return
        readings = read_line(text)
        known: set[tuple[str, ...]] = set()
        for reading in readings:
            if reading.failure:
                self.notes.append(ask(f"cannot be read to its end: {reading.failure}"))
                self.notes += unread_fork_bomb(text)
            self.notes += [ask(doubt) for doubt in dict.fromkeys(reading.doubts)]
            self.notes += fork_bombs(reading)
            frame = Frame(reading, depth, outer)
            here: set[tuple[str, ...]] = set()
            for command in reading.commands:
                start = len(self.segments)
                # A second reading repeats most of the first.
                key = (command.source, command.context, *(word.text for word in command.words))
                if key not in known:
                    self.command(command, frame, context, parent)
                here.add(key)
                frame.spans.append(Span(start, len(self.segments)))
            known |= here
        if not any(reading.failure for reading in readings):
            starts = {command.start for reading in readings for command in reading.commands}
            first = readings[0]
            doubt = second_reading(text, starts, first.inner_texts, first.documents)
            if doubt:
                self.notes.append(ask(doubt))

    # commands ----------------------------------------------------------------------------------

    def command(self, command: Command, frame: Frame, context: str, parent: int | None) -> None:
        """Judge one simple command of a text."""
        part = _Part(
            tuple(command.words),
            command,
            frame,
            frame.depth + command.depth,
            context if command.context == "line" else command.context,
            parent,
        )
        if command.is_test or not command.words:
            part.cover = "none"
        for redirect in command.redirects:
            part.findings += self._redirect(redirect, command, frame)
            if redirect.writes and not _discards(redirect):
                part.cover = "bare"
        self._assign(part, command.assignments, covered=not command.words)
        reads = any(redirect.reads for redirect in command.redirects)
        if reads and [word.text for word in command.words] == ["exec"]:
            self.input_replaced = True
        self.part(part)

    def _redirect(self, redirect: Redirect, command: Command, frame: Frame) -> list[Finding]:
        target = redirect.target
        if places.is_network_device(target):
            program = base_name(command.words[0]) if command.words else ""
            if program in SHELLS:
                return [refuse("hands a shell to the network")]
            return [ask("opens a network connection")]
        if not redirect.writes:
            return []
        if not _discards(redirect):
            fetched = self.prints_fetched(command, frame)
            self.written.append(Written(file_key(target), printed_text(command), fetched))
        finding = places.writing(target)
        return [finding] if finding else []

    def _assign(self, part: _Part, assignments: list[tuple[str, Word]], covered: bool) -> None:
        """Judge variables set for a command; `covered` when they are part of its own words."""
        for name, value in assignments:
            findings, code = check_assignment(name, value)
            part.findings += findings
            part.inner += code
            if not covered and not is_harmless(name) and part.cover != "none":
                part.cover = "bare"

    def part(self, part: _Part) -> None:
        """Judge a program with its arguments, and then what it runs."""
        if part.depth > _MAX_DEPTH or len(self.segments) >= MAX_SEGMENTS:
            self.notes.append(ask("too much inside one line to judge"))
            return
        if len(part.words) > MAX_WORDS:
            part.findings.append(ask(f"more than {MAX_WORDS} words in one command"))
            part.words = part.words[:MAX_WORDS]
        program = base_name(part.words[0]) if part.words else ""
        if part.words:
            part.findings += self._program(program, part)
        if program:
            self._open(program, part)
        for inner in part.inner:
            part.findings += self.unreadable(inner, part.command, part.frame)
        number = len(self.segments)
        self.segments.append(_segment(program, part))
        for inner in part.inner:
            self._inside(inner, part, number)

    def _open(self, program: str, part: _Part) -> None:
        """Find out what a program runs."""
        opened = open_command(program, part.words)
        part.findings += opened.findings
        part.inner += opened.inner
        runs = any(isinstance(inner, Runs) for inner in opened.inner)
        self._assign(part, opened.assignments, covered=not runs)
        self.aliases.update(opened.aliases)
        self.remember_files(program, part.words, part.command, part.frame)
        if opened.neutral and opened.inner and part.cover == "program":
            part.cover = "none"

    def _inside(self, inner: Inner, part: _Part, number: int) -> None:
        """Judge what a command runs."""
        depth, outer = part.frame.depth + 1, (part.command, part.frame)
        if isinstance(inner, Runs):
            runs = _Part(
                inner.words, *outer, part.depth + 1, inner.context, parent=number, at=inner.at
            )
            if inner.deletes_matches and base_name(inner.words[0]) in ("rm", "unlink", "shred"):
                runs.findings.append(ask("deletes everything that a search finds"))
            self.part(runs)
        elif isinstance(inner, Code):
            # What is known only at run time is judged as a variable would be.
            text = inner.text.text.replace(HOLE, '"${_}"')
            self.text(text, depth, inner.context, number, outer)
        elif isinstance(inner, Stdin) and inner.shell:
            known = self.known_input(*outer)
            if known is not None:
                self.text(known, depth, inner.context, number)

    def _program(self, program: str, part: _Part) -> list[Finding]:
        """What is wrong with a program and the way it is used."""
        first = part.words[0]
        if not program:
            if first.glob and HOLE not in first.text:
                return [ask("a wildcard decides which program runs")]
            if first.text == "":
                return [ask("the program has no name")]
            return [ask("which program runs is known only at run time")]
        findings: list[Finding] = []
        if not first.text.isascii():
            findings.append(ask("the program's name holds characters that no program's name has"))
        if program in self.aliases:
            findings.append(ask("an alias of this line changes what the name runs"))
        if re.match(r"[A-Za-z]:|.*\\|.*\.(?:exe|bat|cmd|ps1)$", first.text, re.DOTALL):
            findings.append(ask("a program of another system cannot be judged"))
        findings += check_program(program, part.words, self.input_of(part.command, part.frame))
        return findings + table_findings(program, part.words)


def _segment(program: str, part: _Part) -> Segment:
    requirement = strictest([finding.requirement for finding in part.findings])
    own = part.at is None and part.parent is None
    return Segment(
        text=" ".join(word.shown for word in part.words) or part.command.source,
        words=part.words,
        source=part.command.source if own else "",
        depth=part.depth,
        context=part.context,
        requirement=requirement,
        why=tuple(dict.fromkeys(f.why for f in part.findings if f.requirement == requirement)),
        cover="exact" if requirement == "always" else part.cover,
        program=program,
        extras=part.cover == "bare",
        parent=part.parent,
        at=part.at,
    )


def _discards(redirect: Redirect) -> bool:
    return redirect.target.text in (
        "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2", "/dev/tty",
    )  # fmt: skip
