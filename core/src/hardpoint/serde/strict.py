"""Make strict converters: hooks that refuse what cattrs would bend to fit."""

from __future__ import annotations

import base64
import types
from collections.abc import Callable, Mapping, Set
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin
from uuid import UUID

from hardpoint.serde.plain import to_json
from hardpoint.serde.words import (
    is_class,
    is_enum,
    is_list,
    is_literal,
    is_mapping,
    kind,
    kind_of,
    origin,
    received,
    word,
)

if TYPE_CHECKING:
    from cattrs import Converter


def make_strict_converter() -> Converter:
    from cattrs import Converter

    converter = Converter(forbid_extra_keys=True, detailed_validation=True, use_alias=True)
    converter.register_unstructure_hook_func(lambda _: True, to_json)
    for scalar, read in _SCALARS.items():
        converter.register_structure_hook(scalar, _scalar_hook(scalar, read))
    converter.register_structure_hook_func(is_enum, _read_enum)
    converter.register_structure_hook_func(is_literal, _read_literal)
    converter.register_structure_hook_factory(_is_union, lambda t: _union_hook(converter, t))
    for is_one, allowed in _CONTAINERS:
        # What cattrs does with a fitting value stays; what it would bend to fit is refused.
        _guard(converter, is_one, allowed)
    return converter


class _Wrong(ValueError):
    """A value of another kind than expected."""

    def __init__(self, expected: str, value: Any) -> None:
        super().__init__(f"expected {expected}, got {received(value)}")


def _scalar_hook(scalar: type, read: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def hook(value: Any, type_: Any) -> Any:
        if is_enum(type_):  # an IntEnum is looked up as an int
            return _read_enum(value, type_)
        try:
            found = read(value)
        except (ValueError, InvalidOperation, OverflowError) as error:
            raise _Wrong(word(scalar), value) from error
        if found is None:
            raise _Wrong(word(scalar), value)
        return found

    return hook


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _exactly(type_: type) -> Callable[[Any], Any]:
    return lambda value: value if type(value) is type_ else None


def _read_path(value: Any) -> Path | None:
    if isinstance(value, PurePath):
        return Path(value)
    return Path(value) if isinstance(value, str) and value and "\0" not in value else None


def _read_bytes(value: Any) -> bytes | None:
    if isinstance(value, bytes):
        return value
    return base64.b64decode(value, validate=True) if isinstance(value, str) else None


def _read_decimal(value: Any) -> Decimal | None:
    if isinstance(value, Decimal):
        found = value
    elif isinstance(value, str) or _is_number(value):
        found = Decimal(str(value))  # through text: 0.1 means 0.1
    else:
        return None
    return found if found.is_finite() else None


def _read_timedelta(value: Any) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    return timedelta(seconds=value) if _is_number(value) else None


def _read_datetime(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else _exactly(datetime)(value)


def _read_date(value: Any) -> date | None:
    return date.fromisoformat(value) if isinstance(value, str) else _exactly(date)(value)


def _read_uuid(value: Any) -> UUID | None:
    return UUID(value) if isinstance(value, str) else _exactly(UUID)(value)


_SCALARS: dict[Any, Callable[[Any], Any]] = {
    str: lambda value: value if isinstance(value, str) and not isinstance(value, Enum) else None,
    int: lambda value: value if type(value) is int else None,
    float: lambda value: float(value) if _is_number(value) else None,
    bool: lambda value: value if isinstance(value, bool) else None,
    bytes: _read_bytes,
    Decimal: _read_decimal,
    timedelta: _read_timedelta,
    datetime: _read_datetime,
    date: _read_date,
    UUID: _read_uuid,
    Path: _read_path,
}


def _read_enum(value: Any, type_: Any) -> Any:
    if isinstance(value, type_):
        return value
    return _choose(value, {member.value: member for member in type_}, type_)


def _read_literal(value: Any, type_: Any) -> Any:
    return _choose(value, {option: option for option in get_args(type_)}, type_)


def _choose(value: Any, options: Mapping[Any, Any], type_: Any) -> Any:
    for option, meaning in options.items():
        if type(option) is type(value) and option == value:
            return meaning
    shown = repr(value) if isinstance(value, str) and len(value) < 40 else received(value)
    raise ValueError(f"expected {word(type_)}, got {shown}")


def _is_union(type_: Any) -> bool:
    return get_origin(type_) in (Union, types.UnionType)


def _union_hook(converter: Converter, type_: Any) -> Callable[[Any, Any], Any]:
    members = [member for member in get_args(type_) if member is not types.NoneType]
    optional = len(members) < len(get_args(type_))

    def hook(value: Any, _: Any) -> Any:
        if value is None and optional:
            return None
        # A member of the value's very own type first: 5 stays whole in `float | int`.
        for member in sorted(members, key=lambda member: member is not type(value)):
            try:
                return converter.structure(value, member)
            except Exception as error:  # hooks and validators of a plugin's class are foreign code
                last = error
        if len(members) == 1:
            raise last
        meant = [member for member in members if kind(member) == kind_of(value) != "scalar"]
        if len(meant) == 1:
            converter.structure(value, meant[0])  # fails again, with the problem inside
        raise _Wrong(" or ".join(map(word, members)), value)

    return hook


_CONTAINERS: tuple[tuple[Callable[[Any], bool], Any], ...] = (
    (is_list, list | tuple | Set),
    (is_mapping, Mapping),
    (is_class, Mapping),
)


def _guard(converter: Converter, is_one: Callable[[Any], bool], allowed: Any) -> None:
    from cattrs.dispatch import StructureHook

    inner_factory = converter.get_structure_hook
    being_made: set[Any] = set()

    def factory(type_: Any) -> StructureHook:
        being_made.add(type_)
        try:
            inner = inner_factory(type_, cache_result=False)
        finally:
            being_made.discard(type_)
        own = origin(type_)
        parts = get_args(type_)
        length = len(parts) if own is tuple and parts and ... not in parts else None

        def hook(value: Any, target: Any) -> Any:
            if is_one is is_class and isinstance(value, own):
                return value
            if not isinstance(value, allowed):
                raise _Wrong(word(type_), value)
            if length is not None and len(value) != length:
                raise ValueError(f"expected {length} values, got {len(value)}")
            return inner(value, target)

        return hook

    converter.register_structure_hook_factory(
        lambda type_: is_one(type_) and type_ not in being_made, factory
    )
