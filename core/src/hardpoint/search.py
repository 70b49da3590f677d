"""Find tools by words: BM25 over names, descriptions and parameter names."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from hardpoint.tools import ToolDefinition

# Okapi BM25 with the usual constants (Robertson and Zaragoza, 2009).
K1: Final = 1.2
B: Final = 0.75
NAME_WEIGHT: Final = 4
PARAMETER_WEIGHT: Final = 1

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_COMMON: Final = frozenset(
    "a an and are as at be by for from in into is it of on or that the this to with".split()
)


def words_of(text: str) -> list[str]:
    """The words of a text in one form: `readFile` and `read_files` share `read` and `file`."""
    return [_stem(word.casefold()) for word in _WORD.findall(text)]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


class ToolIndex:
    """The words of many definitions, made once and asked often."""

    def __init__(self, definitions: Iterable[ToolDefinition]) -> None:
        self._definitions = list(definitions)
        counts = [_count(definition) for definition in self._definitions]
        lengths = [sum(count.values()) for count in counts]
        average = (sum(lengths) / len(lengths)) if lengths else 1.0
        containing = Counter(word for count in counts for word in count)
        total = len(counts)
        self._scores: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, count in enumerate(counts):
            norm = K1 * (1 - B + B * lengths[place] / average)
            for word, times in count.items():
                rarity = math.log(1 + (total - containing[word] + 0.5) / (containing[word] + 0.5))
                self._scores[word].append((place, rarity * times * (K1 + 1) / (times + norm)))
        self._by_name = {d.name.casefold(): place for place, d in enumerate(self._definitions)}

    def search(self, query: str, *, limit: int = 10) -> Sequence[tuple[ToolDefinition, float]]:
        """The best matches with their scores, best first; an exact name comes before all."""
        scores: dict[int, float] = defaultdict(float)
        for word in dict.fromkeys(words_of(query)):
            if word not in _COMMON:
                for place, score in self._scores.get(word, ()):
                    scores[place] += score
        exact = self._by_name.get(query.strip().casefold())
        if exact is not None:
            scores[exact] = math.inf
        best = sorted(scores.items(), key=lambda item: (-item[1], self._definitions[item[0]].name))
        return [(self._definitions[place], score) for place, score in best[:limit]]


def _count(definition: ToolDefinition) -> Counter[str]:
    count: Counter[str] = Counter()
    for word in words_of(definition.name):
        count[word] += NAME_WEIGHT
    for word in words_of(definition.title or ""):
        count[word] += NAME_WEIGHT
    for word in words_of(definition.description):
        if word not in _COMMON:
            count[word] += 1
    for name in definition.parameters.get("properties", {}):
        for word in words_of(str(name)):
            count[word] += PARAMETER_WEIGHT
    return count
