"""Show a request so that nobody is deceived: what is invisible is made visible."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Iterator
from typing import Any, Final, Literal

import attrs

from hardpoint.interfaces import ApprovalRequest

MAX_SHOWN: Final = 2000
"""Characters of an argument; a longer one is shown at both ends first. Subjects are never cut."""

# Control and formatting characters, halves, unassigned and private ones, separators.
_HIDDEN_CATEGORIES: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
# Letters and marks that take no room, or look like a blank.
_HIDDEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_BLANKS: Final = re.compile(r" {8,}")
_LINES: Final = re.compile(r"\n(?:[ ]*\n){3,}")
_SCRIPTS: Final = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH",
                   "MATHEMATICAL")  # fmt: skip
_MARKS_IN_A_ROW: Final = 3


@attrs.frozen
class Line:
    """One line of a description."""

    text: str
    style: Literal["head", "subject", "warning", "plain"] = "plain"


def describe(request: ApprovalRequest, *, full: bool = False) -> tuple[list[Line], bool]:
    """What a person decides about, and whether any of it was cut.

    Args:
        request: What is asked.
        full: Show everything, however long.
    """
    cut = False
    lines = [
        Line(
            f"{visible(request.tool)} wants to run in domain {visible(request.domain)!r}"
            f" for {visible(request.user_id)}",
            "head",
        )
    ]
    if request.workspace is not None:
        lines.append(Line(f"  in: {visible(request.workspace)}"))
    for subject in request.subjects:
        value = subject.value if isinstance(subject.value, str) else shlex.join(subject.value)
        word = f"{subject.kind} {subject.operation}".strip()
        lines.append(Line(f"  {word}: {visible(value)}", "subject"))
    texts = {subject.value for subject in request.subjects if isinstance(subject.value, str)}
    for name, value in request.params.items():
        if isinstance(value, str) and value in texts:
            continue  # it stands above
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        shown, was_cut = _shortened(visible(text), full)
        cut = cut or was_cut
        lines.append(Line(f"  {visible(str(name))} = {shown}"))
    if request.effects:
        lines.append(Line(f"  it may: {', '.join(sorted(request.effects))}"))
    lines += [Line(f"  because: {visible(reason)}") for reason in request.reasons]
    if request.pattern is not None:
        lines.append(Line(f"  session and always remember: {visible(request.pattern)}"))
    lines += [Line(f"  beware: {text}", "warning") for text in sorted(set(_warnings(request)))]
    return lines, cut


def _shortened(text: str, full: bool) -> tuple[str, bool]:
    if full or len(text) <= MAX_SHOWN:
        return text, False
    half = MAX_SHOWN // 2
    hidden = len(text) - 2 * half
    return f"{text[:half]}\n    <{hidden} characters not shown>\n    {text[-half:]}", True


def visible(text: str) -> str:
    """The text with everything that could deceive a reader made visible.

    Control and format characters, bidirectional marks, invisible letters, unusual blanks, piled up
    marks and lone surrogates become escapes; blanks and empty lines that could push text out of
    sight say how many there are. A letter of another script in the middle of Latin ones, too.
    """
    shown = text if text.isascii() and text.isprintable() else "".join(_shown(text))
    shown = _LINES.sub(lambda found: f"\n<{found[0].count(chr(10))} line breaks>\n", shown)
    shown = shown.replace("\n", "\n    ")
    return _BLANKS.sub(lambda found: f" <{len(found[0])} blanks> ", shown)


def _shown(text: str) -> Iterator[str]:
    imitating = _imitating(text)
    marks = 0
    for place, character in enumerate(text):
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if character == "\n":
            yield character
        elif (
            category in _HIDDEN_CATEGORIES
            or (category == "Zs" and character != " ")
            or _HIDDEN.match(character)
            or place in imitating
            or marks > _MARKS_IN_A_ROW
        ):
            yield character.encode("unicode_escape", "surrogatepass").decode("ascii")
        else:
            yield character


def _imitating(text: str) -> frozenset[int]:
    """Where letters of another script stand in one word with Latin ones."""
    places: set[int] = set()
    for word in re.finditer(r"[^\W_]+", text):
        if word[0].isascii() or not re.search("[A-Za-z]", word[0]):
            continue
        places.update(
            word.start() + offset
            for offset, character in enumerate(word[0])
            if unicodedata.name(character, "").startswith(_SCRIPTS)
        )
    return frozenset(places)


def _warnings(request: ApprovalRequest) -> Iterator[str]:
    for text in _texts([request.params, *(subject.value for subject in request.subjects)]):
        if any("\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" for c in text):
            yield "the text holds marks that change the direction of reading"
        if _HIDDEN.search(text) or any(unicodedata.category(c) == "Cf" for c in text):
            yield "the text holds characters that cannot be seen; they are shown as \\u…"
        if _imitating(text):
            yield "letters that imitate Latin ones are shown as \\u…"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if not value.isascii():
            yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(str(key))
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
