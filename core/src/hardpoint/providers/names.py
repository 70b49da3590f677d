"""Names that a provider accepts, and the way back. Nothing is ever parsed out of a name.

A name that fits is kept. One that does not gets the provider's letters and a mark made from the
whole name, so that its spelling depends on nothing but itself: it is the same in every process and
whatever other tools come and go, and two tools never share one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final

LONGEST: Final = 64
_RULES: Final[Mapping[str, tuple[re.Pattern[str], re.Pattern[str]]]] = {
    # what a whole name must match, and what is replaced in one that does not
    "openai": (re.compile(r"[A-Za-z0-9_-]{1,64}"), re.compile(r"[^A-Za-z0-9_-]")),
    "anthropic": (re.compile(r"[A-Za-z0-9_-]{1,64}"), re.compile(r"[^A-Za-z0-9_-]")),
    "gemini": (re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"), re.compile(r"[^A-Za-z0-9_.-]")),
    "mcp": (re.compile(r"[A-Za-z0-9_.-]{1,128}"), re.compile(r"[^A-Za-z0-9_.-]")),
}


class NameMap:
    """The names of some tools as one family of providers accepts them."""

    def __init__(self, family: str, names: Iterable[str]) -> None:
        fits, foreign = _RULES[family]
        every = list(dict.fromkeys(names))
        self._there = {name: name for name in every if fits.fullmatch(name)}
        self._back = dict(self._there)
        for name in every:
            if name not in self._there:
                wire = _marked(name, foreign, self._back)
                self._there[name] = wire
                self._back[wire] = name

    def to_wire(self, name: str) -> str:
        """What the provider is told a tool is called."""
        return self._there[name]

    def from_wire(self, name: str) -> str:
        """Which tool a provider means; a name that was never given out stays as it is."""
        return self._back.get(name, name)


def _marked(name: str, foreign: re.Pattern[str], taken: Mapping[str, str]) -> str:
    stem = foreign.sub("_", name)
    if not stem[:1].isalpha():
        stem = "_" + stem
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    # Longer only where somebody registered the very name that the mark would give.
    for length in (8, 16, 32):
        mark = "_" + digest[:length]
        wire = stem[: LONGEST - len(mark)] + mark
        if wire not in taken:
            return wire
    raise ValueError(f"no free name for {name!r}")
