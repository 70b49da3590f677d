"""Join several rankings into one (reciprocal rank fusion; Cormack, Clarke and Büttcher, 2009)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import attrs

K: Final = 60
"""The constant of the method: how little the first places count above the next ones."""


@attrs.frozen
class Hit:
    """A chunk's place among all rankings."""

    chunk: int
    score: float
    """1 for what every ranking puts first."""
    rankings: int
    """How many rankings have it."""


def fuse(rankings: Sequence[Sequence[int]], limit: int) -> list[Hit]:
    """The best chunks of several rankings. What scores of different kinds mean does not matter."""
    sums: dict[int, float] = defaultdict(float)
    counts: dict[int, int] = defaultdict(int)
    for ranking in rankings:
        for place, chunk in enumerate(ranking, 1):
            sums[chunk] += 1 / (K + place)
            counts[chunk] += 1
    most = max(1, len(rankings)) / (K + 1)
    best = sorted(sums, key=lambda chunk: (-sums[chunk], chunk))[:limit]
    return [Hit(chunk, round(sums[chunk] / most, 6), counts[chunk]) for chunk in best]
