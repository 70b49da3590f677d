"""Options and operands of a program, in any order, bundled, abbreviated or long."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

import attrs

from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import HOLE, Word

# Programs whose options are whole words behind a single dash.
SINGLE_DASH: Final = names_of(
    "find java javac terraform tofu terragrunt packer vault consul nomad go openssl gcc g++ clang"
    " powershell pwsh cmd vim nvim vi ex emacs ffmpeg convert gdb xterm osascript expect screen"
    " tmux erl diskutil sqlite3 duckdb imapsync exiftool"
)


@attrs.frozen
class Option:
    """One option as it was given; `-rf` is two."""

    name: str
    value: Word | None = None


@attrs.frozen
class Args:
    """The arguments of a program or of its subcommand."""

    options: tuple[Option, ...] = ()
    operands: tuple[Word, ...] = ()
    unsure: frozenset[int] = frozenset()
    """Operands that may be the value of the unknown option before them."""
    rest: tuple[Word, ...] = ()
    """The words from the first operand on, options included."""
    known: frozenset[str] = frozenset()
    """Names that are options themselves, and so abbreviate no other."""

    def has(self, *names: str) -> bool:
        """Whether one of the options was given, also by an abbreviation of its long name."""
        return any(self._is(option.name, name) for option in self.options for name in names)

    def values(self, *names: str) -> list[Word]:
        """The values of these options."""
        return [
            option.value
            for option in self.options
            if option.value is not None and any(self._is(option.name, name) for name in names)
        ]

    def _is(self, given: str, name: str) -> bool:
        if given == name:
            return True
        if given in self.known or len(given) < 3:
            return False
        return given.startswith("--") and name.startswith(given)

    @property
    def has_unknown_option(self) -> bool:
        """Whether an expansion may put options here that nobody sees."""
        return any(word.splits and HOLE in word.text for word in self.operands)


def read_args(
    words: Sequence[Word],
    valued: Collection[str] = (),
    *,
    stop: bool = False,
    single_dash: bool = False,
    plus: bool = False,
) -> Args:
    """Read the words behind a program's name.

    Args:
        words: The words without the name.
        valued: The options that take the next word, or the rest of their own, as value.
        stop: Options end at the first operand.
        single_dash: `-name` is one option, not four.
        plus: `+x` is an option too.
    """
    options: list[Option] = []
    operands: list[Word] = []
    unsure: set[int] = set()
    rest: tuple[Word, ...] = ()
    index, size = 0, len(words)
    after_unknown = False
    while index < size:
        word = words[index]
        text = word.text
        is_option = len(text) > 1 and (text[0] == "-" or (plus and text[0] == "+"))
        if text == "--" or not is_option:
            if text == "--":
                index += 1
                after_unknown = False
            if not operands:
                rest = tuple(words[index:])
            if stop:
                operands += words[index:]
                break
            if text == "--":
                operands += words[index:]
                break
            if after_unknown:
                unsure.add(len(operands))
            operands.append(word)
            after_unknown = False
            index += 1
            continue
        index += 1
        found, wants_value = _read_option(word, valued, single_dash)
        if wants_value and index < size:
            found[-1] = attrs.evolve(found[-1], value=words[index])
            index += 1
        after_unknown = not wants_value and found[-1].value is None
        options += found
    return Args(tuple(options), tuple(operands), frozenset(unsure), rest, frozenset(valued))


def _read_option(
    word: Word, valued: Collection[str], single_dash: bool
) -> tuple[list[Option], bool]:
    """The options in one word, and whether the last one takes the next word."""
    text = word.text
    name, equals, value = text.partition("=")
    if text.startswith("--") or single_dash:
        if equals:
            return [Option(name, word.part(value))], False
        takes = name in valued or (
            len(name) > 3 and text.startswith("--") and any(v.startswith(name) for v in valued)
        )
        if not takes and single_dash and not text.startswith("--"):
            # `-Ddefine`, `-c"text"`: a short option with its value in one word.
            short = text[:2]
            if short in valued and len(text) > 2:
                return [Option(text), Option(short, word.part(text[2:]))], False
        return [Option(name)], takes
    options: list[Option] = []
    if equals and re.fullmatch(r"-[A-Za-z]", name) and name in valued:
        return [Option(name, word.part(value)), Option(name, word.part("=" + value))], False
    for index, letter in enumerate(text[1:], start=1):
        short = text[0] + letter
        if short in valued:
            if index + 1 < len(text):
                return [*options, Option(short, word.part(text[index + 1 :]))], False
            return [*options, Option(short)], True
        options.append(Option(short))
    return options, False
