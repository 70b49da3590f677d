"""Turn text into the type that a schema asks for, before arguments are judged.

Models send `"5"`, `"true"`, `"[1, 2]"`, and `""` or null for a field they mean to leave out. Only
text is ever changed, and only where the schema does not accept text; what cannot be read stays as
it is, and validation names it. Nothing is guessed: `"1,000"` is no number, `"yes"` is no boolean.

A schema is worked out once into places (`_Place`): the schemas that apply at one place of the
arguments together, flattened. They are made when first reached, so recursive schemas need no care.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import isfinite
from typing import Any, Final

from hardpoint.schema.graph import Graph, read_schema
from hardpoint.schema.kinds import ANY, Types, bears, marks_of, types_of
from hardpoint.schema.native import NativeParts, name_matcher
from hardpoint.schema.nodes import Node
from hardpoint.schema.validator import MAX_WORK, Validator
from hardpoint.schema.values import MAX_DEPTH, MAX_DIGITS, count_by_depth

_SETTLED: Final = frozenset({int, float, bool})
_BLANK: Final = " \t\n\r"
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_WORDS: Final = {"true": True, "false": False}
_EXACT: Final = 2**53
"""Whole floats beyond this are not exact."""
_MAX_STEPS: Final = 500_000
_ABSENT: Final = object()
_UNREAD: Final = object()

Coercer = Callable[[Any], Any]


def coerce(params: Any, schema: Any) -> Any:
    """Turn the text in a tool's arguments into the types that its schema asks for.

    Args:
        params: The arguments, or the JSON text of one object. Never changed.
        schema: The tool's parameter schema.

    Returns:
        The arguments: themselves when nothing needs changing, otherwise a changed copy.

    Raises:
        SchemaError: The schema cannot be used safely.

    Example:
        coerce({"limit": "5"}, {"type": "object", "properties": {"limit": {"type": "integer"}}})
        # {"limit": 5}
    """
    return make_coercer(schema)(params)


def make_coercer(schema: Any) -> Coercer:
    """Work a schema out once; what comes back is `coerce` for this schema.

    Args:
        schema: The schema, or a validator made of it, which saves reading it twice.

    Raises:
        SchemaError: The schema cannot be used safely.
    """
    return _Coercer(schema.graph if isinstance(schema, Validator) else read_schema(schema))


class _TooMuch(Exception):
    """The arguments are larger or deeper than anything that validation lets through."""


class _Coercer:
    """The places of one schema, and what they share."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.types: dict[Node, Types] = {}
        self._places: dict[tuple[tuple[Node, ...], frozenset[str]], _Place] = {}
        self._root = self.place((graph.root,))

    def __call__(self, params: Any) -> Any:
        if params.__class__ is not dict:
            params = _read_whole(params)
            if not isinstance(params, dict):
                return params
        try:
            return self._root.object(params, _Run(self))
        except _TooMuch:
            return params  # validation says what is too much

    def place(self, nodes: Sequence[Node], required: frozenset[str] = frozenset()) -> _Place:
        """Where these schemas apply together; `required` is what an object there needs besides."""
        key = tuple(dict.fromkeys(nodes)), required
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = _Place(self, key[0], required)
        return found

    @cached_property
    def parts(self) -> NativeParts:
        return NativeParts(self.graph.schema, linear=self.graph.linear)


class _Run:
    """How deep one call's arguments go, and how much work they may still cause."""

    __slots__ = ("_coercer", "_work", "depth", "steps")

    def __init__(self, coercer: _Coercer) -> None:
        self._coercer = coercer
        self._work = MAX_WORK
        self.depth = 0
        self.steps = _MAX_STEPS

    def enter(self, size: int) -> None:
        self.depth += 1
        self.steps -= size + 1
        if self.depth > MAX_DEPTH or self.steps < 0:
            raise _TooMuch

    def fits(self, variant: Node, value: Any) -> bool:
        """Whether a value at the current depth fits a variant."""
        counts = count_by_depth(value, max_depth=MAX_DEPTH - self.depth, max_values=self.steps)
        if counts is None:
            raise _TooMuch
        self.steps -= sum(counts)
        self._work -= self._coercer.graph.work.of_counts([0] * self.depth + counts)
        if self._work < 0:
            raise _TooMuch
        try:
            return self._coercer.parts.is_valid(variant, value)
        except ValueError:  # not JSON: validation names it
            return False


class _Place:
    """The schemas that apply at one place of the arguments."""

    def __init__(
        self, coercer: _Coercer, nodes: tuple[Node, ...], required: frozenset[str]
    ) -> None:
        self._coercer = coercer
        self._nodes = nodes
        self._required_besides = required

    # what the schemas say, worked out when first asked ---------------------------------------

    @cached_property
    def _parts(self) -> list[Node]:
        return list(dict.fromkeys(part for node in self._nodes for part in node.together()))

    @cached_property
    def types(self) -> Types:
        return ANY.intersection(*(types_of(node, self._coercer.types) for node in self._nodes))

    @cached_property
    def keeps_text(self) -> bool:
        return "string" in self.types

    @cached_property
    def _required(self) -> frozenset[str]:
        lists = (part.get("required") for part in self._parts)
        names = (name for names in lists if isinstance(names, list) for name in names)
        return self._required_besides.union(names)

    @cached_property
    def _fields(self) -> dict[str, _Place]:
        names = dict.fromkeys(
            name for part in self._parts for name in part.named.get("properties", ())
        )
        return {name: self._coercer.place(list(self._schemas_of(name))) for name in names}

    @cached_property
    def _has_other_fields(self) -> bool:
        return any(
            "patternProperties" in part.named or "additionalProperties" in part.one
            for part in self._parts
        )

    @cached_property
    def _patterns(self) -> dict[str, Callable[[str], bool]]:
        linear = self._coercer.graph.linear
        return {
            pattern: name_matcher(pattern, linear=linear)
            for part in self._parts
            for pattern in part.named.get("patternProperties", ())
        }

    def _schemas_of(self, name: str) -> Iterator[Node]:
        for part in self._parts:
            known = part.named.get("properties", {})
            found = [known[name]] if name in known else []
            for pattern, schema in part.named.get("patternProperties", {}).items():
                if self._patterns[pattern](name):
                    found.append(schema)
            if not found and "additionalProperties" in part.one:
                found.append(part.one["additionalProperties"])
            yield from found

    @cached_property
    def _first_items(self) -> list[_Place]:
        longest = max((len(_tuple_of(part)) for part in self._parts), default=0)
        return [self._coercer.place(list(self._schemas_at(index))) for index in range(longest)]

    @cached_property
    def _other_items(self) -> _Place | None:
        schemas = list(self._schemas_at(len(self._first_items)))
        return self._coercer.place(schemas) if schemas else None

    def _schemas_at(self, index: int) -> Iterator[Node]:
        for part in self._parts:
            first = _tuple_of(part)
            rest = part.one.get("additionalItems" if "items" in part.many else "items")
            if index < len(first):
                yield first[index]
            elif rest is not None:
                yield rest

    @cached_property
    def _unions(self) -> dict[str, list[list[Node]]]:
        """For objects and for arrays: of each union here, the variants that admit such a value."""
        unions = [
            part.many[keyword]
            for part in self._parts
            for keyword in ("anyOf", "oneOf")
            if keyword in part.many
        ]
        known = self._coercer.types
        return {
            kind: [[v for v in union if kind in types_of(v, known)] for union in unions]
            for kind in ("object", "array")
        }

    # what becomes of a value -----------------------------------------------------------------

    def value(self, value: Any, run: _Run) -> Any:
        if isinstance(value, str):
            if self.keeps_text:
                return value
            value = _read(value, self.types)
        if isinstance(value, dict):
            return self.object(value, run)
        if isinstance(value, list):
            return self.array(value, run)
        return value

    def object(self, value: dict[str, Any], run: _Run) -> Any:
        run.enter(len(value))
        fields = self._fields
        changed: dict[str, Any] | None = None
        for key, member in value.items():
            kind = member.__class__
            if kind in _SETTLED:
                continue
            place = fields.get(key)
            if member is None:
                # How models leave out a field, and the only way they can in strict modes.
                if place is None or "null" in place.types or key in self._required:
                    continue
                new: Any = _ABSENT
            elif place is None:
                if not self._has_other_fields:
                    continue
                new = self._coercer.place(list(self._schemas_of(key))).value(member, run)
            elif kind is str and place.keeps_text:
                continue
            elif member in ("", "null") and key not in self._required:
                new = None if "null" in place.types else _ABSENT
            else:
                new = place.value(member, run)
            if new is not member:
                if changed is None:
                    changed = dict(value)
                if new is _ABSENT:
                    del changed[key]
                else:
                    changed[key] = new
        run.depth -= 1
        return self._settle("object", value if changed is None else changed, run)

    def array(self, value: list[Any], run: _Run) -> Any:
        run.enter(len(value))
        first, other = self._first_items, self._other_items
        changed: list[Any] | None = None
        if first or other is not None:
            for index, item in enumerate(value):
                if item.__class__ in _SETTLED:
                    continue
                place = first[index] if index < len(first) else other
                if place is None:
                    break
                new = place.value(item, run)
                if new is not item:
                    if changed is None:
                        changed = list(value)
                    changed[index] = new
        run.depth -= 1
        return self._settle("array", value if changed is None else changed, run)

    def _settle(self, kind: str, value: Any, run: _Run) -> Any:
        """Change a value as the variants ask that it is meant for."""
        for variants in self._unions[kind]:
            if variants:
                value = self._settle_one(variants, value, run)
        return value

    def _settle_one(self, variants: list[Node], value: Any, run: _Run) -> Any:
        if len(variants) > 1 and any(run.fits(variant, value) for variant in variants):
            return value
        marked = variants
        if len(variants) > 1 and isinstance(value, dict):
            marked = [v for v in variants if bears(value, marks_of(v))] or variants
        for variant in marked:
            place = self._coercer.place((variant,), self._required)
            tried = place.value(value, run)
            if len(marked) == 1 or (tried is not value and run.fits(variant, tried)):
                return tried
        return value


def _tuple_of(part: Node) -> list[Node]:
    """The schemas of an array's first items, one each."""
    return part.many.get("prefixItems") or part.many.get("items") or []


# reading text ----------------------------------------------------------------------------------


def _read_whole(params: Any) -> Any:
    """Arguments in another shape than a dict, as a dict where they can be read as one."""
    if params is None:
        return {}
    if isinstance(params, Mapping):
        return dict(params)
    if not isinstance(params, str):
        return params
    if params.strip(_BLANK) in ("", "null"):  # how models call a tool without arguments
        return {}
    read = _read_json(params)
    return read if isinstance(read, dict) else params


def _read(text: str, types: Types) -> Any:
    """What a text means where these types are wanted; the text itself when it means nothing."""
    if text == "null" and "null" in types:
        return None
    if "boolean" in types and len(text) <= len("false"):
        word = _WORDS.get(text.lower())
        if word is not None:
            return word
    if "integer" in types or "number" in types:
        number = _read_number(text.strip(_BLANK), whole="number" not in types)
        if number is not None:
            return number
    if "array" in types or "object" in types:
        read = _read_json(text) if text.lstrip(_BLANK)[:1] in ("[", "{") else _UNREAD
        if isinstance(read, list) and "array" in types:
            return read
        if isinstance(read, dict) and "object" in types:
            return read
    return text


def _read_number(text: str, *, whole: bool) -> int | float | None:
    """A JSON number, whole numbers exactly; None when the text is none, or not a finite one."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    if not match[1]:
        return int(text) if len(text) <= MAX_DIGITS else None
    number = float(text)
    if not isfinite(number):
        return None
    if not whole:
        return number
    return int(number) if number.is_integer() and abs(number) < _EXACT else None


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is out of range")
    return number


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def _read_json(text: str) -> Any:
    """The value of a JSON text, or `_UNREAD`; strict, and safe against endless nesting."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return _UNREAD
