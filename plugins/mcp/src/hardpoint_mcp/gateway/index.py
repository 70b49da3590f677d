"""Find tools by words, for clients that are not shown all of them."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_NAME_WEIGHT: Final = 4


def words_of(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        plain = word.casefold()
        yield plain[:-1] if len(plain) > 3 and plain.endswith("s") else plain


class Index:
    """The words of many tools; a rare word says more than a common one."""

    def __init__(self, tools: Mapping[str, Mapping[str, Any]]) -> None:
        self._weights: dict[str, dict[str, float]] = defaultdict(dict)
        self._count = len(tools)
        self._names = sorted(tools)
        for name in self._names:
            counts = Counter(words_of(str(tools[name].get("description", ""))[:4000]))
            for part in (name, str(tools[name].get("title", ""))):
                for word in words_of(part):
                    counts[word] += _NAME_WEIGHT
            for word, count in counts.items():
                # More of the same word says little more.
                self._weights[word][name] = count / (count + 1.5)

    def search(self, query: str) -> list[str]:
        """The names of the tools that share words with a query, the best first."""
        scores: dict[str, float] = defaultdict(float)
        for word in set(words_of(query[:1000])):
            found = self._weights.get(word, {})
            rarity = math.log(1 + self._count / (1 + len(found)))
            for name, weight in found.items():
                scores[name] += weight * rarity
        if query.strip() in self._names:
            scores[query.strip()] = math.inf
        return sorted(scores, key=lambda name: (-scores[name], name))
