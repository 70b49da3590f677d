"""How one Python type is written in JSON: its schema, and the way back to a real value.

A `Codec` is built once per type at registration. `decode` is strict about what it was given, so that
a union can try its members; where the JSON value already is the Python value, `identity` says so
and a call skips the work.
"""

from __future__ import annotations

import base64
import binascii
import collections
import collections.abc
import enum
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar, Union
from uuid import UUID

import attrs
from hardpoint.signatures.results import to_result

Schema = dict[str, Any]
Decode = Callable[[Any, str], Any]
NO_DEFAULT: Any = object()


@attrs.frozen
class Param:
    """What `Annotated[TYPE, Param(...)]` says about a parameter or a field."""

    description: str | None = None
    ge: Any = attrs.field(default=None, kw_only=True)
    gt: Any = attrs.field(default=None, kw_only=True)
    le: Any = attrs.field(default=None, kw_only=True)
    lt: Any = attrs.field(default=None, kw_only=True)
    multiple_of: Any = attrs.field(default=None, kw_only=True)
    min_length: int | None = attrs.field(default=None, kw_only=True)
    max_length: int | None = attrs.field(default=None, kw_only=True)
    pattern: str | None = attrs.field(default=None, kw_only=True)
    examples: list[Any] | None = attrs.field(default=None, kw_only=True)


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


# plain values ------------------------------------------------------------------------------------


def _expect(kind: type, expected: str) -> Decode:
    def decode(value: Any, path: str) -> Any:
        if type(value) is not kind:
            raise Refused(path, expected, value)
        return value

    return decode


def _decode_int(value: Any, path: str) -> int:
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


def _text(schema: Schema, expected: str, read: Callable[[str], Any]) -> Codec:
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


_ANY = Codec({}, lambda value, path: value, identity=True)
_NULL = Codec({"type": "null"}, _expect(type(None), "null"), identity=True)
_DECIMAL_PATTERN = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"

LEAVES: dict[Any, Codec] = {
    Any: _ANY,
    object: _ANY,
    type(None): _NULL,
    None: _NULL,
    str: Codec({"type": "string"}, _expect(str, "text"), identity=True),
    bool: Codec({"type": "boolean"}, _expect(bool, "true or false"), identity=True),
    int: Codec({"type": "integer"}, _decode_int),
    float: Codec({"type": "number"}, _decode_float),
    Decimal: Codec({"type": ["number", "string"], "pattern": _DECIMAL_PATTERN}, _decode_decimal),
    datetime: _text(
        {"format": "date-time"},
        "a date and time, for example 2024-02-29T12:00:00Z",
        datetime.fromisoformat,
    ),
    date: _text({"format": "date"}, "a date, for example 2024-02-29", date.fromisoformat),
    time: _text({"format": "time"}, "a time of day, for example 12:30:00", time.fromisoformat),
    timedelta: _text(
        {"format": "duration"}, "a duration in ISO 8601, for example PT90S", parse_duration
    ),
    UUID: _text({"format": "uuid"}, "a UUID", UUID),
    bytes: _text(
        {"contentEncoding": "base64"},
        "bytes in base64",
        lambda text: base64.b64decode(text, validate=True),
    ),
}


# building ----------------------------------------------------------------------------------------


@attrs.frozen
class Field:
    """One key of a record: a dataclass, attrs class, named tuple or TypedDict."""

    key: str
    annotation: Any
    required: bool = True
    default: Any = NO_DEFAULT
    description: str | None = None


class Builder:
    """Builds the codecs of one function; recursive types end up in `definitions`."""

    def __init__(
        self, module_names: dict[str, Any] | None = None, local_names: dict[str, Any] | None = None
    ) -> None:
        self.definitions: dict[str, Schema] = {}
        # Where the function was defined, for forward references.
        self._module_names = module_names or {}
        self._local_names = local_names or {}
        self._records: dict[Any, Codec] = {}
        self._open: dict[Any, str | None] = {}
        """Records being built; the value is the name in `definitions` once one refers to itself."""

    def build(self, annotation: Any) -> Codec:
        """The codec of a type.

        Raises:
            Unsupported: There is no JSON form for it.
        """
        try:
            if annotation in LEAVES:
                return LEAVES[annotation]
        except TypeError:  # unhashable, such as Annotated[int, []]
            pass
        if isinstance(annotation, str):
            return self.build(self.resolve(annotation))
        if isinstance(annotation, typing.ForwardRef):
            return self.build(self.resolve(annotation.__forward_arg__))
        if isinstance(annotation, TypeVar):
            return self.build(_type_of_variable(annotation))
        if hasattr(annotation, "__supertype__"):  # NewType
            return self.build(annotation.__supertype__)
        if type(annotation).__name__ == "TypeAliasType":  # `type X = …` of Python 3.12
            return self._build_alias(annotation)

        origin = typing.get_origin(annotation) or annotation
        arguments = typing.get_args(annotation)
        if hasattr(annotation, "__metadata__"):
            return self._build_annotated(annotation)
        if origin is Literal:
            return _build_literal(arguments)
        if origin is Union or origin is types.UnionType:
            return self._build_union(arguments)
        if _bare_name(origin) in {"Required", "NotRequired", "ReadOnly", "Final"}:
            return self.build(arguments[0] if arguments else Any)
        if not isinstance(origin, type):
            raise Unsupported(f"{_show(annotation)} has no JSON form; {_ALTERNATIVES}")
        if (container := self._build_container(origin, arguments)) is not None:
            return container
        if issubclass(origin, enum.Enum):
            return _build_enum(origin)
        if issubclass(origin, PurePath):
            kind = Path if origin is Path else origin
            return _text({}, "a path", kind)
        if any(hasattr(origin, mark) for mark in _PYDANTIC_MARKS):
            return self._build_pydantic(annotation)
        if (fields := self._fields(origin)) is not None:
            return self._build_record(annotation, origin, arguments, fields)
        raise Unsupported(f"{_show(annotation)} has no JSON form; {_ALTERNATIVES}")

    # names and metadata --------------------------------------------------------------------------

    def resolve(self, text: str) -> Any:
        """What an annotation that is still text means where the function was defined."""
        try:
            # It stands in the author's own code; it is as trusted as the function itself.
            return eval(text, self._module_names, self._local_names)
        except Exception as error:  # an annotation is any expression
            raise Unsupported(
                f"the annotation {text!r} cannot be resolved ({error}); "
                "import the name at module level, outside `if TYPE_CHECKING:`"
            ) from error

    def hints(self, owner: Any) -> dict[str, Any]:
        """The resolved annotations of a class."""
        try:
            return typing.get_type_hints(owner, localns=self._local_names, include_extras=True)
        except Exception as error:  # an annotation is any expression
            raise Unsupported(
                f"the annotations of {_show(owner)} cannot be resolved ({error}); "
                "import the names at module level, outside `if TYPE_CHECKING:`"
            ) from error

    def _build_alias(self, alias: Any) -> Codec:
        # A recursive alias (`type Json = dict[str, Json] | str`) is treated like a record.
        return self._guarded(alias, str(alias.__name__), lambda: self.build(alias.__value__))

    def _build_annotated(self, annotation: Any) -> Codec:
        if any(hasattr(each, "__get_pydantic_core_schema__") for each in annotation.__metadata__):
            return self._build_pydantic(annotation)
        codec = self.build(annotation.__origin__)
        for metadata in annotation.__metadata__:
            codec = apply_metadata(codec, metadata)
        return codec

    # combinations --------------------------------------------------------------------------------

    def _build_union(self, members: tuple[Any, ...]) -> Codec:
        codecs = [self.build(member) for member in members]
        schemas = [codec.schema for codec in codecs]
        schema: Schema
        if any(not s for s in schemas):
            schema = {}
        elif all(s.keys() == {"type"} for s in schemas) or _is_nullable_scalar(schemas):
            kinds = [kind for s in schemas for kind in _kinds(s)]
            merged = {key: value for s in schemas for key, value in s.items()}
            schema = merged | {"type": list(dict.fromkeys(kinds))}
        else:
            schema = {"anyOf": schemas}

        def decode(value: Any, path: str) -> Any:
            failures = []
            for codec in exact_first(value):
                try:
                    return codec.decode(value, path)
                except Refused as refused:
                    failures.append(refused)
            # The member that got furthest is the one that was meant.
            raise max(failures, key=lambda refused: (len(refused.path), refused.code))

        def exact_first(value: Any) -> list[Codec]:
            # So that `float | int` leaves 5 an int.
            leaf = LEAVES.get(type(value))
            return sorted(codecs, key=lambda codec: codec is not leaf)

        return Codec(schema, decode, identity=all(codec.identity for codec in codecs))

    def _build_container(self, origin: type, arguments: tuple[Any, ...]) -> Codec | None:
        if origin is tuple:
            return self._build_tuple(arguments)
        if make := _SEQUENCES.get(origin):
            return self._build_sequence(arguments, make)
        if origin in _SETS:
            return self._build_set(arguments, _SETS[origin])
        if make := _MAPPINGS.get(origin):
            return self._build_mapping(arguments, make)
        return None

    def _build_sequence(
        self, arguments: tuple[Any, ...], make: Callable[[list[Any]], Any]
    ) -> Codec:
        item = self.build(arguments[0]) if arguments else _ANY
        identity = item.identity and make is list
        is_any = item is _ANY

        def decode(value: Any, path: str) -> Any:
            if type(value) is not list:
                raise Refused(path, "an array", value)
            if is_any:
                return value if make is list else make(value)
            return make([item.decode(each, f"{path}/{at}") for at, each in enumerate(value)])

        return Codec({"type": "array", "items": item.schema}, decode, identity)

    def _build_set(self, arguments: tuple[Any, ...], make: Callable[[list[Any]], Any]) -> Codec:
        codec = self._build_sequence(arguments, list)

        def decode(value: Any, path: str) -> Any:
            items = codec.decode(value, path)
            try:
                return make(items)
            except TypeError:
                raise Refused(path, "an array of plain values", value) from None

        return Codec({**codec.schema, "uniqueItems": True}, decode)

    def _build_tuple(self, arguments: tuple[Any, ...]) -> Codec:
        if not arguments:
            return self._build_sequence((), tuple)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return self._build_sequence(arguments[:1], tuple)
        codecs = [self.build(argument) for argument in arguments if argument != ()]
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

    def _build_mapping(self, arguments: tuple[Any, ...], make: Callable[[Any], Any]) -> Codec:
        key = self._build_key(arguments[0]) if arguments else LEAVES[str]
        value_type = arguments[1] if len(arguments) > 1 else Any
        item = self.build(int if make is collections.Counter else value_type)
        schema: Schema = {"type": "object", "properties": {}}
        if item.schema:
            schema["additionalProperties"] = item.schema
        if key.schema != {"type": "string"}:
            schema["propertyNames"] = key.schema
        plain_keys = key.identity
        identity = plain_keys and item.identity and make is dict
        is_any = item is _ANY and plain_keys

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

    def _build_key(self, annotation: Any) -> Codec:
        """Keys of JSON objects are text; whole numbers are read from it."""
        codec = self.build(annotation)
        if annotation is int:
            integer = _text({"pattern": "^-?[0-9]{1,4000}$"}, "a whole number", int)
            return Codec(integer.schema, integer.decode)
        if codec is _ANY or _kinds(codec.schema) == ["string"]:
            return codec if codec is not _ANY else LEAVES[str]
        raise Unsupported(f"keys of an object are text; use dict[str, …], not {_show(annotation)}")

    # records -------------------------------------------------------------------------------------

    def _fields(self, origin: type) -> list[Field] | None:
        for reader in (_attrs_fields, _dataclass_fields, _typed_dict_fields, _named_tuple_fields):
            if (fields := reader(origin, self)) is not None:
                return fields
        return None

    def _build_record(
        self, annotation: Any, origin: type, arguments: tuple[Any, ...], fields: list[Field]
    ) -> Codec:
        variables = dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False))

        def build() -> Codec:
            schema: Schema = {"type": "object", "properties": {}}
            codecs: dict[str, Codec] = {}
            for field in fields:
                codec = self.build(_substitute(field.annotation, variables))
                if field.description and "description" not in codec.schema:
                    codec = apply_metadata(codec, field.description)
                codecs[field.key] = codec
                schema["properties"][field.key] = with_default(codec.schema, field.default)
            if required := [field.key for field in fields if field.required]:
                schema["required"] = required
            schema["additionalProperties"] = False
            return Codec(schema, _decode_record(origin, codecs, frozenset(required)))

        return self._guarded(annotation, origin.__name__, build)

    def _guarded(self, key: Any, name: str, build: Callable[[], Codec]) -> Codec:
        """Build a type that may contain itself."""
        if key in self._records:
            return self._records[key]
        if key in self._open:
            if self._open[key] is None:
                self._open[key] = self._free_name(name)
            # The codec is complete by the time anything is decoded.
            return Codec(
                {"$ref": f"#/$defs/{escape(str(self._open[key]))}"},
                lambda value, path: self._records[key].decode(value, path),
            )
        self._open[key] = None
        codec = build()
        defined_as = self._open.pop(key)
        if defined_as is not None:
            self.definitions[defined_as] = codec.schema
            codec = Codec({"$ref": f"#/$defs/{escape(defined_as)}"}, codec.decode)
        self._records[key] = codec
        return codec

    def _free_name(self, name: str) -> str:
        taken = {*self.definitions, *filter(None, self._open.values())}
        names = (name if n == 1 else f"{name}{n}" for n in range(1, len(taken) + 2))
        return next(candidate for candidate in names if candidate not in taken)

    def _build_pydantic(self, annotation: Any) -> Codec:
        import pydantic

        adapter: Any = pydantic.TypeAdapter(annotation)
        schema = adapter.json_schema(ref_template="#/$defs/{model}")
        for name, definition in schema.pop("$defs", {}).items():
            if self.definitions.setdefault(name, definition) != definition:
                raise Unsupported(f"two different types are called {name!r}; rename one of them")

        def decode(value: Any, path: str) -> Any:
            try:
                return adapter.validate_python(value)
            except pydantic.ValidationError as error:
                first = error.errors(include_input=False, include_url=False)[0]
                at = "".join(f"/{escape(str(part))}" for part in first["loc"])
                raise Refused(
                    path + at, f"a valid value: {first['msg']}", value, code="invalid_value"
                ) from None

        return Codec(schema, decode)


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


def _build_literal(values: tuple[Any, ...]) -> Codec:
    choices = []
    for value in values:
        written = _enum_key(value) if isinstance(value, enum.Enum) else value
        if type(written) not in _JSON_KINDS:
            raise Unsupported(f"Literal[{value!r}] has no JSON form; use text or numbers")
        choices.append((written, value))
    return _build_choice(choices)


def _build_enum(kind: type[enum.Enum]) -> Codec:
    if issubclass(kind, enum.Flag):

        def decode(value: Any, path: str) -> Any:
            try:
                return kind(_decode_int(value, path))
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


# records -----------------------------------------------------------------------------------------


def _decode_record(make: Any, codecs: dict[str, Codec], required: frozenset[str]) -> Decode:
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


def _attrs_fields(kind: type, builder: Builder) -> list[Field] | None:
    if not hasattr(kind, "__attrs_attrs__"):
        return None
    hints = builder.hints(kind)
    documented = _documented(kind)
    return [
        Field(
            field.alias or field.name,
            hints.get(field.name, Any),
            required=field.default is attrs.NOTHING,
            default=_plain_default(field.default, attrs.NOTHING),
            description=field.metadata.get("description") or documented.get(field.name),
        )
        for field in attrs.fields(kind)
        if field.init
    ]


def _dataclass_fields(kind: type, builder: Builder) -> list[Field] | None:
    if not hasattr(kind, "__dataclass_fields__"):
        return None
    import dataclasses

    hints = builder.hints(kind)
    documented = _documented(kind)
    missing = dataclasses.MISSING
    return [
        Field(
            field.name,
            hints.get(field.name, Any),
            required=field.default is missing and field.default_factory is missing,
            default=_plain_default(field.default, missing),
            description=field.metadata.get("description") or documented.get(field.name),
        )
        for field in dataclasses.fields(kind)
        if field.init
    ]


def _typed_dict_fields(kind: type, builder: Builder) -> list[Field] | None:
    if not hasattr(kind, "__required_keys__"):
        return None
    documented = _documented(kind)
    return [
        Field(key, hint, required=_is_required(kind, key, hint), description=documented.get(key))
        for key, hint in builder.hints(kind).items()
    ]


def _is_required(kind: Any, key: str, hint: Any) -> bool:
    # With postponed annotations, __required_keys__ cannot see Required and NotRequired.
    while (name := _bare_name(typing.get_origin(hint))) in {"Required", "NotRequired", "ReadOnly"}:
        if name != "ReadOnly":
            return name == "Required"
        hint = typing.get_args(hint)[0]
    return key in kind.__required_keys__


def _named_tuple_fields(kind: type, builder: Builder) -> list[Field] | None:
    if not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return None
    hints = builder.hints(kind)
    defaults = getattr(kind, "_field_defaults", {})
    documented = _documented(kind)
    return [
        Field(
            name,
            hints.get(name, Any),
            required=name not in defaults,
            default=defaults.get(name, NO_DEFAULT),
            description=documented.get(name),
        )
        for name in kind._fields
    ]


def _documented(kind: type) -> dict[str, str]:
    from hardpoint.signatures.docstrings import parse

    return parse(kind.__dict__.get("__doc__")).parameters


def _plain_default(default: Any, missing: Any) -> Any:
    """A default that can be shown; factories are only run by the class itself."""
    if default is missing or isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return NO_DEFAULT
    return default


# metadata ----------------------------------------------------------------------------------------

_BOUNDS = {
    "ge": ("minimum", lambda value, bound: value >= bound),
    "gt": ("exclusiveMinimum", lambda value, bound: value > bound),
    "le": ("maximum", lambda value, bound: value <= bound),
    "lt": ("exclusiveMaximum", lambda value, bound: value < bound),
    "multiple_of": ("multipleOf", lambda value, bound: value % bound == 0),
}
_LENGTHS = {
    "min_length": {"string": "minLength", "array": "minItems", "object": "minProperties"},
    "max_length": {"string": "maxLength", "array": "maxItems", "object": "maxProperties"},
}


def apply_metadata(codec: Codec, metadata: Any) -> Codec:
    """Apply one piece of `Annotated` metadata; what nobody here knows is left alone (PEP 593).

    Known are plain text (a description), `Param`, compiled patterns, and whatever has the attributes
    of annotated-types, `typing_extensions.Doc` or a pydantic `Field`.
    """
    if isinstance(metadata, str):
        return attrs.evolve(codec, schema={**codec.schema, "description": metadata})
    if isinstance(metadata, re.Pattern):
        return attrs.evolve(codec, schema={**codec.schema, "pattern": metadata.pattern})
    if isinstance(metadata, type):
        return codec
    description = getattr(metadata, "description", None) or getattr(metadata, "documentation", None)
    if isinstance(description, str):
        codec = apply_metadata(codec, description)
    if isinstance(examples := getattr(metadata, "examples", None), list):
        codec = attrs.evolve(codec, schema={**codec.schema, "examples": to_result(examples)})
    if isinstance(pattern := getattr(metadata, "pattern", None), str):
        codec = attrs.evolve(codec, schema={**codec.schema, "pattern": pattern})
    for attribute, (keyword, holds) in _BOUNDS.items():
        if (bound := getattr(metadata, attribute, None)) is not None:
            codec = _apply_bound(codec, attribute, keyword, bound, holds)
    for attribute, keywords in _LENGTHS.items():
        if isinstance(length := getattr(metadata, attribute, None), int) and (
            length or "max" in attribute
        ):
            codec = _apply_length(codec, attribute, keywords, length)
    if callable(predicate := getattr(metadata, "func", None)):  # annotated_types.Predicate
        name = getattr(predicate, "__name__", "the check")
        codec = _checked(codec, f"a value for which {name} holds", predicate)
    # pydantic keeps its constraints in a list; groups of annotated-types are iterable.
    nested = getattr(metadata, "metadata", None)
    if isinstance(nested, list):
        for piece in nested:
            codec = apply_metadata(codec, piece)
    return codec


def _apply_bound(
    codec: Codec, attribute: str, keyword: str, bound: Any, holds: Callable[[Any, Any], bool]
) -> Codec:
    kinds = set(_kinds(codec.schema))
    if kinds & {"integer", "number"} and type(bound) in (int, float):
        codec = attrs.evolve(codec, schema={**codec.schema, keyword: bound})
        if "string" not in kinds:
            return codec
    if codec.identity or not kinds & {"string", "integer", "number"}:
        raise Unsupported(f"`{attribute}` compares numbers and dates; it does not fit this type")
    signs = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    expected = f"{signs.get(attribute, 'a multiple of')} {to_result(bound)}"
    return _checked(codec, expected, lambda value: value is None or holds(value, bound))


def _apply_length(codec: Codec, attribute: str, keywords: dict[str, str], length: int) -> Codec:
    used = {keywords[kind]: length for kind in _kinds(codec.schema) if kind in keywords}
    if not used and codec.schema:
        raise Unsupported(
            f"`{attribute}` counts characters, items or keys; it does not fit this type"
        )
    return attrs.evolve(codec, schema={**codec.schema, **used})


def _checked(codec: Codec, expected: str, check: Callable[[Any], Any]) -> Codec:
    """A codec with a check on the decoded value, for what a schema cannot say."""

    def decode(value: Any, path: str) -> Any:
        decoded = codec.decode(value, path)
        try:
            holds = check(decoded)
        except Exception:  # somebody else's predicate, or values that cannot be compared
            holds = False
        if not holds:
            raise Refused(path, expected, value, code="invalid_value")
        return decoded

    return Codec(codec.schema, decode)


def with_default(schema: Schema, default: Any) -> Schema:
    """The schema with its default value, when that has a JSON form."""
    if default is NO_DEFAULT:
        return schema
    try:
        return {**schema, "default": to_result(default)}
    except Exception:  # a sentinel object; the function knows what it means
        return schema


# small helpers -----------------------------------------------------------------------------------

_ALTERNATIVES = (
    "use text, numbers, lists, dicts, dates, an enum, a dataclass, an attrs class or a TypedDict, "
    "or annotate it as Any"
)

_PYDANTIC_MARKS = ("__pydantic_validator__", "__get_pydantic_core_schema__")

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


def escape(key: str) -> str:
    """One segment of a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def _kinds(schema: Schema) -> list[str]:
    kinds = schema.get("type", [])
    listed = [kinds] if isinstance(kinds, str) else list(kinds)
    return listed + [kind for member in schema.get("anyOf", ()) for kind in _kinds(member)]


def _is_nullable_scalar(schemas: Iterable[Schema]) -> bool:
    """One scalar without a list of values, or null: fits one schema with two types."""
    scalars = [schema for schema in schemas if schema != {"type": "null"}]
    kinds = {"string", "integer", "number", "boolean"}
    return (
        len(scalars) == 1
        and "enum" not in scalars[0]
        and set(_kinds(scalars[0])) <= kinds
        and ("type" in scalars[0])
    )


def _type_of_variable(variable: TypeVar) -> Any:
    if variable.__constraints__:
        return Union[variable.__constraints__]  # noqa: UP007
    return Any if variable.__bound__ is None else variable.__bound__


def _substitute(annotation: Any, variables: Mapping[Any, Any]) -> Any:
    """Fill in the type variables of a generic class."""
    if not variables:
        return annotation
    if isinstance(annotation, TypeVar):
        return variables.get(annotation, annotation)
    if parameters := getattr(annotation, "__parameters__", ()):
        return annotation[tuple(variables.get(parameter, parameter) for parameter in parameters)]
    return annotation


def _bare_name(special: Any) -> str:
    """The name of a typing special form, from `typing` or `typing_extensions`."""
    return str(getattr(special, "_name", None) or getattr(special, "__name__", ""))


def _show(annotation: Any) -> str:
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__qualname__
    return str(annotation).replace("typing.", "")
