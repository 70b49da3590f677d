"""Records: dataclasses, attrs classes, named tuples and TypedDicts, as objects with known keys."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import attrs

from hardpoint.signatures.codec import Codec, Decode, Refused, escape
from hardpoint.signatures.docstrings import parse
from hardpoint.signatures.metadata import NO_DEFAULT

Hints = Callable[[Any], dict[str, Any]]
"""Resolves the annotations of a class."""


@attrs.frozen
class Field:
    """One key of a record: a dataclass, attrs class, named tuple or TypedDict."""

    key: str
    annotation: Any
    required: bool = True
    default: Any = NO_DEFAULT
    description: str | None = None


def fields_of(kind: type, hints: Hints) -> list[Field] | None:
    """The keys of a record; None when the class is no record."""
    for reader in (_attrs_fields, _dataclass_fields, _typed_dict_fields, _named_tuple_fields):
        if (fields := reader(kind, hints)) is not None:
            return fields
    return None


def decode_record(make: Any, codecs: dict[str, Codec], required: frozenset[str]) -> Decode:
    name = make.__name__
    known = codecs.keys()

    def decode(value: Any, path: str) -> Any:
        if type(value) is not dict:
            raise Refused(path, f"an object ({name})", value)
        for key in sorted(value.keys() - known):
            raise Refused(
                f"{path}/{escape(key)}", f"one of the keys {', '.join(known)}", value[key],
                code="unexpected_field",
            )  # fmt: skip
        for key in sorted(required - value.keys()):
            raise Refused(f"{path}/{escape(key)}", "a value", None, code="missing_required")
        values = {
            key: codecs[key].decode(each, f"{path}/{escape(key)}") for key, each in value.items()
        }
        try:
            return make(**values)
        except (ValueError, TypeError):
            # The class's own checks. Their text often quotes the value, so it stays out.
            raise Refused(path, f"a valid {name}", value, code="invalid_value") from None

    return decode


def _attrs_fields(kind: type, hints: Hints) -> list[Field] | None:
    if not hasattr(kind, "__attrs_attrs__"):
        return None
    resolved = hints(kind)
    documented = _documented(kind)
    return [
        Field(
            field.alias or field.name,
            resolved.get(field.name, Any),
            required=field.default is attrs.NOTHING,
            default=_plain_default(field.default, attrs.NOTHING),
            description=field.metadata.get("description") or documented.get(field.name),
        )
        for field in attrs.fields(kind)
        if field.init
    ]


def _dataclass_fields(kind: type, hints: Hints) -> list[Field] | None:
    if not hasattr(kind, "__dataclass_fields__"):
        return None
    import dataclasses

    resolved = hints(kind)
    documented = _documented(kind)
    missing = dataclasses.MISSING
    return [
        Field(
            field.name,
            resolved.get(field.name, Any),
            required=field.default is missing and field.default_factory is missing,
            default=_plain_default(field.default, missing),
            description=field.metadata.get("description") or documented.get(field.name),
        )
        for field in dataclasses.fields(kind)
        if field.init
    ]


def _typed_dict_fields(kind: type, hints: Hints) -> list[Field] | None:
    if not hasattr(kind, "__required_keys__"):
        return None
    documented = _documented(kind)
    return [
        Field(key, hint, required=_is_required(kind, key, hint), description=documented.get(key))
        for key, hint in hints(kind).items()
    ]


def _is_required(kind: Any, key: str, hint: Any) -> bool:
    # With postponed annotations, __required_keys__ cannot see Required and NotRequired.
    while (name := bare_name(typing.get_origin(hint))) in {"Required", "NotRequired", "ReadOnly"}:
        if name != "ReadOnly":
            return name == "Required"
        hint = typing.get_args(hint)[0]
    return key in kind.__required_keys__


def _named_tuple_fields(kind: type, hints: Hints) -> list[Field] | None:
    if not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return None
    resolved = hints(kind)
    defaults = getattr(kind, "_field_defaults", {})
    documented = _documented(kind)
    return [
        Field(
            name,
            resolved.get(name, Any),
            required=name not in defaults,
            default=defaults.get(name, NO_DEFAULT),
            description=documented.get(name),
        )
        for name in kind._fields
    ]


def _documented(kind: type) -> dict[str, str]:
    return parse(kind.__dict__.get("__doc__")).parameters


def _plain_default(default: Any, missing: Any) -> Any:
    """A default that can be shown; factories are only run by the class itself."""
    if default is missing or isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return NO_DEFAULT
    return default


def bare_name(special: Any) -> str:
    """The name of a typing special form, from `typing` or `typing_extensions`."""
    return str(getattr(special, "_name", None) or getattr(special, "__name__", ""))
