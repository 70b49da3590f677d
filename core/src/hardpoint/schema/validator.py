"""Whether arguments fit a schema, and everything that is wrong when they do not.

The answer is jsonschema-rs's; the bounds around it are ours. Text is turned into other types in
`coercion`, before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from hardpoint.errors import Issue
from hardpoint.schema.graph import Graph, read_schema
from hardpoint.schema.native import NativeParts, compile_native
from hardpoint.schema.values import (
    SHALLOW,
    clean_size,
    count_by_depth,
    describe,
    pointer,
    text_length,
    unusable,
)

MAX_WORK: Final = 5_000_000
"""Most evaluations that one call's arguments may cost."""
MAX_PATTERN_TEXT: Final = 4_000_000
"""Most characters that the patterns of a schema may read in one call, all together."""
MAX_BACKTRACKING_TEXT: Final = 20_000
"""The same where a pattern needs look-around or back references."""
MAX_ISSUES: Final = 50
REDACTED: Final = "[REDACTED]"


class Validator:
    """A schema ready to judge arguments. Made by `compile_validator`; safe to share and to keep."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._native = compile_native(graph.schema, linear=graph.linear)
        self._parts: NativeParts | None = None

    @cached_property
    def _ordinary_size(self) -> int:
        """How many values cannot be too much work, on the levels of ordinary arguments."""
        return MAX_WORK // max(map(self.graph.work.at_depth, range(SHALLOW + 2)))

    @property
    def parts(self) -> NativeParts:
        if self._parts is None:
            self._parts = NativeParts(self.graph.schema, linear=self.graph.linear)
        return self._parts

    def is_valid(self, params: Any) -> bool:
        """Whether the arguments fit: the quick answer, without reasons."""
        if params.__class__ is not dict:
            return False
        size = clean_size(params)
        if not size and next(unusable(params), None) is not None:
            return False
        ordinary = size and size <= self._ordinary_size and not self.graph.patterns
        if not ordinary and self.excess(params) is not None:
            return False
        return bool(self._native.is_valid(params))

    def validate(self, params: Any, *, sensitive: frozenset[str] = frozenset()) -> list[Issue]:
        """Everything that is wrong with the arguments, each at its own place; empty when they fit.

        Args:
            params: The arguments as the tool would get them.
            sensitive: Parameters whose values are never repeated.
        """
        if isinstance(params, Mapping) and params.__class__ is not dict:
            params = dict(params)
        if not isinstance(params, dict):
            return [
                Issue(
                    "", "type_mismatch", "an object with the arguments", _shown(params, sensitive)
                )
            ]
        if self.is_valid(params):
            return []
        issues = [
            Issue(pointer(path), "invalid_value", expected, received)
            for path, expected, received in unusable(params)
        ]
        if issues:
            return issues[:MAX_ISSUES]
        excess = self.excess(params)
        if excess is not None:
            return [excess]
        from hardpoint.schema.explain import Explanation

        return Explanation(self.graph, self.parts, sensitive).issues_of(params)[:MAX_ISSUES]

    def excess(self, params: Any) -> Issue | None:
        """Why judging these arguments would take too long, or None. They are JSON, within depth."""
        graph = self.graph
        plain = graph.work.is_plain
        counts = count_by_depth(params) or []
        if not plain and graph.work.of_counts(counts) > MAX_WORK:
            received = f"{sum(counts)} values on {len(counts)} levels"
            return Issue("", "invalid_value", "fewer or less deeply nested values", received)
        if graph.patterns:
            limit = MAX_PATTERN_TEXT if graph.linear else MAX_BACKTRACKING_TEXT
            often = 1 if plain else max(map(graph.work.at_depth, range(len(counts))))
            length = text_length(params)
            if length * often > limit:
                return Issue("", "invalid_value", "shorter texts", f"{length} characters")
        return None


def compile_validator(schema: Any, *, name: str = "parameters") -> Validator:
    """Make a validator; the caller keeps it, compiling again costs some ten microseconds.

    Args:
        schema: A JSON Schema of any draft from 4 to 2020-12.
        name: What an error calls it.

    Raises:
        SchemaError: The schema cannot be used safely; `problems` says why.
    """
    return Validator(read_schema(schema, name))


def _shown(params: Any, sensitive: frozenset[str]) -> str:
    # Arguments that could not be read at all may hold anything.
    return REDACTED if sensitive and isinstance(params, str) else describe(params)
