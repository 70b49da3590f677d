"""Types that are one JSON value: text, numbers, dates, enums, literals."""

from __future__ import annotations

import base64
import binascii
import enum
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import PurePath
from typing import Any
from uuid import UUID

from hardpoint.signatures.codec import Codec, Decode, Refused, Schema, Unsupported
from hardpoint.signatures.results import to_result

# plain values ------------------------------------------------------------------------------------


def _expect(kind: type, expected: str) -> Decode:
    def decode(value: Any, path: str) -> Any:
        if type(value) is not kind:
            raise Refused(path, expected, value)
        return value

    return decode


def decode_int(value: Any, path: str) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # to JSON Schema, 5.0 is an integer
        return int(value)
    raise Refused(path, "an integer", value)


def _decode_float(value: Any, path: str) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Refused(path, "a number that fits a float", value, code="invalid_value") from None
    raise Refused(path, "a number", value)


def as_text(schema: Schema, expected: str, read: Callable[[str], Any]) -> Codec:
    """A type that is written as text."""

    def decode(value: Any, path: str) -> Any:
        if type(value) is not str:
            raise Refused(path, expected, value)
        try:
            return read(value)
        except (ValueError, ArithmeticError, binascii.Error):
            raise Refused(path, expected, value, code="invalid_value") from None

    return Codec({"type": "string", **schema}, decode)


def _decode_decimal(value: Any, path: str) -> Decimal:
    if type(value) in (str, int, float):
        try:
            number = Decimal(str(value))  # by way of text, so that 0.1 stays 0.1
        except (InvalidOperation, ValueError):
            number = Decimal("NaN")
        if number.is_finite():
            return number
    raise Refused(path, 'a decimal number, for example "12.50"', value)


_DURATION = re.compile(
    r"([+-])?P(?=.)(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d{1,6})?)S)?)?",
    re.ASCII,
)


def parse_duration(text: str) -> timedelta:
    """Read an ISO 8601 duration of weeks, days, hours, minutes and seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("not an ISO 8601 duration")
    sign, weeks, days, hours, minutes, seconds = match.groups()
    whole, _, fraction = (seconds or "0").replace(",", ".").partition(".")
    try:
        span = timedelta(
            weeks=int(weeks or 0),
            days=int(days or 0),
            hours=int(hours or 0),
            minutes=int(minutes or 0),
            seconds=int(whole),
            microseconds=int(fraction.ljust(6, "0")),
        )
    except OverflowError:
        raise ValueError("the duration is too long") from None
    return -span if sign == "-" else span


ANY = Codec({}, lambda value, path: value, identity=True)
_NULL = Codec({"type": "null"}, _expect(type(None), "null"), identity=True)
_DECIMAL_PATTERN = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"

LEAVES: dict[Any, Codec] = {
    Any: ANY,
    object: ANY,
    type(None): _NULL,
    None: _NULL,
    str: Codec({"type": "string"}, _expect(str, "text"), identity=True),
    bool: Codec({"type": "boolean"}, _expect(bool, "true or false"), identity=True),
    int: Codec({"type": "integer"}, decode_int),
    float: Codec({"type": "number"}, _decode_float),
    Decimal: Codec({"type": ["number", "string"], "pattern": _DECIMAL_PATTERN}, _decode_decimal),
    datetime: as_text(
        {"format": "date-time"},
        "a date and time, for example 2024-02-29T12:00:00Z",
        datetime.fromisoformat,
    ),
    date: as_text({"format": "date"}, "a date, for example 2024-02-29", date.fromisoformat),
    time: as_text({"format": "time"}, "a time of day, for example 12:30:00", time.fromisoformat),
    timedelta: as_text(
        {"format": "duration"}, "a duration in ISO 8601, for example PT90S", parse_duration
    ),
    UUID: as_text({"format": "uuid"}, "a UUID", UUID),
    bytes: as_text(
        {"contentEncoding": "base64"},
        "bytes in base64",
        lambda text: base64.b64decode(text, validate=True),
    ),
}


def build_path(kind: type[PurePath]) -> Codec:
    """Any class of paths."""
    return as_text({}, "a path", kind)


# literals and enums ------------------------------------------------------------------------------


def _build_choice(choices: list[tuple[Any, Any]]) -> Codec:
    """One of a few listed JSON values, each standing for a Python value."""
    # True == 1 == 1.0 in Python, so the type is part of the key.
    lookup = {(type(json_value), json_value): value for json_value, value in choices}
    listed = [json_value for json_value, _ in choices]
    expected = "one of " + ", ".join(map(_show_json, listed))
    kinds = list(dict.fromkeys(_JSON_KINDS[type(value)] for value in listed))
    schema: Schema = {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": listed}

    def decode(value: Any, path: str) -> Any:
        if type(value) is float and value.is_integer() and (float, value) not in lookup:
            value = int(value)
        try:
            return lookup[type(value), value]
        except (KeyError, TypeError):
            raise Refused(path, expected, value, code="invalid_value") from None

    return Codec(schema, decode, identity=all(j is v and type(v) is str for j, v in choices))


def build_literal(values: tuple[Any, ...]) -> Codec:
    choices = []
    for value in values:
        written = _enum_key(value) if isinstance(value, enum.Enum) else value
        if type(written) not in _JSON_KINDS:
            raise Unsupported(f"Literal[{value!r}] has no JSON form; use text or numbers")
        choices.append((written, value))
    return _build_choice(choices)


def build_enum(kind: type[enum.Enum]) -> Codec:
    if issubclass(kind, enum.Flag):

        def decode(value: Any, path: str) -> Any:
            try:
                return kind(decode_int(value, path))
            except ValueError:
                raise Refused(
                    path, f"flags of {kind.__name__}", value, code="invalid_value"
                ) from None

        return Codec({"type": "integer", "minimum": 0}, decode)
    if not len(kind):
        raise Unsupported(f"{kind.__name__} has no members")
    return _build_choice([(_enum_key(member), member) for member in kind])


def _enum_key(member: enum.Enum) -> Any:
    return to_result(member)


_JSON_KINDS: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"
}  # fmt: skip


def _show_json(value: Any) -> str:
    return (
        {True: "true", False: "false", None: "null"}.get(value, repr(value))
        if (value is None or isinstance(value, bool))
        else repr(value)
    )
