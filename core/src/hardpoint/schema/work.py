"""How often one value is judged. Bounds what a hostile schema and its arguments can cost together.

Schemas may judge the same value several times: through combinators, references, name patterns.
Where that repeats level by level, the cost grows with a power of the nesting. The numbers here are
upper bounds, worked out from the schema alone; the validator multiplies them with what a call
brings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from hardpoint.schema.nodes import Node

_MOST: Final = 10**9
_EXTRA: Final = ("contains", "unevaluatedItems", "unevaluatedProperties", "propertyNames")


class Work:
    """The most evaluations that one value at each depth can cost."""

    def __init__(self, root: Node, nodes: Sequence[Node]) -> None:
        self._root = root
        self._nodes = nodes

    @cached_property
    def _known(self) -> tuple[tuple[int, ...], dict[Node, int]]:
        return (self._first[self._root],), self._first

    @cached_property
    def is_plain(self) -> bool:
        """Whether every value is judged by one schema at most."""
        return not any(
            node.refs
            or (node.many.keys() - {"prefixItems"})
            or "patternProperties" in node.named
            or any(True for _ in node.same_place())
            for node in self._nodes
        )

    @cached_property
    def _order(self) -> list[Node]:
        """Every node after those that judge the same value; `graph` refuses endless references."""
        order: list[Node] = []
        seen: set[Node] = set()
        for start in self._nodes:
            if start in seen:
                continue
            seen.add(start)
            trail: list[tuple[Node, Iterator[Node]]] = [(start, start.same_place())]
            while trail:
                node, following = trail[-1]
                step = next(following, None)
                if step is None:
                    order.append(node)
                    trail.pop()
                elif step not in seen:
                    seen.add(step)
                    trail.append((step, step.same_place()))
        return order

    @cached_property
    def _first(self) -> dict[Node, int]:
        cost: dict[Node, int] = {}
        for node in self._order:
            cost[node] = min(_MOST, 1 + sum(cost[other] for other in node.same_place()))
        return cost

    @cached_property
    def at_one_place(self) -> int:
        return max(self._first.values())

    def of_counts(self, counts: Sequence[int]) -> int:
        """The most evaluations for so many values at depth 0, 1, … below the arguments."""
        return sum(count * self.at_depth(depth) for depth, count in enumerate(counts))

    def at_depth(self, depth: int) -> int:
        """The most evaluations of one value that stands so deep."""
        costs, level = self._known
        while len(costs) <= depth:
            level = self._deeper(level)
            costs = (*costs, level.get(self._root, 0))
        # One assignment, so that threads may meet here.
        self._known = costs, level
        return costs[depth]

    def _deeper(self, above: dict[Node, int]) -> dict[Node, int]:
        # Nodes without a cost at this depth are left out, so that the tables shrink quickly.
        cost: dict[Node, int] = {}
        for node in self._order:
            total = sum(cost.get(other, 0) for other in node.same_place()) + _of_a_part(node, above)
            if total:
                cost[node] = min(_MOST, total)
        return cost


def _of_a_part(node: Node, above: dict[Node, int]) -> int:
    """What one part of a value costs in this schema, all keywords that reach it together."""
    if not (node.one or node.many or node.named):
        return 0
    alternatives = [
        above.get(child, 0)
        for child in (
            *node.named.get("properties", {}).values(),
            *node.many.get("prefixItems", ()),
            *node.many.get("items", ()),
            *(
                node.one[k]
                for k in ("items", "additionalItems", "additionalProperties")
                if k in node.one
            ),
        )
    ]
    patterns = node.named.get("patternProperties", {})
    together = [above.get(child, 0) for child in patterns.values()]
    together += [above.get(node.one[k], 0) for k in _EXTRA if k in node.one]
    return max(alternatives, default=0) + sum(together) + len(patterns)
