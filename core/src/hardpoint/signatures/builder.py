"""Build the codec of any annotation: resolve names, and put the other modules' codecs together."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, Literal, TypeVar, Union

from hardpoint.signatures.codec import (
    Codec,
    Refused,
    Schema,
    Unsupported,
    escape,
    kinds_of,
    show_type,
)
from hardpoint.signatures.containers import build_container
from hardpoint.signatures.metadata import apply_metadata, with_default
from hardpoint.signatures.records import Field, bare_name, decode_record, fields_of
from hardpoint.signatures.scalars import LEAVES, build_enum, build_literal, build_path

_ALTERNATIVES = (
    "use text, numbers, lists, dicts, dates, an enum, a dataclass, an attrs class or a TypedDict, "
    "or annotate it as Any"
)

_PYDANTIC_MARKS = ("__pydantic_validator__", "__get_pydantic_core_schema__")


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
            return build_literal(arguments)
        if origin is Union or origin is types.UnionType:
            return self._build_union(arguments)
        if bare_name(origin) in {"Required", "NotRequired", "ReadOnly", "Final"}:
            return self.build(arguments[0] if arguments else Any)
        if not isinstance(origin, type):
            raise Unsupported(f"{show_type(annotation)} has no JSON form; {_ALTERNATIVES}")
        if (container := build_container(self.build, origin, arguments)) is not None:
            return container
        if issubclass(origin, enum.Enum):
            return build_enum(origin)
        if issubclass(origin, PurePath):
            return build_path(origin)
        if any(hasattr(origin, mark) for mark in _PYDANTIC_MARKS):
            return self._build_pydantic(annotation)
        if (fields := fields_of(origin, self.hints)) is not None:
            return self._build_record(annotation, origin, arguments, fields)
        raise Unsupported(f"{show_type(annotation)} has no JSON form; {_ALTERNATIVES}")

    # names and metadata --------------------------------------------------------------------------

    def resolve(self, text: str) -> Any:
        """What an annotation that is still text means where the function was defined."""
        try:
            # It stands in the author's own code; it is as trusted as the function itself.
            return eval(text, self._module_names, self._local_names)  # noqa: S307
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
                f"the annotations of {show_type(owner)} cannot be resolved ({error}); "
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
            kinds = [kind for s in schemas for kind in kinds_of(s)]
            merged = {key: value for s in schemas for key, value in s.items()}
            schema = merged | {"type": list(dict.fromkeys(kinds))}
        else:
            schema = {"anyOf": schemas}

        numbers = [codec for codec in codecs if codec in (LEAVES[int], LEAVES[float])]

        def decode(value: Any, path: str) -> Any:
            # `float | int` leaves 5 an int and 5.5 a float; else the first that fits, as written.
            exact = LEAVES.get(type(value)) if len(numbers) > 1 else None
            failures = []
            for codec in codecs if exact not in numbers else [exact, *codecs]:
                try:
                    return codec.decode(value, path)
                except Refused as refused:
                    failures.append(refused)
            # The member that got furthest is the one that was meant.
            raise max(failures, key=lambda refused: (len(refused.path), refused.code))

        return Codec(schema, decode, identity=all(codec.identity for codec in codecs))

    # records -------------------------------------------------------------------------------------

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
            return Codec(schema, decode_record(origin, codecs, frozenset(required)))

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


def _is_nullable_scalar(schemas: Iterable[Schema]) -> bool:
    """One scalar without a list of values, or null: fits one schema with two types."""
    scalars = [schema for schema in schemas if schema != {"type": "null"}]
    kinds = {"string", "integer", "number", "boolean"}
    return (
        len(scalars) == 1
        and "enum" not in scalars[0]
        and set(kinds_of(scalars[0])) <= kinds
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
