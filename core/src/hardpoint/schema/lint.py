"""Whether a tool may be registered with a parameter schema. Arguments are judged in `validator`.

The rules: an object at the top, with `properties`; every required name described; nested objects
the same; arrays with `items`; known types; and what `graph` asks for: size, depth, references,
patterns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hardpoint.schema.graph import MAX_PROBLEMS, Graph
from hardpoint.schema.native import meta_problems
from hardpoint.schema.nodes import SAME_PLACE_NAMED, Node
from hardpoint.schema.values import describe, shorten

TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_VARIANTS: Final = ("allOf", "anyOf", "oneOf")
_CONDITIONS: Final = frozenset({"if", "then", "else", "not", *SAME_PLACE_NAMED})


def lint(schema: Any, path: str = "") -> list[str]:
    """Everything that speaks against a tool's parameter schema; empty when it may be used.

    Args:
        schema: The schema, from whatever source; it is only read.
        path: What the problems call the schema itself.
    """
    graph = Graph(schema)
    problems = list(graph.problems)
    if graph.readable:
        problems += [p for p in _structure(graph) if p not in problems]
    if not problems:
        problems = meta_problems(graph.schema)
    return [f"{path}: {problem}" if path else problem for problem in problems[:MAX_PROBLEMS]]


def _structure(graph: Graph) -> Iterator[str]:
    yield from _top_level(graph.root)
    for node in graph.nodes:
        raw = node.raw
        if isinstance(raw, bool):
            continue
        for problem in _rules(node, raw, graph.root):
            yield f"{node.path}: {problem}" if node.path else problem


def _rules(node: Node, raw: dict[str, Any], root: Node) -> Iterator[str]:
    declared = raw.get("type")
    if declared.__class__ is str and declared in TYPES:
        types: tuple[Any, ...] = (declared,)
    else:
        types = tuple(declared) if isinstance(declared, list) else (declared,)
        if "type" in raw:
            yield from _types(types)
    yield from _lists(raw)
    if "array" in types:
        yield from _array(node)
    is_variant = node.keyword in _CONDITIONS or node.keyword in _VARIANTS
    inner_object = "object" in types and not is_variant and node is not root
    if inner_object and not any(_describes_members(part) for part in _closure(node)):
        yield 'missing or non-object "properties"'
    # A variant is judged together with its schema; a condition may ask for anything.
    if not is_variant and ("required" in raw or node.many):
        yield from _required(node)


def _top_level(root: Node) -> Iterator[str]:
    wrong = _not_an_object(root)
    if wrong is not None:
        yield wrong
    elif not any("properties" in node.named for node in _closure(root)):
        yield 'missing or non-object "properties"'


def _not_an_object(node: Node) -> str | None:
    """Why a schema does not promise an object, or None when it does."""
    declared = node.get("type")
    if declared in ("object", ["object"]):
        return None
    if declared is not None:
        shown = shorten(str(declared)) if isinstance(declared, str | list) else describe(declared)
        return f'expected type "object", got "{shown}"'
    if any(_not_an_object(part) is None for part in (*node.refs, *node.many.get("allOf", ()))):
        return None
    for keyword in ("anyOf", "oneOf"):
        variants = node.many.get(keyword)
        if variants:
            reasons = [(_not_an_object(variant), variant) for variant in variants]
            wrong = next((f"{v.path}: {reason}" for reason, v in reasons if reason), None)
            return f'missing "type": "object"; {wrong}' if wrong else None
    return 'missing "type": "object"'


def _types(names: tuple[Any, ...]) -> Iterator[str]:
    if not names:
        yield "type is an empty list"
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            shown = shorten(repr(name)) if isinstance(name, str) else describe(name)
            yield f"unknown type {shown}; known are {', '.join(sorted(TYPES))}"


def _lists(raw: dict[str, Any]) -> Iterator[str]:
    if "enum" in raw and not isinstance(raw["enum"], list):
        yield f"enum must be a list of values, got {describe(raw['enum'])}"
    # Draft 3 wrote `required: true` beside a property; some generators still do.
    if "required" in raw and not _are_names(raw["required"]):
        yield f"required must be a list of property names, got {describe(raw['required'])}"


def _array(node: Node) -> Iterator[str]:
    if "items" not in node.one and not any(
        "items" in part.one or part.many.keys() & {"items", "prefixItems"}
        for part in node.together()
    ):
        yield 'array property missing "items"'


def _required(node: Node) -> Iterator[str]:
    names = _names(_closure(node))
    if names is None:
        return
    for part in _variants(node):
        required = part.get("required")
        if _are_names(required):
            for key in dict.fromkeys(required):
                if key not in names:
                    yield f"required key {shorten(repr(key))} not found in properties"


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _describes_members(node: Node) -> bool:
    """Whether an object says what its members are, or openly that they may be anything."""
    members = node.one.get("additionalProperties")
    is_map = members is not None and members.raw is not False
    return is_map or "properties" in node.named or "patternProperties" in node.named


def _variants(node: Node) -> Iterator[Node]:
    """A schema and its variants, however deep, without opening references."""
    yield node
    for keyword in _VARIANTS:
        for variant in node.many.get(keyword, ()):
            yield from _variants(variant)


def _closure(node: Node) -> list[Node]:
    """A schema, its variants and conditions, references opened: everything that may describe it."""
    if node.is_alone:
        return [node]
    found = {node: None}
    waiting = [node]
    while waiting:
        for other in waiting.pop().same_place():
            if other not in found:
                found[other] = None
                waiting.append(other)
    return list(found)


def _names(closure: list[Node]) -> set[str] | None:
    """Every property name that is described somewhere; None when names are open by a typed rule."""
    names: set[str] = set()
    for node in closure:
        if "patternProperties" in node.named:
            return None
        members = node.one.get("additionalProperties")
        if members is not None and isinstance(members.raw, dict) and members.raw:
            return None
        names |= node.named.get("properties", {}).keys()
    return names
