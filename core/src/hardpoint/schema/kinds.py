"""What a schema says by itself: which JSON types it admits, what tells its variants apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from hardpoint.schema.nodes import Node
from hardpoint.schema.values import same_json

ANY: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_NUMBER: Final = frozenset({"integer", "number"})
_NONE: Final[frozenset[str]] = frozenset()

Types = frozenset[str]


def type_of(value: Any) -> str:
    """The JSON type of a value; a float without a fraction is an integer, as JSON Schema has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def types_of(node: Node, known: dict[Node, Types]) -> Types:
    """Every JSON type that a schema may admit; `known` remembers answers for one schema."""
    found = known.get(node)
    if found is None:
        found = known[node] = _types_of(node, known)
    return found


def _types_of(node: Node, known: dict[Node, Types]) -> Types:
    if isinstance(node.raw, bool):
        return ANY if node.raw else _NONE
    types = ANY
    declared = node.raw.get("type")
    if isinstance(declared, str):
        types &= _spelled([declared])
    elif isinstance(declared, list):
        types &= _spelled(declared)
    if "const" in node.raw:
        types &= {type_of(node.raw["const"])}
    if isinstance(node.raw.get("enum"), list):
        types &= {type_of(value) for value in node.raw["enum"]}
    for other in (*node.refs, *node.many.get("allOf", ())):
        types &= types_of(other, known)
    for keyword in ("anyOf", "oneOf"):
        if keyword in node.many:
            types &= _union(types_of(variant, known) for variant in node.many[keyword])
    return types


def _spelled(names: Iterable[Any]) -> Types:
    return _union(_NUMBER if name == "number" else frozenset([name]) for name in names)


def _union(parts: Iterable[Types]) -> Types:
    return reduce(frozenset.union, parts, _NONE)


Marks = Mapping[str, Sequence[Any]]


def marks_of(node: Node) -> Marks:
    """The properties that a variant fixes to listed values: `{"kind": ["circle"]}`."""
    marks: dict[str, Sequence[Any]] = {}
    for part in node.together():
        for name, member in part.named.get("properties", {}).items():
            for rule in member.together():
                if not isinstance(rule.raw, dict):
                    continue
                if "const" in rule.raw:
                    marks[name] = [rule.raw["const"]]
                elif isinstance(rule.raw.get("enum"), list):
                    marks.setdefault(name, rule.raw["enum"])
    return marks


def bears(value: Mapping[str, Any], marks: Marks) -> bool:
    """Whether a value carries a variant's marks: one at least, and none with another value."""
    present = [name for name in marks if name in value]
    return bool(present) and all(
        any(same_json(value[name], allowed) for allowed in marks[name]) for name in present
    )
