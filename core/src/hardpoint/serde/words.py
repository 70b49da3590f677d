"""What a type is called in messages to people who write TOML, and which kind of value it wants."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from uuid import UUID

import attrs

_WORDS: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    bytes: "base64 text",
    Decimal: "a decimal number",
    timedelta: "a number of seconds",
    datetime: "a date and time",
    date: "a date",
    UUID: "a UUID",
    Path: "a path",
}


def word(type_: Any) -> str:
    if type_ in _WORDS:
        return _WORDS[type_]
    if is_literal(type_):
        return "one of " + ", ".join(map(repr, get_args(type_)))
    if is_enum(type_):
        return "one of " + ", ".join(repr(member.value) for member in type_)
    return {"list": "a list", "table": "a table"}.get(
        kind(type_), getattr(type_, "__name__", "a value")
    )


def kind(type_: Any) -> str:
    if is_list(type_):
        return "list"
    return "table" if is_mapping(type_) or is_class(type_) else "scalar"


def kind_of(value: Any) -> str:
    if isinstance(value, Mapping):
        return "table"
    return "list" if isinstance(value, list | tuple | Set) else "scalar"


def received(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)[:40]
    if isinstance(value, str):
        return "text"
    kind = kind_of(value)
    return f"a {kind}" if kind != "scalar" else type(value).__name__


def is_enum(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, Enum)


def is_literal(type_: Any) -> bool:
    return get_origin(type_) is Literal


def origin(type_: Any) -> Any:
    """The class behind an annotation, or None: `list` of `list[int]`."""
    found = get_origin(type_) or type_
    return found if isinstance(found, type) else None


def is_list(type_: Any) -> bool:
    found = origin(type_)
    return found is not None and found not in (str, bytes) and issubclass(found, Sequence | Set)


def is_mapping(type_: Any) -> bool:
    found = origin(type_)
    return found is not None and issubclass(found, Mapping)


def is_class(type_: Any) -> bool:
    found = origin(type_)
    return found is not None and (attrs.has(found) or dataclasses.is_dataclass(found))
