"""Lists, sets, tuples and mappings of other types."""

from __future__ import annotations

import collections
import collections.abc
from collections.abc import Callable
from typing import Any

from hardpoint.signatures.codec import (
    Codec,
    Refused,
    Schema,
    Unsupported,
    escape,
    kinds_of,
    show_type,
)
from hardpoint.signatures.scalars import ANY, LEAVES, as_text

Build = Callable[[Any], Codec]
"""Builds the codec of another type."""

_SEQUENCES: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    collections.deque: collections.deque,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
}
_SETS: dict[Any, Callable[[list[Any]], Any]] = {
    set: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}
_MAPPINGS: dict[Any, Callable[[Any], Any]] = {
    dict: dict,
    collections.OrderedDict: collections.OrderedDict,
    collections.Counter: collections.Counter,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


def build_container(build: Build, origin: type, arguments: tuple[Any, ...]) -> Codec | None:
    """The codec of a container; None when the type is none."""
    if origin is tuple:
        return _build_tuple(build, arguments)
    if make := _SEQUENCES.get(origin):
        return _build_sequence(build, arguments, make)
    if origin in _SETS:
        return _build_set(build, arguments, _SETS[origin])
    if make := _MAPPINGS.get(origin):
        return _build_mapping(build, arguments, make)
    return None


def _build_sequence(
    build: Build, arguments: tuple[Any, ...], make: Callable[[list[Any]], Any]
) -> Codec:
    item = build(arguments[0]) if arguments else ANY
    identity = item.identity and make is list
    is_any = item is ANY

    def decode(value: Any, path: str) -> Any:
        if type(value) is not list:
            raise Refused(path, "an array", value)
        if is_any:
            return value if make is list else make(value)
        return make([item.decode(each, f"{path}/{at}") for at, each in enumerate(value)])

    return Codec({"type": "array", "items": item.schema}, decode, identity)


def _build_set(build: Build, arguments: tuple[Any, ...], make: Callable[[list[Any]], Any]) -> Codec:
    codec = _build_sequence(build, arguments, list)

    def decode(value: Any, path: str) -> Any:
        items = codec.decode(value, path)
        try:
            return make(items)
        except TypeError:
            raise Refused(path, "an array of plain values", value) from None

    return Codec({**codec.schema, "uniqueItems": True}, decode)


def _build_tuple(build: Build, arguments: tuple[Any, ...]) -> Codec:
    if not arguments:
        return _build_sequence(build, (), tuple)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return _build_sequence(build, arguments[:1], tuple)
    codecs = [build(argument) for argument in arguments if argument != ()]
    size = len(codecs)

    def decode(value: Any, path: str) -> Any:
        if type(value) is not list or len(value) != size:
            raise Refused(path, f"an array of {size} items", value)
        return tuple(
            codec.decode(item, f"{path}/{at}")
            for at, (codec, item) in enumerate(zip(codecs, value, strict=True))
        )

    schema: Schema = {"type": "array", "items": False, "minItems": size, "maxItems": size}
    if codecs:
        schema["prefixItems"] = [codec.schema for codec in codecs]
    return Codec(schema, decode)


def _build_mapping(build: Build, arguments: tuple[Any, ...], make: Callable[[Any], Any]) -> Codec:
    key = _build_key(build, arguments[0]) if arguments else LEAVES[str]
    value_type = arguments[1] if len(arguments) > 1 else Any
    item = build(int if make is collections.Counter else value_type)
    schema: Schema = {"type": "object", "properties": {}}
    if item.schema:
        schema["additionalProperties"] = item.schema
    if key.schema != {"type": "string"}:
        schema["propertyNames"] = key.schema
    plain_keys = key.identity
    identity = plain_keys and item.identity and make is dict
    is_any = item is ANY and plain_keys

    def decode(value: Any, path: str) -> Any:
        if type(value) is not dict:
            raise Refused(path, "an object", value)
        if is_any:
            return value if make is dict else make(value)
        return make(
            {
                name if plain_keys else key.decode(name, at): item.decode(each, at)
                for name, each in value.items()
                for at in (f"{path}/{escape(name)}",)
            }
        )

    return Codec(schema, decode, identity)


def _build_key(build: Build, annotation: Any) -> Codec:
    """Keys of JSON objects are text; whole numbers are read from it."""
    codec = build(annotation)
    if annotation is int:
        integer = as_text({"pattern": "^-?[0-9]{1,4000}$"}, "a whole number", int)
        return Codec(integer.schema, integer.decode)
    if codec is ANY or kinds_of(codec.schema) == ["string"]:
        return codec if codec is not ANY else LEAVES[str]
    raise Unsupported(f"keys of an object are text; use dict[str, …], not {show_type(annotation)}")
