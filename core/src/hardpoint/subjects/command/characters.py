"""Characters that make a line look different from what it is."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# What a terminal obeys instead of showing, and what Unicode itself calls formatting.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NO_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
_SELECTORS: Final = re.compile(r"[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_CATEGORIES: Final = {
    "Cf": "an invisible formatting character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
    "Zs": "a blank that is no separator",
    "Co": "a character without a meaning",
    "Cn": "a character without a meaning",
    "Cs": "half of a character",
}
# Letters that look like Latin ones, by script.
_LOOKALIKES: Final = frozenset(
    "аеорсухіјѕһԁԛԝѵкмтвнгпАВЕКМНОРСТУХІЈЅԌԚԜҮүӏӀґ"
    "οαινκρτυχγωηεςΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳ"
    "օսոցհաԱՍՏ" "ᎪᏴᏟᎠᎬᎻᎫᏦᏞᎷᏢᏒᏚᎢᏙᏔ" "ⲟⲣⲥⲉ" "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓞꓟꓠꓡꓢ" "ıɡɑʟɩᴏ"
)  # fmt: skip
_DASHES: Final = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_QUOTES: Final = "\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb\u02bc\u02b9\u02ba\uff02\uff07"
_OPERATORS: Final = (
    "\uff1b\u037e\uff5c\u2223\u01c0\uff06\uff1e\uff1c\uff04\uff40\uff3c\uff0f\u2215\u2044\u29f8"
    "\uff08\uff09\uff5b\uff5d\uff0a\uff03\u02cb"
)
_IMITATED_SLASH: Final = re.compile("[\u2215\u2044\u29f8\uff0f]")
_QUOTED: Final = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)


def suspicious(text: str) -> str | None:
    """Why a line may not be what a person sees; None for an ordinary one."""
    match = _CONTROL.search(text)
    if match:
        return f"holds the control character U+{ord(match[0]):04X}"
    if not _NO_ASCII.search(text):
        return None
    for index, char in enumerate(text):
        if char < "\x80":
            continue
        why = _invisible(char, text[index - 1] if index else "")
        if why:
            return f"holds {why}, U+{ord(char):04X}"
    for token in text.split():
        why = _imitates(token)
        if why:
            return f"{why} in {token[:40]!r}"
    bare = _QUOTED.sub("''", text)
    for char in bare:
        if char in _QUOTES or char in _OPERATORS:
            return f"holds U+{ord(char):04X}, which looks like a character that a shell obeys"
    if re.search(rf"(?:^|[\s='\"])[{_DASHES}]+[A-Za-z]", bare):
        return "holds a dash that looks like the start of an option"
    return None


def _invisible(char: str, before: str) -> str | None:
    if char in _BLANK_LETTERS:
        return "an invisible character"
    if _SELECTORS.match(char):
        # An emoji is followed by the selector that gives it colour.
        if char in "\ufe0e\ufe0f" and before and unicodedata.category(before) in ("So", "Sm"):
            return None
        return "an invisible selector"
    return _CATEGORIES.get(unicodedata.category(char))


def _imitates(token: str) -> str | None:
    """Whether letters of another script, or in another form, stand for Latin ones."""
    if not _NO_ASCII.search(token):
        return None
    for char in token:
        if char < "\x80" or not unicodedata.decomposition(char).startswith(("<wide>", "<font>")):
            continue
        plain = unicodedata.normalize("NFKC", char)
        if plain.isalnum() and plain.isascii():
            return "a letter in another form"
    if "://" in token and _IMITATED_SLASH.search(token):
        return "an imitated slash"
    latin = re.search(r"[A-Za-z]", token)
    for run in re.findall(r"[^\W\d_]+", token):
        odd = [char for char in run if char >= "\x80"]
        if not odd:
            continue
        mixed = len(odd) < len(run) and any(char in _LOOKALIKES for char in odd)
        all_imitate = latin and all(char in _LOOKALIKES for char in run)
        if mixed and any(char.isascii() for char in run):
            return "a letter that imitates a Latin one"
        if all_imitate:
            return "letters that imitate Latin ones"
    return None
