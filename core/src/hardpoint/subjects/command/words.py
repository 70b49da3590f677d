"""The words of a command line: what a shell makes of quotes, escapes and braces before it runs.

A word is a literal text, except where it depends on something known only at run time: there its
text holds a `HOLE`. Where a word ends is decided in `lexer`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

HOLE: Final = "\0"
"""Stands for a part known only at run time. No command line can hold NUL, so it is unmistakable."""

_SPECIAL: Final = "{},.*?[]~=!+@^"
# Quoted characters that would mean something unquoted travel in a private area until the word is
# finished; `characters` reports such characters in a line that was sent.
_HIDE: Final = {ord(c): 0xF0000 + ord(c) for c in _SPECIAL}
QUOTES: Final = chr(0xF0000)
"""Stands where quotes begin: a word with quotes is one even if it is empty."""
_SHOW: Final = {**{hidden: shown for shown, hidden in _HIDE.items()}, ord(QUOTES): None}
_MAX_BRACES: Final = 256

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?\+?=", re.ASCII)
_TILDE: Final = re.compile(r"~[\w.+-]*(?=/|$)")
_GLOB: Final = re.compile(r"[*?]|\[[^\[]*\]", re.DOTALL)
_DOTS: Final = re.compile(r"\.\.(?!\})")
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_LETTER_ESCAPES: Final = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b",
    "E": "\x1b",
}  # fmt: skip


@attrs.frozen
class Span:
    """A stretch of commands in the list that a reading gives."""

    start: int
    end: int


@attrs.frozen
class Word:
    """One word after quote removal."""

    text: str
    raw: str = ""
    """As it stands in the line."""
    splits: bool = False
    """An unquoted expansion may turn it into none or several words."""
    glob: bool = False
    """An unquoted wildcard: the shell puts file names here."""
    tilde: bool = False
    substitutions: tuple[Span, ...] = ()
    """The commands whose output becomes part of the word."""
    variables: tuple[str, ...] = ()
    quoted: bool = False

    @property
    def literal(self) -> str | None:
        """The text, or None when a part is known only at run time."""
        return None if HOLE in self.text else self.text

    @property
    def shown(self) -> str:
        """The text for rules and people: the line's own spelling where it is not literal."""
        return self.raw if HOLE in self.text else self.text

    @property
    def may_be_option(self) -> bool:
        """Whether the shell may put an option in this place."""
        return self.text.startswith((HOLE, "-")) or (self.splits and HOLE in self.text)

    def part(self, text: str) -> Word:
        """A piece of this word, such as the value behind `--option=`."""
        return attrs.evolve(self, text=text, raw=text.replace(HOLE, "?") or self.raw)


def words_of(texts: Sequence[str]) -> tuple[Word, ...]:
    """Literal words, for a command given as a list."""
    return tuple(Word(text, text, quoted=True) for text in texts)


def hide(text: str) -> str:
    """Mark quoted text, so that its braces, stars and tildes mean nothing."""
    return text.translate(_HIDE)


def show(text: str) -> str:
    return text.translate(_SHOW)


def assigned_name(raw: str) -> re.Match[str] | None:
    """The `NAME=` at the start of an assignment word."""
    return _ASSIGNMENT.match(raw)


def finish(
    pieces: str,
    raw: str,
    *,
    splits: bool = False,
    quoted: bool = False,
    braces: bool = True,
    substitutions: Sequence[Span] = (),
    variables: Sequence[str] = (),
) -> list[Word]:
    """Make words of one run of text whose quoted characters are hidden.

    Args:
        pieces: The text after quote removal, quoted specials hidden, `HOLE` for expansions.
        raw: As it stands in the line.
        splits: An unquoted expansion is part of it.
        quoted: Any of it was quoted.
        braces: Expand `{a,b}` and `{1..3}`.
        substitutions: The commands that run while it is expanded.
        variables: The names of the variables it uses.
    """
    texts = [pieces]
    if braces and "{" in pieces:
        expanded = expand_braces(pieces)
        if expanded is None:
            texts, splits = [HOLE], True
        else:
            texts = [text for text in expanded if text]
    return [
        Word(
            text=show(text),
            raw=raw,
            splits=splits,
            glob=_GLOB.search(text) is not None,
            tilde=_TILDE.match(text) is not None,
            substitutions=tuple(substitutions),
            variables=tuple(variables),
            quoted=quoted,
        )
        for text in texts
    ]


def expand_braces(text: str) -> list[str] | None:
    """Every word that unquoted braces make of a text; None when there are too many."""
    if text.count("{") > _MAX_BRACES // 4:
        return None
    done: list[str] = []
    open_texts = [text]
    while open_texts:
        current = open_texts.pop()
        choices = _first_braces(current)
        if choices is None:
            done.append(current)
        else:
            open_texts += reversed(choices)
        if len(done) + len(open_texts) > _MAX_BRACES:
            return None
    return done


def _first_braces(text: str) -> list[str] | None:
    """Expand the first brace expression; None when there is none.

    As Bash does, a brace closes only what holds a comma or two dots, and `{}` begins no word's
    expression (brace_gobbler in its braces.c).
    """
    start = text.find("{", 1 if text.startswith("{}") else 0)
    while start >= 0:
        depth, last, parts, dots = 0, start + 1, [], False
        for index in range(start, min(len(text), start + 4096)):
            char = text[index]
            if char == "{":
                depth += 1
            elif char == "}" and depth > 1:
                depth -= 1
            elif depth > 1:
                continue
            elif char == ",":
                parts.append(text[last:index])
                last = index + 1
            elif char == ".":
                dots = dots or bool(_DOTS.match(text, index))
            elif char == "}" and (parts or dots):
                parts.append(text[last:index])
                options = parts if len(parts) > 1 else _sequence(parts[0])
                if options:
                    return [text[:start] + o + text[index + 1 :] for o in options]
                break
        start = text.find("{", start + 1)
    return None


def _sequence(text: str) -> list[str]:
    """The texts of `1..3`, `a..e` or `1..9..2`; empty when it is none."""
    match = re.fullmatch(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.(-?\d{1,9}))?", text)
    if not match or match[1].isalpha() != match[2].isalpha():
        return []
    letters = match[1].isalpha()
    first, last = (ord(match[1]), ord(match[2])) if letters else (int(match[1]), int(match[2]))
    step = abs(int(match[3] or 1)) or 1
    span = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    # One more than allowed, so that the caller sees that there are too many.
    return [chr(n) if letters else str(n) for n in span[: _MAX_BRACES + 1]]


def decode_ansi_c(text: str) -> str:
    """The text between `$'` and `'`."""

    def decode(match: re.Match[str]) -> str:
        hexadecimal = match[1] or match[2] or match[3]
        if hexadecimal:
            code = int(hexadecimal, 16)
            return chr(code) if code < 0x110000 else ""
        if match[4]:
            return chr(int(match[4], 8) & 0xFF)
        if match[5]:
            return chr(ord(match[5]) & 0x1F)
        return _LETTER_ESCAPES.get(match[6], match[6] if match[6] in "\\'\"?" else match[0])

    # Bash ends the string at a NUL.
    return _ESCAPE.sub(decode, text).split("\0", 1)[0]
