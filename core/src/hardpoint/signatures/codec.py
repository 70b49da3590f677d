"""What a `Codec` is: one Python type in both directions, and how a value is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import attrs

Schema = dict[str, Any]
Decode = Callable[[Any, str], Any]
"""Takes a JSON value and its JSON Pointer; strict, so that a union can try its members."""


@attrs.frozen
class Codec:
    """One type, in both directions."""

    schema: Schema
    decode: Decode
    identity: bool = False
    """The JSON value is the Python value."""


class Unsupported(Exception):
    """The type has no JSON form; the text says what to use instead."""


class Refused(Exception):
    """A JSON value does not fit a type."""

    def __init__(
        self, path: str, expected: str, value: Any, *, code: str = "type_mismatch"
    ) -> None:
        self.path = path
        self.expected = expected
        # Only the kind of the value: it may be a secret.
        self.received = kind_of(value)
        self.code = code
        super().__init__(f"{path}: expected {expected}, received {self.received}")


def kind_of(value: Any) -> str:
    """The JSON name of a value's type, for messages."""
    names = {str: "text", bool: "a boolean", int: "an integer", float: "a number"}
    names |= {list: "an array", dict: "an object", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def escape(key: str) -> str:
    """One segment of a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def kinds_of(schema: Schema) -> list[str]:
    """The JSON types that a schema names, those of its variants included."""
    named = schema.get("type", [])
    listed = [named] if isinstance(named, str) else list(named)
    return listed + [kind for member in schema.get("anyOf", ()) for kind in kinds_of(member)]


def show_type(annotation: Any) -> str:
    """A type as its author wrote it."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__
    return str(annotation).replace("typing.", "")
