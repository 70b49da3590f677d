"""Our values as JSON can hold them. The way back is in `strict`."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import attrs


def to_json(value: Any) -> Any:
    """A value as JSON can hold it: attrs classes as objects, sets sorted, bytes as base64.

    Raises:
        TypeError: Something in it has no form in JSON.
    """
    if value is None or (isinstance(value, int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Mapping):
        return {str(to_json(key)): to_json(member) for key, member in value.items()}
    if isinstance(value, Set):
        return sorted((to_json(member) for member in value), key=repr)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [to_json(member) for member in value]
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return form(value)
    if attrs.has(type(value)):
        return {
            field.alias or field.name: to_json(getattr(value, field.name))
            for field in attrs.fields(type(value))
            if field.init
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: to_json(getattr(value, field.name)) for field in fields}
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Enum, lambda value: to_json(value.value)),
    (date, lambda value: value.isoformat()),  # datetime is one
    (timedelta, lambda value: value.total_seconds()),
    (bytes | bytearray | memoryview, lambda value: base64.b64encode(value).decode()),
    (Decimal | PurePath | UUID, str),
)
