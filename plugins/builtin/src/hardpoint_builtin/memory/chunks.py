"""Cut a document into overlapping pieces that are searched on their own.

The pieces of a text do not depend on what follows them by more than one piece, so that appending to
a document leaves all but its last pieces as they are.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

CHUNK: Final = 1200
"""Characters: about 200 words, what small embedding models read at once."""
OVERLAP: Final = 180
_EARLIEST: Final = 0.6
"""A piece is never cut shorter than this part of its length for the sake of a good place."""

# Where to cut, best first: between paragraphs, lines, sentences, words.
_PLACES: Final = tuple(
    re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"[.!?…]\s+|[。！？]", r"\s+")
)


@attrs.frozen
class Chunk:
    """One piece, and where it begins in the document."""

    start: int
    text: str


def chunks_of(text: str) -> list[Chunk]:
    """The pieces of a text; none of a blank one."""
    pieces: list[Chunk] = []
    start = 0
    while start < len(text):
        end = _end(text, start)
        if not text[start:end].isspace():
            pieces.append(Chunk(start, text[start:end]))
        if end >= len(text):
            break
        start = max(start + 1, _begin(text, end - OVERLAP, end))
    return pieces


def _end(text: str, start: int) -> int:
    limit = start + CHUNK
    if limit >= len(text):
        return len(text)
    earliest = start + int(CHUNK * _EARLIEST)
    for place in _PLACES:
        ends = [found.end() for found in place.finditer(text, earliest, limit)]
        if ends:
            return ends[-1]
    return limit


def _begin(text: str, earliest: int, end: int) -> int:
    """The first word that begins in the overlap."""
    found = _PLACES[-1].search(text, max(0, earliest), end)
    return found.end() if found is not None and found.end() < end else max(0, earliest)
