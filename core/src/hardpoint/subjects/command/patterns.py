"""Patterns over commands in rules: exact, a prefix of words, or with stars.

An allow rule covers what it says and nothing else. An ask or deny rule also finds what it means in
other spellings: another path or letter case of the program, options bundled or in another order.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

import attrs

from hardpoint.errors import ConfigError
from hardpoint.subjects.command.args import SINGLE_DASH, Args, Option
from hardpoint.subjects.command.danger import read_program
from hardpoint.subjects.command.model import Segment
from hardpoint.subjects.command.parse import read_line
from hardpoint.subjects.command.words import HOLE, Word, words_of
from hardpoint.subjects.stars import join_stars

Match = Literal["no", "maybe", "yes"]
Kind = Literal["all", "exact", "prefix", "stars"]

# Short and long forms that mean the same in most programs.
_SYNONYMS: Final = (
    {"-r", "-R", "--recursive"}, {"-f", "--force"}, {"-d", "--delete"}, {"-a", "--all"},
    {"-q", "--quiet"}, {"-v", "--verbose"}, {"-n", "--dry-run"}, {"-i", "--in-place"},
    {"-i", "--interactive"}, {"-o", "--output"}, {"-X", "--request"}, {"-T", "--upload-file"},
    {"-u", "--user"}, {"-y", "--yes"}, {"-g", "--global"}, {"-p", "--publish"}, {"-m", "--message"},
    {"-D", "--delete"}, {"-x", "--exec"}, {"-c", "--command"}, {"-e", "--execute"},
)  # fmt: skip


@attrs.frozen
class CommandPattern:
    """The SPEC of a rule for a tool whose subject is a command line."""

    spec: str
    kind: Kind
    words: tuple[str, ...] = ()
    """The words of an exact or prefix pattern."""

    @classmethod
    def parse(cls, spec: str) -> CommandPattern:
        """Read a SPEC.

        Raises:
            ConfigError: It cannot match any command line.
        """
        return _parse(spec)

    @property
    def is_bare(self) -> bool:
        return self.kind == "all"

    def covers(self, segment: Segment) -> bool:
        """Whether, as an allow rule, it speaks of this very command."""
        if self.kind == "all":
            return segment.cover in ("program", "bare")
        if self.kind == "exact":
            return self.spells_out(segment)
        if segment.cover != "program" or segment.extras:
            return False
        if self.kind == "prefix":
            return self.words == tuple(w.shown for w in segment.words[: len(self.words)])
        return _stars(self.spec).fullmatch(segment.text) is not None

    def spells_out(self, segment: Segment) -> bool:
        """Whether it is exact and names this command, so that it may allow any."""
        if self.kind != "exact":
            return False
        if segment.requirement != "unless_auto_approved" and any(
            HOLE in word.text for word in segment.words
        ):
            return False
        if segment.source and segment.source == self.spec:
            return True
        return not segment.extras and self.words == tuple(w.shown for w in segment.words)

    def reaches(self, segment: Segment) -> int:
        """How many words of a command a prefix names."""
        return len(self.words) if self.kind == "prefix" and self.covers(segment) else 0

    def finds(self, segment: Segment) -> Match:
        """Whether, as an ask or deny rule, it means this command in any spelling."""
        if self.kind == "all":
            return "yes"
        if not segment.words:
            return "yes" if segment.source == self.spec else "no"
        if segment.source and segment.source == self.spec:
            return "yes"
        if not segment.program:
            return "maybe"
        if self.kind == "stars":
            return self._finds_stars(segment)
        name = self.words[0].rpartition("/")[2].lower()
        if name != segment.program.removesuffix(".exe"):
            return "no"
        if self.words == tuple(w.shown for w in segment.words[: len(self.words)]) and (
            self.kind == "prefix" or len(self.words) == len(segment.words)
        ):
            return "yes"
        return self._finds_args(segment)

    def _finds_stars(self, segment: Segment) -> Match:
        pattern = _stars(self.spec, loose=True)
        before, _ = read_program(segment.program, segment.words)
        shown = [word.shown for word in segment.words[1:]]
        rest = [word.shown for word in before.rest]
        for words in (shown, rest):
            text = " ".join([segment.program, *words])
            if pattern.fullmatch(text) or pattern.fullmatch(segment.text):
                return "yes"
        program = self.spec.split(" ", 1)[0].rpartition("/")[2].lower()
        if program == segment.program and any(HOLE in word.text for word in segment.words):
            return "maybe"
        return "no"

    def _finds_args(self, segment: Segment) -> Match:
        wanted_before, wanted = read_program(segment.program, words_of(self.words))
        before, given = read_program(segment.program, segment.words)
        # Without a subcommand both are the same arguments.
        options = given.options if before is given else (*before.options, *given.options)
        result: Match = "yes"
        wanted_options = (
            wanted.options if wanted_before is wanted
            else (*wanted_before.options, *wanted.options)
        )  # fmt: skip
        for option in wanted_options:
            if any(_same_option(option, found, segment.program) for found in options):
                continue
            if not any(word.may_be_option and HOLE in word.text for word in segment.words[1:]) and (
                not any(word.glob and _may_be(word.text, option.name) for word in given.operands)
            ):
                return "no"
            result = "maybe"
        operands = _match_words([word.text for word in wanted.operands], given)
        if operands == "no":
            return "no"
        if self.kind == "exact":
            if len(given.operands) - len(given.unsure) > len(wanted.operands):
                return "no"
            extra = [
                found
                for found in given.options
                if not any(
                    _same_option(option, found, segment.program) for option in wanted_options
                )
            ]
            if extra:
                return "no"
        return "maybe" if "maybe" in (result, operands) else "yes"


@lru_cache(maxsize=1024)
def _parse(spec: str) -> CommandPattern:
    text = spec.strip()
    if not text:
        raise ConfigError("a command pattern is empty; write `*` for every command")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text):
        raise ConfigError(f"the command pattern {spec!r} holds a control character")
    if re.fullmatch(r"\*+|:\*", text):
        return CommandPattern("*", "all")
    if text.endswith(":*"):
        prefix = text[:-2].rstrip()
        words = _words(prefix)
        if not words:
            raise ConfigError(f"the command pattern {spec!r} has no words before `:*`")
        if "*" in prefix:
            return CommandPattern(prefix + " *", "stars")
        return CommandPattern(text, "prefix", words)
    if "*" in text:
        return CommandPattern(" ".join(text.split()), "stars")
    return CommandPattern(text, "exact", _words(text) or (text,))


def _words(text: str) -> tuple[str, ...]:
    """The words as a shell reads them, where the text is one plain command; else by blanks."""
    (reading, *others) = read_line(text)
    if not others and reading.failure is None and len(reading.commands) == 1:
        command = reading.commands[0]
        if (
            command.source == text
            and command.words
            and not (command.redirects or command.assignments)
        ):
            return tuple(word.shown for word in command.words)
    return tuple(text.split())


@lru_cache(maxsize=1024)
def _stars(spec: str, loose: bool = False) -> re.Pattern[str]:
    """A star is any text of one command; in an ask or deny rule ` *` at the end may be nothing."""
    if not loose:
        parts = [re.escape(part) for part in re.split(r"\*+", spec)]
        return re.compile(join_stars(parts), re.DOTALL)
    program, blank, rest = spec.partition(" ")
    text = program.rpartition("/")[2] + blank + rest
    open_end = text.endswith(" *")
    parts = [re.escape(part) for part in re.split(r"\*+", text.removesuffix(" *"))]
    pattern = join_stars(parts) + (r"(?:\ .*)?" if open_end else "")
    return re.compile(pattern, re.DOTALL | re.IGNORECASE)


def _same_option(wanted: Option, given: Option, program: str) -> bool:
    names = {wanted.name, *(name for group in _SYNONYMS if wanted.name in group for name in group)}
    same = given.name in names or any(
        len(given.name) > 3 and given.name.startswith("--") and name.startswith(given.name)
        for name in names
    )
    if not same and program in SINGLE_DASH:
        same = given.name.lstrip("-").lower() == wanted.name.lstrip("-").lower()
    if not same:
        return False
    return (
        wanted.value is None
        or given.value is None
        or (wanted.value.text == given.value.text or HOLE in given.value.text)
    )


def _may_be(glob: str, text: str) -> bool:
    return fnmatch.fnmatchcase(text, glob)


def _match_words(wanted: Sequence[str], given: Args) -> Match:
    """Whether the operands start with these words; what may be an option's value may be skipped."""
    states: dict[int, Match] = {0: "yes"}

    def skip(found: dict[int, Match]) -> dict[int, Match]:
        for place in sorted(found):
            at = place
            while at in given.unsure:
                at += 1
                found.setdefault(at, found[place])
        return found

    states = skip(states)
    for text in wanted:
        following: dict[int, Match] = {}
        for place, so_far in states.items():
            if place >= len(given.operands):
                continue
            word = given.operands[place]
            match = _word_match(text, word)
            if match != "no":
                worst: Match = "maybe" if "maybe" in (match, so_far) else "yes"
                if following.get(place + 1) != "yes":
                    following[place + 1] = worst
        states = skip(following)
        if not states:
            return "no"
    return "yes" if "yes" in states.values() else "maybe"


def _word_match(text: str, word: Word) -> Match:
    if word.text.lower() == text.lower():
        return "yes"
    if HOLE in word.text:
        head = word.text.split(HOLE, 1)[0]
        return "maybe" if text.startswith(head) or word.splits else "no"
    return "maybe" if word.glob and _may_be(word.text, text) else "no"
