"""What a schema is made of: which keywords hold schemas, and one schema as a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hardpoint.schema.values import pointer

# Which keywords hold schemas, and how. A keyword in none of these tables holds data.
ONE: Final = frozenset({
    "items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties",
    "unevaluatedProperties", "propertyNames", "not", "if", "then", "else", "contentSchema",
})  # fmt: skip
MANY: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
NAMED: Final = frozenset({
    "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions",
})  # fmt: skip
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
DATA: Final = frozenset({"default", "examples", "example", "enum", "const"})
SAME_PLACE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
"""Keywords whose schemas judge the same value; all others judge a part of it."""
SAME_PLACE_NAMED: Final = ("dependentSchemas", "dependencies")
_CONDITIONAL: Final = frozenset(SAME_PLACE)
_CONDITIONAL_NAMED: Final = frozenset(SAME_PLACE_NAMED)


class Node:
    """One schema inside a schema."""

    __slots__ = ("depth", "keyword", "label", "many", "named", "one", "parent", "raw", "refs",
                 "resource", "steps")  # fmt: skip

    def __init__(
        self,
        raw: Any,
        resource: Resource,
        parent: Node | None = None,
        *,
        label: str = "",
        steps: tuple[str | int, ...] = (),
        depth: int = 0,
    ) -> None:
        self.raw: dict[str, Any] | bool = raw
        self.resource = resource
        self.parent = parent
        self.label = label
        self.steps = steps
        """How its parent leads to it: a keyword, and what stands under it."""
        self.keyword = steps[0] if steps else ""
        self.depth = depth
        self.one: dict[str, Node] = {}
        self.many: dict[str, list[Node]] = {}
        self.named: dict[str, dict[str, Node]] = {}
        self.refs: list[Node] = []

    @property
    def path(self) -> str:
        """Where it stands, for people: `filter.items`."""
        return f"{self.parent.path}.{self.label}".lstrip(".") if self.parent else self.label

    @property
    def pointer(self) -> str:
        """Where it stands, for references: `/properties/filter/items`."""
        return (self.parent.pointer if self.parent else "") + pointer(self.steps)

    @property
    def is_alone(self) -> bool:
        """Whether no other schema judges the same value."""
        return not (self.refs or self.many or self.named.keys() & _CONDITIONAL_NAMED) and not (
            self.one.keys() & _CONDITIONAL
        )

    def get(self, keyword: str) -> Any:
        return self.raw.get(keyword) if isinstance(self.raw, dict) else None

    def same_place(self) -> Iterator[Node]:
        """Every schema that judges the same value as this one, one step away."""
        yield from self.refs
        for keyword in SAME_PLACE:
            if keyword in self.many:
                yield from self.many[keyword]
            elif keyword in self.one:
                yield self.one[keyword]
        for keyword in SAME_PLACE_NAMED:
            if keyword in self.named:
                yield from self.named[keyword].values()

    def together(self) -> list[Node]:
        """This schema and all that hold whenever it does: through references and `allOf`."""
        found = {self: None}
        waiting = [self]
        while waiting:
            node = waiting.pop()
            for other in [*node.refs, *node.many.get("allOf", ())]:
                if other not in found:
                    found[other] = None
                    waiting.append(other)
        return list(found)


class Resource:
    """A schema with an address of its own: the whole, or a part with `$id`. Nothing is fetched."""

    __slots__ = ("anchors", "root", "uri")

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.root: Node | None = None
        self.anchors: dict[str, Node] = {}
