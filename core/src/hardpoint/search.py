"""Find tools by words: BM25 over names, descriptions and parameter names."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final

from hardpoint.errors import HardpointError
from hardpoint.tools import ToolDefinition

# Okapi BM25 with the usual constants (Robertson and Zaragoza, 2009).
K1: Final = 1.2
B: Final = 0.75
NAME_WEIGHT: Final = 4
PARAMETER_WEIGHT: Final = 1
CANDIDATES: Final = 200
"""How many of the best matches of each word are compared with each other."""

SEARCH_TOOLS: Final = frozenset(("tool_search", "tool_info", "tool_call"))
"""What finds and calls everything else."""
USUAL_TOOLS: Final = frozenset(
    ("result_read", "memory_search", "shell", "read_file", "write_file", "apply_patch", "web_fetch")
)
"""What stays listed beside them, as far as it is there: tools that most tasks need at once."""

_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_COMMON: Final = frozenset(
    "a an and are as at be by for from in into is it of on or that the this to with".split()
)


def words_of(text: str) -> list[str]:
    """The words of a text in one form: `readFile` and `read_files` share `read` and `file`."""
    return [_stem(word.casefold()) for run in _WORD.findall(text) for word in _CAMEL.split(run)]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


class ToolIndex:
    """The words of many definitions, made once and asked often."""

    def __init__(self, definitions: Iterable[ToolDefinition]) -> None:
        self._definitions = sorted(definitions, key=lambda definition: definition.name)
        self._by_name = {d.name.casefold(): place for place, d in enumerate(self._definitions)}
        counts = [_count(definition) for definition in self._definitions]
        lengths = [sum(count.values()) for count in counts]
        average = (sum(lengths) / len(lengths)) if lengths else 1.0
        containing = Counter(word for count in counts for word in count)
        scores: dict[str, dict[int, float]] = {word: {} for word in containing}
        for place, count in enumerate(counts):
            norm = K1 * (1 - B + B * lengths[place] / average)
            for word, times in count.items():
                rarity = _rarity(containing[word], len(counts))
                scores[word][place] = rarity * times * (K1 + 1) / (times + norm)
        # Best first, so that a search need not look at all that contain a common word.
        self._scores = {
            word: dict(sorted(found.items(), key=lambda item: -item[1]))
            for word, found in scores.items()
        }

    def search(self, query: str, *, limit: int = 10) -> Sequence[tuple[ToolDefinition, float]]:
        """The best matches with their scores, best first; an exact name comes before all."""
        words = dict.fromkeys(word for word in words_of(query) if word not in _COMMON)
        matches = [self._scores[word] for word in words if word in self._scores]
        depth = max(CANDIDATES, limit)
        places = {place for found in matches for place in islice(found, depth)}
        scores = {place: sum(found.get(place, 0.0) for found in matches) for place in places}
        exact = self._by_name.get(query.strip().casefold())
        if exact is not None:
            scores[exact] = math.inf
        best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        return [(self._definitions[place], score) for place, score in best[:limit]]


def choose_few(
    definitions: Sequence[ToolDefinition], names: Collection[str] | None = None
) -> Sequence[ToolDefinition]:
    """The definitions that a model is given when it has to search for the rest.

    Args:
        definitions: All that it may see.
        names: What it is given beside the search tools; `USUAL_TOOLS` when absent.

    Raises:
        HardpointError: The search tools are not there, so that the rest would be out of reach.
    """
    missing = SEARCH_TOOLS - {definition.name for definition in definitions}
    if missing:
        raise HardpointError(
            f"without {', '.join(sorted(missing))} a model cannot find what it is not given",
            hint="pip install hardpoint-builtin, and see `hardpoint plugins list`",
        )
    kept = SEARCH_TOOLS | (USUAL_TOOLS if names is None else {*names})
    return [definition for definition in definitions if definition.name in kept]


def _rarity(containing: int, total: int) -> float:
    return math.log(1 + (total - containing + 0.5) / (containing + 0.5))


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
