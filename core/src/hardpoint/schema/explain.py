"""Say what is wrong with arguments: every problem at its own place, in words a model can act on.

The native library only says that a union fits nowhere. Here the variant that was meant is found, by
its type or by its marks, and its own problems are told. Each step asks for yes or no only, so the
explanation costs little even where the library's own report would grow without bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from hardpoint.errors import Issue
from hardpoint.schema.graph import Graph
from hardpoint.schema.kinds import ANY, Marks, Types, bears, marks_of, type_of, types_of
from hardpoint.schema.native import NativeParts, name_matcher
from hardpoint.schema.nodes import Node
from hardpoint.schema.values import Path, describe, pointer, shorten

REDACTED: Final = "[REDACTED]"
_MAX_ISSUES: Final = 50
_MAX_STEPS: Final = 20_000

_LIMITS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "text that matches {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} fields",
    "maxProperties": "at most {} fields",
    "uniqueItems": "items that all differ",
}


class Explanation:
    """What is wrong with one call's arguments."""

    def __init__(self, graph: Graph, parts: NativeParts, sensitive: frozenset[str]) -> None:
        self._graph = graph
        self._parts = parts
        self._sensitive = sensitive
        self._types: dict[Node, Types] = {}
        self._steps = _MAX_STEPS

    def issues_of(self, params: dict[str, Any]) -> list[Issue]:
        found = list(dict.fromkeys(self._judge(self._graph.root, params, ())))
        return found or [self._issue((), "invalid_value", "arguments that fit the schema", params)]

    # one schema, one value -------------------------------------------------------------------

    def _judge(self, node: Node, value: Any, path: Path) -> list[Issue]:
        self._steps -= 1
        if self._steps < 0 or self._parts.is_valid(node, value):
            return []
        if isinstance(node.raw, bool):
            return [self._unexpected(path, value, ())]
        if node.refs and self._graph.references_stand_alone:
            return [issue for target in node.refs for issue in self._judge(target, value, path)]
        issues: list[Issue] = []
        for found in self._rules(node, value, path):
            issues += found
            if len(issues) > _MAX_ISSUES:
                break
        return issues or self._leftovers(node, value, path)

    def _rules(self, node: Node, value: Any, path: Path) -> Iterator[list[Issue]]:
        yield [self._own(error, value, path) for error in self._parts.own_errors(node, value)]
        for part in (*node.refs, *node.many.get("allOf", ())):
            yield self._judge(part, value, path)
        if isinstance(value, dict):
            yield from self._members(node, value, path)
        elif isinstance(value, list):
            yield from self._items(node, value, path)
        for keyword in ("anyOf", "oneOf"):
            if keyword in node.many:
                yield self._variants(node.many[keyword], value, path, only_one=keyword == "oneOf")
        if "if" in node.one:
            held = self._parts.is_valid(node.one["if"], value)
            branch = node.one.get("then" if held else "else")
            yield self._judge(branch, value, path) if branch is not None else []
        if "not" in node.one and self._parts.is_valid(node.one["not"], value):
            yield [self._issue(path, "invalid_value", "a value that is not excluded", value)]

    def _members(self, node: Node, value: dict[str, Any], path: Path) -> Iterator[list[Issue]]:
        properties = node.named.get("properties", {})
        patterns = [
            (name_matcher(pattern, linear=self._graph.linear), member)
            for pattern, member in node.named.get("patternProperties", {}).items()
        ]
        others = node.one.get("additionalProperties")
        names = node.one.get("propertyNames")
        for key, member in value.items():
            schemas = [properties[key]] if key in properties else []
            schemas += [schema for matches, schema in patterns if matches(key)]
            if not schemas and others is not None:
                schemas = [others]
            for schema in schemas:
                if schema.raw is False:
                    known = [] if key in properties else _known_names(node)
                    yield [self._unexpected((*path, key), member, known)]
                else:
                    yield self._judge(schema, member, (*path, key))
            if names is not None and not self._parts.is_valid(names, key):
                yield [
                    Issue(pointer((*path, key)), "unexpected_field", "another name", describe(key))
                ]
        for keyword in ("dependentSchemas", "dependencies"):
            for key, schema in node.named.get(keyword, {}).items():
                if key in value:
                    yield self._judge(schema, value, path)

    def _items(self, node: Node, value: list[Any], path: Path) -> Iterator[list[Issue]]:
        first = node.many.get("prefixItems") or node.many.get("items") or ()
        rest = node.one.get("additionalItems" if "items" in node.many else "items")
        for index, item in enumerate(value):
            schema = first[index] if index < len(first) else rest
            if schema is not None:
                yield self._judge(schema, item, (*path, index))

    def _leftovers(self, node: Node, value: Any, path: Path) -> list[Issue]:
        """What the rules above do not reach: `contains`, and what no part of a schema knows."""
        if isinstance(value, dict) and "unevaluatedProperties" in node.one:
            known = _known_names(node)
            return [
                self._unexpected((*path, key), member, known)
                for key, member in value.items()
                if key not in known
            ] or [self._issue(path, "invalid_value", "only known fields", value)]
        wanted = (
            "the items that the schema asks for" if "contains" in node.one else "a fitting value"
        )
        return [self._issue(path, "invalid_value", wanted, value)]

    # unions ----------------------------------------------------------------------------------

    def _variants(
        self, variants: Sequence[Node], value: Any, path: Path, *, only_one: bool
    ) -> list[Issue]:
        fitting = sum(self._parts.is_valid(variant, value) for variant in variants)
        if fitting > 1 and only_one:
            wanted = f"a value that fits exactly one of {len(variants)} variants"
            return [self._issue(path, "invalid_value", wanted, value)]
        if fitting:
            return []
        meant = [v for v in variants if type_of(value) in types_of(v, self._types)]
        if not meant:
            types = frozenset[str]().union(*(types_of(v, self._types) for v in variants))
            return [self._issue(path, "type_mismatch", _type_words(types), value)]
        if isinstance(value, dict) and len(meant) > 1:
            marks = [marks_of(variant) for variant in meant]
            marked = [v for v, mark in zip(meant, marks, strict=True) if bears(value, mark)]
            unmarked = self._no_such_mark(marks, value, path) if not marked else []
            if unmarked:
                return unmarked
            meant = marked or meant
        told = [self._judge(variant, value, path) for variant in meant]
        best = min(told, key=len)
        if len(told) == 1 or isinstance(value, dict | list):
            return best
        # Variants of one scalar type, such as two ranges: name what each of them wants.
        wanted = " or ".join(dict.fromkeys(i.expected for issues in told for i in issues[:1]))
        return [self._issue(path, best[0].code, wanted, value)] if best else []

    def _no_such_mark(
        self, marks: Sequence[Marks], value: Mapping[str, Any], path: Path
    ) -> list[Issue]:
        """One issue at the field that tells the variants apart, when all share such a field."""
        shared = [name for name in marks[0] if all(name in mark for mark in marks)]
        for name in shared:
            allowed = [option for mark in marks for option in mark[name]]
            if name not in value:
                return [
                    Issue(pointer((*path, name)), "missing_required", _one_of(allowed), "nothing")
                ]
            return [self._issue((*path, name), "invalid_value", _one_of(allowed), value[name])]
        return []

    # words -----------------------------------------------------------------------------------

    def _own(self, error: Any, value: Any, path: Path) -> Issue:
        kind = error.kind
        name = kind.name
        if name == "required":
            missing = (*path, kind.property)
            wanted = self._wanted(missing)
            return Issue(pointer(missing), "missing_required", wanted, "nothing")
        if name == "type":
            return self._issue(path, "type_mismatch", _type_words(frozenset(kind.types)), value)
        if name == "enum":
            return self._issue(path, "invalid_value", _one_of(kind.options), value)
        if name == "const":
            return self._issue(path, "invalid_value", _one_of([kind.expected_value]), value)
        words = _LIMITS.get(name)
        if words is None:
            return self._issue(path, "invalid_value", f"a value that {name} allows", value)
        limit = next((v for v in kind.as_dict().values()), "")
        shown = shorten(str(limit), 120)
        if name == "pattern":
            return self._issue(path, "invalid_value", words.format(shown), value)
        return self._issue(path, "invalid_value", words.format(shown), value, sized=value)

    def _wanted(self, path: Path) -> str:
        """The type of a missing field, read along `properties`; only for the message."""
        nodes = [self._graph.root]
        for step in path:
            nodes = [
                part.named["properties"][step]
                for node in nodes
                for part in node.together()
                if isinstance(step, str) and step in part.named.get("properties", {})
            ]
        types = ANY.intersection(*(types_of(node, self._types) for node in nodes)) if nodes else ANY
        return "a value" if types == ANY or not types else _type_words(types)

    def _unexpected(self, path: Path, value: Any, known: Sequence[str]) -> Issue:
        # A misspelled field may hold a secret: its value is never shown.
        near = get_close_matches(str(path[-1]), known, n=1) if path else []
        expected = f"no such field; did you mean {near[0]!r}?" if near else "no such field"
        return Issue(pointer(path), "unexpected_field", expected, type_of(value))

    def _issue(
        self, path: Path, code: str, expected: str, value: Any, *, sized: Any = None
    ) -> Issue:
        hidden = any(step in self._sensitive for step in path) or holds_name(value, self._sensitive)
        received = REDACTED if hidden else describe(value)
        if isinstance(sized, str) and not hidden and len(sized) > 60:
            received = f"{len(sized)} characters"
        return Issue(pointer(path), code, expected, received)


def holds_name(value: Any, names: frozenset[str]) -> bool:
    """Whether a text looks like unread arguments that hold one of these fields."""
    return isinstance(value, str) and any(
        name + mark in value for name in names for mark in ('"', "'", "=", ":", "\\")
    )


def _known_names(node: Node) -> list[str]:
    names: dict[str, None] = {}
    seen = {node}
    waiting = [node]
    while waiting:
        part = waiting.pop()
        names |= dict.fromkeys(part.named.get("properties", ()))
        for other in part.same_place():
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return list(names)


def _type_words(types: Types) -> str:
    if "number" in types:
        types -= {"integer"}
    return " or ".join(sorted(types)) or "nothing"


def _one_of(options: Sequence[Any]) -> str:
    shown = [
        shorten(json.dumps(option, ensure_ascii=False, default=str), 60) for option in options[:20]
    ]
    more = ["…"] if len(options) > 20 else []
    return shown[0] if len(options) == 1 else "one of " + ", ".join(shown + more)
