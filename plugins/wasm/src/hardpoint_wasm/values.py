"""Turn JSON values into values for a guest and back, by type. What a type looks like is `wit`'s."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from hardpoint.errors import InvalidParameters, Issue
from hardpoint_wasm.wit import BYTES, RANGES, WitType


def lower(type_: WitType, value: Any, path: str = "") -> Any:
    """A JSON value as the engine takes it.

    Raises:
        InvalidParameters: The value is not of this type. Schemas catch most of that earlier.
    """
    from wasmtime import component as wc

    kind = type_.kind
    if type_ == BYTES:
        try:
            return base64.b64decode(_expect(str, "text in base64", value, path), validate=True)
        except binascii.Error:
            raise _wrong("text in base64", value, path) from None
    match kind:
        case "bool":
            return _expect(bool, "true or false", value, path)
        case "f32" | "f64":
            return float(_number(value, path))
        case "string":
            return encodable(_expect(str, "text", value, path))
        case "char":
            text = encodable(_expect(str, "one character", value, path))
            if len(text) != 1:
                raise _wrong("one character", value, path)
            return text
        case "list":
            items = _expect(list, "an array", value, path)
            return [lower(type_.items[0], item, f"{path}/{i}") for i, item in enumerate(items)]
        case "tuple":
            items = _expect(list, "an array", value, path)
            if len(items) != len(type_.items):
                raise _wrong(f"an array of {len(type_.items)} items", value, path)
            pairs = zip(type_.items, items, strict=True)
            return tuple(lower(part, item, f"{path}/{i}") for i, (part, item) in enumerate(pairs))
        case "option":
            payload = None if value is None else lower(type_.items[0], value, path)
            if not tagged(type_):
                return payload
            return wc.Variant("none" if value is None else "some", payload)
        case "record":
            fields = _expect(dict, "an object", value, path)
            record = wc.Record()
            for name, part in type_.cases:
                assert part is not None
                if name not in fields and part.kind != "option":
                    raise _wrong(f"an object with {name!r}", value, path)
                setattr(record, name, lower(part, fields.get(name), f"{path}/{name}"))
            return record
        case "enum":
            if value not in type_.names:
                raise _wrong("one of " + ", ".join(type_.names), value, path)
            return value
        case "flags":
            names = _expect(list, "an array", value, path)
            if not all(name in type_.names for name in names):
                raise _wrong("names out of " + ", ".join(type_.names), value, path)
            return set(names)
        case "variant" | "result":
            return _lower_case(type_, value, path)
    return _integer(kind, value, path)


def make_case(type_: WitType, name: str, payload: Any) -> Any:
    """A chosen case as the engine takes it: bare where classes tell cases apart, else tagged."""
    from wasmtime import component as wc

    return wc.Variant(name, payload) if tagged(type_) else payload


def tagged(type_: WitType) -> bool:
    """Whether the engine wants the case's name beside the payload, as its own rule has it."""
    seen: set[str] = set()
    for payload in _payloads(type_):
        classes = _classes(payload)
        if classes & seen:
            return True
        seen |= classes
    return False


def lift(type_: WitType, value: Any) -> Any:
    """A value from a guest as JSON. Floats that JSON lacks become text."""
    kind = type_.kind
    if type_ == BYTES:
        return base64.b64encode(value).decode("ascii")
    match kind:
        case "f32" | "f64":
            return value if value == value and abs(value) != float("inf") else str(value)
        case "list":
            return [lift(type_.items[0], item) for item in value]
        case "tuple":
            return [lift(part, item) for part, item in zip(type_.items, value, strict=True)]
        case "record":
            return {name: lift(part, getattr(value, name)) for name, part in type_.cases if part}
        case "flags":
            return [name for name in type_.names if name in value]
        case "option":
            name, payload = chosen_case(type_, value)
            return None if name == "none" else lift(type_.items[0], payload)
        case "variant" | "result":
            name, payload = chosen_case(type_, value)
            part = dict(type_.cases)[name]
            return name if part is None else {name: lift(part, payload)}
    return value


def chosen_case(type_: WitType, value: Any) -> tuple[str, Any]:
    """Which case a value from a guest is, and its payload."""
    if tagged(type_):
        return value.tag, value.payload
    names = ("none", "some") if type_.kind == "option" else type_.names
    for name, payload in zip(names, _payloads(type_), strict=True):
        if _class_of(value) in _classes(payload):
            return name, value
    raise ValueError(f"no case of {type_} fits {type(value).__name__}")


def encodable(text: str) -> str:
    """Text as a guest can hold it: lone surrogates, which are not Unicode text, are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _lower_case(type_: WitType, value: Any, path: str) -> Any:
    parts = dict(type_.cases)
    if isinstance(value, str) and value in parts and parts[value] is None:
        return make_case(type_, value, None)
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        part = parts.get(name)
        if part is not None:
            return make_case(type_, name, lower(part, inner, f"{path}/{name}"))
    raise _wrong("one case of " + ", ".join(parts), value, path)


def _payloads(type_: WitType) -> tuple[WitType | None, ...]:
    if type_.kind == "option":
        return (None, type_.items[0])
    return tuple(payload for _, payload in type_.cases)


def _classes(type_: WitType | None) -> set[str]:
    """The Python classes of a type's values, named as `_class_of` names them."""
    if type_ is None:
        return {"object"}
    if type_ == BYTES:
        return {"bytes"}
    if type_.kind in ("option", "variant", "result"):
        if tagged(type_):
            return {"Variant"}
        return set().union(*(_classes(payload) for payload in _payloads(type_)))
    return {_CLASSES.get(type_.kind, "int")}


_CLASSES = {
    "bool": "bool",
    "f32": "float",
    "f64": "float",
    "char": "str",
    "string": "str",
    "enum": "str",
    "list": "list",
    "tuple": "tuple",
    "record": "Record",
    "flags": "set",
}


def _class_of(value: Any) -> str:
    return "object" if value is None else type(value).__name__


def _expect(class_: type, expected: str, value: Any, path: str) -> Any:
    if not isinstance(value, class_):
        raise _wrong(expected, value, path)
    return value


def _number(value: Any, path: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("a number", value, path)
    return value


def _integer(kind: str, value: Any, path: str) -> int:
    low, high = RANGES[kind]
    number = _number(value, path)
    if isinstance(number, float) and not number.is_integer():
        raise _wrong("a whole number", value, path)
    if not low <= number <= high:
        raise _wrong(f"a whole number from {low} to {high}", value, path)
    return int(number)


def _wrong(expected: str, value: Any, path: str) -> InvalidParameters:
    received = repr(value)[:80]
    issue = Issue(path, "type_mismatch", expected, received)
    return InvalidParameters(f"{path or 'the arguments'}: expected {expected}", issues=(issue,))
