"""Turn text into search words, and what somebody typed into a query, for any database.

Words are folded (`Café` is `cafe`), English endings are cut (`baking` and `baked` are one word),
scripts written without blanks become overlapping pairs of characters, and an emoji is a word of its
own. A search word is letters, digits or symbols only, so no database can read it as syntax.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal

import attrs

MAX_TERMS: Final = 48
MAX_QUERY: Final = 4000
MAX_WORD: Final = 64
"""Longer runs without a blank (encoded data) are cut to pieces of this length."""

Kind = Literal["word", "pairs", "mark", "symbol", "other"]

# First and last code point of the scripts whose words are not divided by blanks, and of Hangul,
# whose words carry their particles with them.
_WITHOUT_BLANKS: Final = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x3005, 0x3007),
    (0x3040, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF),
)  # fmt: skip
_LAST_LATIN_LIKE: Final = 0x52F
"""Latin, Greek and Cyrillic end here; their accents are dropped, other scripts' marks are not."""

_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
_PIECE: Final = re.compile(r'"([^"]*)"?|(\S+)')
_COMMON: Final = frozenset(
    "a about an and are as at be been but by can could did do does for from had has have he her his"
    " how i if in into is it its me my not of on or our she so than that the their them then there"
    " these they this those to us was we were what when where which who whom whose why will with"
    " would you your".split()
)


@attrs.frozen
class Term:
    """One thing to look for: words in a row, the last of them maybe only begun."""

    words: tuple[str, ...]
    prefix: bool = False


@attrs.frozen
class Query:
    """What somebody looks for: all of `required`, and as much as can be found of `wanted`."""

    required: tuple[Term, ...] = ()
    wanted: tuple[Term, ...] = ()

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(dict.fromkeys((*self.required, *self.wanted)))


def words_of(text: str) -> list[str]:
    """The search words of a text, in their order."""
    return [word for run in _runs(_fold(text)) for word in _words_of_run(*run)]


def parse_query(text: str) -> Query:
    """Read a query. Any text is one: `"a phrase"` is required, `begin*` matches beginnings."""
    required: list[Term] = []
    wanted: list[Term] = []
    for phrase, piece in _PIECE.findall(text[:MAX_QUERY]):
        if phrase:
            required += _phrase(phrase)
            continue
        wanted += _terms_of(piece)
    telling = [term for term in wanted if term.prefix or term.words[0] not in _STEMMED_COMMON()]
    wanted = telling or ([] if required else wanted)
    return Query(
        tuple(dict.fromkeys(required))[:MAX_TERMS], tuple(dict.fromkeys(wanted))[:MAX_TERMS]
    )


def _phrase(text: str) -> Iterator[Term]:
    runs = list(_runs(_fold(text)))
    if not runs:
        return
    kind, last = runs.pop()
    before = [word for run in runs for word in _words_of_run(*run)]
    if kind == "pairs":
        # What follows the run in a text decides how its last character was indexed.
        end, begun = _pairs(last)[:-1] or [last], len(last) == 1
    else:
        end, begun = _words_of_run(kind, last), False
    words = (*before, *end)
    yield Term(words[:MAX_TERMS], prefix=begun and len(words) <= MAX_TERMS)


def _terms_of(piece: str) -> Iterator[Term]:
    begun = piece.endswith("*")
    runs = list(_runs(_fold(piece)))
    for place, (kind, run) in enumerate(runs):
        last = begun and place == len(runs) - 1
        if kind == "pairs":
            # One character matches every pair that it begins, and stands alone at a run's end.
            pairs = tuple(_pairs(run)[:-1]) or (run,)
            yield Term(pairs, prefix=last or len(run) == 1)
        elif last and kind == "word":
            yield Term((run[:MAX_WORD],), prefix=True)
            if stem(run) != run:
                yield Term((stem(run),))
        else:
            for word in _words_of_run(kind, run):
                yield Term((word,))


@cache
def _STEMMED_COMMON() -> frozenset[str]:
    return frozenset(map(stem, _COMMON))


# text to runs ----------------------------------------------------------------------------------


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept: list[str] = []
    latin = False
    for char in unicodedata.normalize("NFD", folded):
        if not unicodedata.combining(char):
            latin = ord(char) <= _LAST_LATIN_LIKE
        elif latin:
            continue
        kept.append(char)
    return unicodedata.normalize("NFC", "".join(kept))


def _runs(text: str) -> Iterator[tuple[Kind, str]]:
    """Stretches of one kind: a word, characters of a script without blanks, one symbol."""
    if text.isascii():
        for match in _ASCII_WORD.finditer(text):
            yield "word", match[0]
        return
    current: list[str] = []
    current_kind: Kind = "other"
    for char in text:
        kind = _kind(char)
        if kind == "mark" and current and current_kind != "symbol":
            current.append(char)
            continue
        if kind != current_kind or kind == "symbol":
            if current:
                yield current_kind, "".join(current)
            current, current_kind = [], kind
        if kind not in ("other", "mark"):
            current.append(char)
    if current:
        yield current_kind, "".join(current)


@cache
def _kind(char: str) -> Kind:
    code = ord(char)
    category = unicodedata.category(char)
    if any(first <= code <= last for first, last in _WITHOUT_BLANKS):
        return "pairs" if category[0] in "LMN" else "other"
    if category[0] in "LN":
        return "word"
    if category[0] == "M":
        # Variation selectors choose a picture, not a meaning.
        return "other" if 0xFE00 <= code <= 0xFE0F else "mark"
    return "symbol" if category == "So" else "other"


def _words_of_run(kind: Kind, run: str) -> list[str]:
    if kind == "pairs":
        return _pairs(run)
    if kind == "symbol":
        return [run]
    if len(run) > MAX_WORD:
        return [run[at : at + MAX_WORD] for at in range(0, len(run), MAX_WORD)]
    return [stem(run)]


def _pairs(run: str) -> list[str]:
    """Overlapping pairs, and the last character alone so that it can be found by itself."""
    return [run[at : at + 2] for at in range(len(run))]


def stem(word: str) -> str:
    """Cut the commonest English endings; other words stay as they are."""
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and re.search("[aeiouy]", root):
            doubled = root[-1] == root[-2] and root[-1] not in "lsz"
            word = root[:-1] if doubled else root
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word
