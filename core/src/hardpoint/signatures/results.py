"""Turn what a tool returned into a JSON value: the other direction of a `Codec`."""

from __future__ import annotations

import base64
import enum
import math
from collections.abc import Callable, Mapping, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

from hardpoint.errors import ExecutionFailed

_PLAIN = frozenset({str, int, bool, type(None)})
_MAX_DEPTH = 200


def to_result(value: Any) -> Any:
    """The JSON value of anything a tool may return.

    Dates, UUIDs, paths and decimals become text, bytes base64, sets and tuples lists, records
    objects, enums their values. JSON has no word for NaN and infinity, so they become that text.

    Raises:
        ExecutionFailed: The value, or one inside it, has no JSON form.
    """
    return _convert(value, "", 0)


def _convert(value: Any, path: str, depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else _not_finite(value)
    if depth > _MAX_DEPTH:
        raise ExecutionFailed(
            f"the result is nested more than {_MAX_DEPTH} levels deep, or in a circle"
        )
    if kind is list or kind is tuple:
        return [_convert(item, f"{path}/{at}", depth + 1) for at, item in enumerate(value)]
    if kind is dict:
        return {
            _key(key, path): _convert(item, f"{path}/{key}", depth + 1)
            for key, item in value.items()
        }
    return _convert_other(value, path, depth)


def _convert_other(value: Any, path: str, depth: int) -> Any:
    if isinstance(value, enum.Enum):
        return _convert(_enum_value(value), path, depth + 1)
    for kinds, text in _AS_TEXT:
        if isinstance(value, kinds):
            return text(value)
    if isinstance(value, str | int | float):  # a subclass of a plain type
        return _convert(_plain(value), path, depth)
    if (fields := record_fields(value)) is not None:
        return {
            key: _convert(getattr(value, attribute), f"{path}/{key}", depth + 1)
            for key, attribute in fields
        }
    if callable(dump := getattr(value, "model_dump", None)):  # pydantic
        return _convert(dump(mode="json"), path, depth + 1)
    if isinstance(value, Mapping):
        return _convert(dict(value), path, depth)
    if isinstance(value, Set):
        return _convert(_in_order(value), path, depth)
    if hasattr(value, "__iter__") and hasattr(value, "__len__"):
        return _convert(list(value), path, depth)
    raise ExecutionFailed(
        f"the result{f' at {path}' if path else ''} is a {type(value).__qualname__}, which has no "
        "JSON form; return text, numbers, lists, dicts, dataclasses, attrs classes or dates"
    )


def record_fields(value: Any) -> list[tuple[str, str]] | None:
    """(key, attribute) of each field of an attrs, dataclass or named tuple instance."""
    if isinstance(value, type):
        return None
    if (fields := getattr(type(value), "__attrs_attrs__", None)) is not None:
        return [(field.alias or field.name, field.name) for field in fields]
    if hasattr(type(value), "__dataclass_fields__"):
        import dataclasses

        return [(field.name, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, tuple) and (names := getattr(type(value), "_fields", None)) is not None:
        return [(name, name) for name in names]
    return None


def format_duration(value: timedelta) -> str:
    """ISO 8601, in days and seconds: `PT90S`, `P1DT0.5S`, `-PT1S`."""
    sign, value = ("-", -value) if value < timedelta() else ("", value)
    seconds = f"{value.seconds}.{value.microseconds:06d}".rstrip("0").rstrip(".")
    days = f"{value.days}D" if value.days else ""
    clock = f"T{seconds}S" if seconds != "0" or not days else ""
    return f"{sign}P{days}{clock}"


def _key(key: Any, path: str) -> str:
    if type(key) is str:
        return key
    converted = _convert(key, path, 0)
    if isinstance(converted, str):
        return converted
    if isinstance(converted, bool) or converted is None:
        return {True: "true", False: "false", None: "null"}[converted]
    if isinstance(converted, int | float):
        return str(converted)
    raise ExecutionFailed(
        f"the result{f' at {path}' if path else ''} has a key of type {type(key).__qualname__}; "
        "keys of an object are text"
    )


def _plain(value: str | float) -> str | float:
    for kind in (str, int, float):
        if isinstance(value, kind):
            # The type's own conversion: a subclass may print itself differently.
            return kind.__str__(value) if kind is str else kind(value)
    raise AssertionError(value)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _enum_value(member: enum.Enum) -> Any:
    return member.value if isinstance(member.value, str | int | float | bool) else member.name


def _in_order(values: Set[Any]) -> list[Any]:
    """Sorted where possible, so that the same set is the same result."""
    try:
        return sorted(values)
    except TypeError:
        return list(values)


_AS_TEXT: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    ((datetime, date, time), lambda value: value.isoformat()),
    (timedelta, format_duration),
    ((UUID, PurePath, Decimal), str),
    ((bytes, bytearray, memoryview), lambda value: base64.b64encode(value).decode("ascii")),
)
