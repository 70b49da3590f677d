"""One place of a schema with everything that applies there put together: references, `allOf`.

Providers understand plain schemas only. `Flat` opens what JSON Schema may spread over several
parts, so that the forms for each provider need no care for references. The original never changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from hardpoint.schema.kinds import ANY, Types, types_of
from hardpoint.schema.nodes import REFERENCES, Node
from hardpoint.schema.values import same_json

Nodes = tuple[Node, ...]

_LOWEST: Final = frozenset({
    "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties",
})  # fmt: skip
_HIGHEST: Final = frozenset({
    "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties",
})  # fmt: skip
_ABOUT: Final = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("minItems", "maxItems", "uniqueItems"),
    "object": ("minProperties", "maxProperties"),
}
LIMITS: Final = frozenset(keyword for keywords in _ABOUT.values() for keyword in keywords)
CONDITIONS: Final = frozenset({
    "not", "if", "then", "else", "patternProperties", "dependentSchemas", "dependentRequired",
    "dependencies", "propertyNames", "contains", "unevaluatedProperties", "unevaluatedItems",
})  # fmt: skip
"""Keywords that say something no provider's plain form can say."""

_POINTING: Final = frozenset({
    *REFERENCES, "$defs", "definitions", "$id", "$anchor", "$schema", "$comment", "title",
    "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
})  # fmt: skip

_NOTES: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matches {}",
    "format": "format {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} fields",
    "maxProperties": "at most {} fields",
}


class Flat:
    """What some schemas say about one value together."""

    def __init__(self, nodes: Sequence[Node], known: dict[Node, Types]) -> None:
        self.nodes = tuple(dict.fromkeys(nodes))
        self.parts: list[Node] = list(
            dict.fromkeys(part for node in self.nodes for part in node.together())
        )
        self._raws = [part.raw for part in self.parts if isinstance(part.raw, dict)]
        self._known = known

    @cached_property
    def key(self) -> Nodes:
        """What two places have in common that mean the same: the parts that say something."""
        telling = tuple(p for p in self.parts if p.raw is not True and not _only_points(p))
        return telling or tuple(self.parts)

    @property
    def is_reference(self) -> bool:
        """Whether the place itself says nothing but where to look."""
        return all(_only_points(node) for node in self.nodes)

    @cached_property
    def types(self) -> list[str]:
        """The JSON types in a fixed order; empty when any type may come."""
        types = ANY.intersection(*(types_of(node, self._known) for node in self.nodes))
        if "number" in types:
            types -= {"integer"}
        return [] if types == ANY - {"integer"} else sorted(types)

    def first(self, keyword: str) -> Any:
        return next((raw[keyword] for raw in self._raws if keyword in raw), None)

    @property
    def description(self) -> str:
        text = self.first("description")
        return text if isinstance(text, str) else ""

    @cached_property
    def options(self) -> list[Any] | None:
        """The listed values that all parts allow, or None where no list stands."""
        lists = [raw["enum"] for raw in self._raws if "enum" in raw]
        lists += [[raw["const"]] for raw in self._raws if "const" in raw]
        if not lists:
            return None
        return [
            option
            for option in lists[0]
            if all(any(same_json(option, other) for other in more) for more in lists[1:])
        ]

    @cached_property
    def limits(self) -> dict[str, Any]:
        """Each limit once: the tightest of all parts."""
        limits: dict[str, Any] = {}
        for raw in map(modern_limits, self._raws):
            for keyword in LIMITS & raw.keys():
                value = raw[keyword]
                if keyword in limits and keyword in _LOWEST:
                    value = max(value, limits[keyword])
                elif keyword in limits and keyword in _HIGHEST:
                    value = min(value, limits[keyword])
                limits[keyword] = value
        return limits

    def limits_of(self, types: Sequence[str]) -> dict[str, Any]:
        """The limits that say something about values of these types."""
        kinds = {"number" if name == "integer" else name for name in types}
        about = [keyword for kind in _ABOUT if kind in kinds for keyword in _ABOUT[kind]]
        return {keyword: self.limits[keyword] for keyword in about if keyword in self.limits}

    @property
    def conditions(self) -> list[str]:
        return sorted({keyword for raw in self._raws for keyword in CONDITIONS & raw.keys()})

    @cached_property
    def unions(self) -> list[list[Node]]:
        return [
            part.many[keyword]
            for part in self.parts
            for keyword in ("anyOf", "oneOf")
            if keyword in part.many
        ]

    @cached_property
    def properties(self) -> dict[str, Nodes]:
        found: dict[str, Nodes] = {}
        for part in self.parts:
            for name, node in part.named.get("properties", {}).items():
                found[name] = (*found.get(name, ()), node)
        return found

    @cached_property
    def required(self) -> list[str]:
        lists = (raw.get("required", ()) for raw in self._raws)
        names = dict.fromkeys(name for names in lists for name in names)
        return [name for name in names if name in self.properties]

    @property
    def is_map(self) -> bool:
        """Whether an object's fields are more than its properties, or nothing at all is said."""
        keyword = "additionalProperties"
        rests = [part.one[keyword] for part in self.parts if keyword in part.one]
        closed = any(rest.raw is False for rest in rests)
        return not closed and (bool(rests) or not self.properties)

    @property
    def items(self) -> Nodes:
        return tuple(part.one["items"] for part in self.parts if "items" in part.one)

    @property
    def first_items(self) -> list[Node]:
        """The schemas of a tuple's places."""
        lists = (part.many.get(k, ()) for part in self.parts for k in ("prefixItems", "items"))
        return [node for nodes in lists for node in nodes]


def _only_points(node: Node) -> bool:
    return bool(node.refs) and isinstance(node.raw, dict) and node.raw.keys() <= _POINTING


def modern_limits(raw: dict[str, Any]) -> dict[str, Any]:
    """In draft 4, `exclusiveMinimum: true` said how `minimum` is meant."""
    for limit, strictly in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(raw.get(strictly), bool):
            raw = dict(raw)
            if raw.pop(strictly) and limit in raw:
                raw[strictly] = raw.pop(limit)
    return raw


def described(text: str, notes: Sequence[str]) -> str:
    """A description with what the form itself cannot say."""
    if not notes:
        return text
    return f"{text} ({'; '.join(notes)})".strip()


def note_of(keyword: str, value: Any) -> str:
    """A limit in words, for a description."""
    if keyword == "uniqueItems":
        return "items must differ" if value else ""
    return _NOTES[keyword].format(value)


def notes_of(limits: Mapping[str, Any]) -> list[str]:
    notes = (note_of(keyword, limits[keyword]) for keyword in sorted(limits))
    return [note for note in notes if note]


def as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def copy_json(value: Any) -> Any:
    """A copy that shares nothing with the original."""
    if isinstance(value, dict):
        return {key: copy_json(member) for key, member in value.items()}
    if isinstance(value, list):
        return [copy_json(member) for member in value]
    return value


def every_node(node: Node) -> Iterator[Node]:
    """A schema and every schema written inside it, references unopened."""
    yield node
    for child in node.one.values():
        yield from every_node(child)
    for members in node.many.values():
        for child in members:
            yield from every_node(child)
    for named in node.named.values():
        for child in named.values():
            yield from every_node(child)
