"""What `Annotated[TYPE, …]` adds to a type: a description, limits, examples."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs

from hardpoint.signatures.codec import Codec, Refused, Schema, Unsupported, kinds_of
from hardpoint.signatures.results import to_result

NO_DEFAULT: Any = object()


@attrs.frozen
class Param:
    """What `Annotated[TYPE, Param(...)]` says about a parameter or a field."""

    description: str | None = None
    ge: Any = attrs.field(default=None, kw_only=True)
    gt: Any = attrs.field(default=None, kw_only=True)
    le: Any = attrs.field(default=None, kw_only=True)
    lt: Any = attrs.field(default=None, kw_only=True)
    multiple_of: Any = attrs.field(default=None, kw_only=True)
    min_length: int | None = attrs.field(default=None, kw_only=True)
    max_length: int | None = attrs.field(default=None, kw_only=True)
    pattern: str | None = attrs.field(default=None, kw_only=True)
    examples: list[Any] | None = attrs.field(default=None, kw_only=True)


_BOUNDS = {
    "ge": ("minimum", lambda value, bound: value >= bound),
    "gt": ("exclusiveMinimum", lambda value, bound: value > bound),
    "le": ("maximum", lambda value, bound: value <= bound),
    "lt": ("exclusiveMaximum", lambda value, bound: value < bound),
    "multiple_of": ("multipleOf", lambda value, bound: value % bound == 0),
}
_LENGTHS = {
    "min_length": {"string": "minLength", "array": "minItems", "object": "minProperties"},
    "max_length": {"string": "maxLength", "array": "maxItems", "object": "maxProperties"},
}


def apply_metadata(codec: Codec, metadata: Any) -> Codec:
    """Apply one piece of `Annotated` metadata; what nobody here knows is left alone (PEP 593).

    Known are plain text (a description), `Param`, compiled patterns, and what has the attributes of
    annotated-types, `typing_extensions.Doc` or a pydantic `Field`.
    """
    if isinstance(metadata, str):
        return attrs.evolve(codec, schema={**codec.schema, "description": metadata})
    if isinstance(metadata, re.Pattern):
        return attrs.evolve(codec, schema={**codec.schema, "pattern": metadata.pattern})
    if isinstance(metadata, type):
        return codec
    description = getattr(metadata, "description", None) or getattr(metadata, "documentation", None)
    if isinstance(description, str):
        codec = apply_metadata(codec, description)
    if isinstance(examples := getattr(metadata, "examples", None), list):
        codec = attrs.evolve(codec, schema={**codec.schema, "examples": to_result(examples)})
    if isinstance(pattern := getattr(metadata, "pattern", None), str):
        codec = attrs.evolve(codec, schema={**codec.schema, "pattern": pattern})
    for attribute, (keyword, holds) in _BOUNDS.items():
        if (bound := getattr(metadata, attribute, None)) is not None:
            codec = _apply_bound(codec, attribute, keyword, bound, holds)
    for attribute, keywords in _LENGTHS.items():
        if isinstance(length := getattr(metadata, attribute, None), int) and (
            length or "max" in attribute
        ):
            codec = _apply_length(codec, attribute, keywords, length)
    if callable(predicate := getattr(metadata, "func", None)):  # annotated_types.Predicate
        name = getattr(predicate, "__name__", "the check")
        codec = _checked(codec, f"a value for which {name} holds", predicate)
    # pydantic keeps its constraints in a list; groups of annotated-types are iterable.
    nested = getattr(metadata, "metadata", None)
    if isinstance(nested, list):
        for piece in nested:
            codec = apply_metadata(codec, piece)
    return codec


def _apply_bound(
    codec: Codec, attribute: str, keyword: str, bound: Any, holds: Callable[[Any, Any], bool]
) -> Codec:
    kinds = set(kinds_of(codec.schema))
    if kinds & {"integer", "number"} and type(bound) in (int, float):
        codec = attrs.evolve(codec, schema={**codec.schema, keyword: bound})
        if "string" not in kinds:
            return codec
    if codec.identity or not kinds & {"string", "integer", "number"}:
        raise Unsupported(f"`{attribute}` compares numbers and dates; it does not fit this type")
    signs = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    expected = f"{signs.get(attribute, 'a multiple of')} {to_result(bound)}"
    return _checked(codec, expected, lambda value: value is None or holds(value, bound))


def _apply_length(codec: Codec, attribute: str, keywords: dict[str, str], length: int) -> Codec:
    used = {keywords[kind]: length for kind in kinds_of(codec.schema) if kind in keywords}
    if not used and codec.schema:
        raise Unsupported(
            f"`{attribute}` counts characters, items or keys; it does not fit this type"
        )
    return attrs.evolve(codec, schema={**codec.schema, **used})


def _checked(codec: Codec, expected: str, check: Callable[[Any], Any]) -> Codec:
    """A codec with a check on the decoded value, for what a schema cannot say."""

    def decode(value: Any, path: str) -> Any:
        decoded = codec.decode(value, path)
        try:
            holds = check(decoded)
        except Exception:  # somebody else's predicate, or values that cannot be compared
            holds = False
        if not holds:
            raise Refused(path, expected, value, code="invalid_value")
        return decoded

    return Codec(codec.schema, decode)


def with_default(schema: Schema, default: Any) -> Schema:
    """The schema with its default value, when that has a JSON form."""
    if default is NO_DEFAULT:
        return schema
    try:
        return {**schema, "default": to_result(default)}
    except Exception:  # a sentinel object; the function knows what it means
        return schema
