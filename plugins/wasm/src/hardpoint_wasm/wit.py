"""Types of a component as values: read once, printed as WIT, turned into JSON Schema.

A type from a stranger may be small in the file and huge when spelled out, so reading has a budget.
How JSON values become guest values and back is decided in `values`.
"""

from __future__ import annotations

from typing import Any

import attrs

from hardpoint.errors import SandboxError

_MAX_NODES = 2_000
_MAX_DEPTH = 12
_PLAIN = {
    "Bool": "bool",
    "S8": "s8",
    "S16": "s16",
    "S32": "s32",
    "S64": "s64",
    "U8": "u8",
    "U16": "u16",
    "U32": "u32",
    "U64": "u64",
    "F32": "f32",
    "F64": "f64",
    "Char": "char",
    "String": "string",
}


@attrs.frozen
class WitType:
    """A type. `cases` holds the named parts of records, variants, enums and flags."""

    kind: str
    items: tuple[WitType, ...] = ()
    """Element of a list, payload of an option, members of a tuple."""
    cases: tuple[tuple[str, WitType | None], ...] = ()
    """Fields of a record, cases of a variant; ok and err of a result; names of an enum or flags."""

    def __str__(self) -> str:
        if self.kind in ("list", "option", "tuple"):
            return f"{self.kind}<{', '.join(map(str, self.items))}>"
        if self.kind == "result":
            return f"result<{', '.join(str(part or '_') for _, part in self.cases)}>"
        if self.kind == "record":
            return f"record {{{', '.join(f'{name}: {part}' for name, part in self.cases)}}}"
        if self.kind == "variant":
            return f"variant {{{', '.join(_case(name, part) for name, part in self.cases)}}}"
        if self.kind in ("enum", "flags"):
            return f"{self.kind} {{{', '.join(name for name, _ in self.cases)}}}"
        return self.kind

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.cases)


@attrs.frozen
class WitFunction:
    """A function's signature."""

    params: tuple[tuple[str, WitType], ...]
    result: WitType | None

    def __str__(self) -> str:
        params = ", ".join(f"{name}: {type_}" for name, type_ in self.params)
        return f"func({params})" + (f" -> {self.result}" if self.result else "")


STRING = WitType("string")
BYTES = WitType("list", (WitType("u8"),))


def option(payload: WitType) -> WitType:
    return WitType("option", (payload,))


def _case(name: str, payload: WitType | None) -> str:
    return name if payload is None else f"{name}({payload})"


class _Reader:
    def __init__(self) -> None:
        self.left = _MAX_NODES

    def read(self, value: Any, depth: int = 0) -> WitType:
        self.left -= 1
        if self.left < 0 or depth > _MAX_DEPTH:
            raise SandboxError("a type of this component is too large or too deep to be offered")
        name, deeper = type(value).__name__, depth + 1
        if name in ("OptionType", "ResultType", "VariantType"):
            # The engine's own conversion of nested cases doubles with each level.
            deeper = depth + 2
        if name in _PLAIN:
            return WitType(_PLAIN[name])
        match name:
            case "ListType":
                return WitType("list", (self.read(value.element, deeper),))
            case "OptionType":
                return WitType("option", (self.read(value.payload, deeper),))
            case "TupleType":
                return WitType("tuple", tuple(self.read(item, deeper) for item in value.elements))
            case "RecordType":
                return WitType("record", (), self._cases(value.fields, deeper))
            case "VariantType":
                return WitType("variant", (), self._cases(value.cases, deeper))
            case "ResultType":
                parts = [("ok", value.ok), ("err", value.err)]
                return WitType("result", (), self._cases(parts, deeper))
            case "EnumType" | "FlagsType":
                names = value.names
                self.left -= len(names)
                kind = "enum" if name == "EnumType" else "flags"
                return WitType(kind, (), tuple((case, None) for case in names))
        raise SandboxError(
            f"the type {name.removesuffix('Type').lower()} is not supported",
            hint="use numbers, text, lists, records, variants, options and results",
        )

    def _cases(self, cases: Any, depth: int) -> tuple[tuple[str, WitType | None], ...]:
        return tuple(
            (name, None if payload is None else self.read(payload, depth))
            for name, payload in cases
        )


def read_function(value: Any) -> WitFunction:
    """A function type of the engine as a value.

    Raises:
        SandboxError: It has types that cannot be offered: resources, streams, or giants.
    """
    reader = _Reader()
    return WitFunction(
        tuple((name, reader.read(part)) for name, part in value.params),
        None if value.result is None else reader.read(value.result),
    )


# JSON Schema -----------------------------------------------------------------------------------

RANGES = {
    f"{sign}{bits}": (
        (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if sign == "s" else (0, 2**bits - 1)
    )
    for sign in "su"
    for bits in (8, 16, 32, 64)
}


def to_schema(type_: WitType) -> dict[str, Any]:
    """The JSON Schema of the values that stand for a type."""
    kind = type_.kind
    if type_ == BYTES:
        return {"type": "string", "contentEncoding": "base64", "description": "Bytes in base64."}
    if kind in RANGES:
        low, high = RANGES[kind]
        return {"type": "integer", "minimum": low, "maximum": high}
    match kind:
        case "bool":
            return {"type": "boolean"}
        case "f32" | "f64":
            return {"type": "number"}
        case "char":
            return {"type": "string", "minLength": 1, "maxLength": 1}
        case "list":
            return {"type": "array", "items": to_schema(type_.items[0])}
        case "tuple":
            return {
                "type": "array",
                "prefixItems": [to_schema(item) for item in type_.items],
                "items": False,
                "minItems": len(type_.items),
                "maxItems": len(type_.items),
            }
        case "option":
            return {"anyOf": [to_schema(type_.items[0]), {"type": "null"}]}
        case "record":
            return object_schema(tuple((name, part) for name, part in type_.cases if part))
        case "enum":
            return {"type": "string", "enum": list(type_.names)}
        case "flags":
            names = {"type": "string", "enum": list(type_.names)}
            return {"type": "array", "items": names, "uniqueItems": True}
        case "variant" | "result":
            return {"anyOf": [_case_schema(name, part) for name, part in type_.cases]}
    return {"type": "string"}


def object_schema(fields: tuple[tuple[str, WitType], ...]) -> dict[str, Any]:
    """An object with one property for each field; options may be left out."""
    return {
        "type": "object",
        "properties": {name: to_schema(part) for name, part in fields},
        "required": [name for name, part in fields if part.kind != "option"],
        "additionalProperties": False,
    }


def _case_schema(name: str, payload: WitType | None) -> dict[str, Any]:
    """A case without a payload is its name, one with a payload an object with one key."""
    if payload is None:
        return {"const": name}
    return {
        "type": "object",
        "properties": {name: to_schema(payload)},
        "required": [name],
        "additionalProperties": False,
    }
