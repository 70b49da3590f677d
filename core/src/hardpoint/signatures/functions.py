"""Read one function: which arguments a model gives, and how they reach the code."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from hardpoint.errors import InvalidParameters, Issue, SchemaError
from hardpoint.signatures.builder import Builder
from hardpoint.signatures.codec import (
    Codec,
    Decode,
    Refused,
    Schema,
    Unsupported,
    escape,
    kind_of,
)
from hardpoint.signatures.docstrings import parse
from hardpoint.signatures.metadata import apply_metadata, with_default

_CONTEXT_NAME = re.compile(r"(?:Optional\[)?(?:\w+\.)*JobContext(?:\])?(?:\s*\|\s*None)?")


@attrs.frozen(eq=False)
class Signature:
    """A function, as a model sees it and as a call needs it."""

    parameters: Schema
    """JSON Schema (2020-12) of the arguments."""
    description: str
    """The docstring without its sections."""
    context_parameter: str | None
    """The parameter that receives the `JobContext`; a model never sees it."""
    output_schema: Schema | None
    """JSON Schema of the result when the function returns an object, for MCP."""
    is_async: bool
    _required: frozenset[str]
    _decoders: tuple[tuple[str, Decode], ...]
    """Only of the parameters whose JSON value is not the Python value already."""

    def bind(
        self, params: Mapping[str, Any], context: Any = None
    ) -> tuple[tuple[()], Mapping[str, Any]]:
        """Turn validated arguments into `(args, kwargs)` of one call; all are given by name.

        Raises:
            InvalidParameters: A name is missing or unknown, or a value has no meaning in its type.
        """
        known = self.parameters["properties"].keys()
        if not (params.keys() <= known and self._required <= params.keys()):
            raise _invalid(self._wrong_names(params))
        if not self._decoders and self.context_parameter is None:
            return (), params
        arguments = dict(params)
        issues: list[Issue] = []
        for name, decode in self._decoders:
            if name not in params:
                continue
            try:
                arguments[name] = decode(params[name], f"/{escape(name)}")
            except Refused as refused:
                issues.append(Issue(refused.path, refused.code, refused.expected, refused.received))
        if issues:
            raise _invalid(issues)
        if self.context_parameter is not None:
            arguments[self.context_parameter] = context
        return (), arguments

    def _wrong_names(self, params: Mapping[str, Any]) -> list[Issue]:
        known = self.parameters["properties"]
        missing = [
            Issue(f"/{escape(name)}", "missing_required", "a value", "nothing")
            for name in sorted(self._required - params.keys())
        ]
        listed = ", ".join(known) or "no parameters"
        unexpected = [
            Issue(f"/{escape(str(name))}", "unexpected_field", listed, kind_of(params[name]))
            for name in params
            if name not in known
        ]
        return missing + unexpected


def _invalid(issues: list[Issue]) -> InvalidParameters:
    return InvalidParameters("; ".join(map(str, issues)), issues=issues)


def describe(function: Callable[..., Any], *, name: str | None = None) -> Signature:
    """Read a function's signature, annotations and docstring.

    Raises:
        SchemaError: A parameter cannot be given as JSON; every such parameter is named, with what
            to do about it.
    """
    target = _annotated_function(function)
    name = name or str(getattr(target, "__name__", type(function).__name__))
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise SchemaError(
            name,
            ["a generator cannot be a tool; return a value, and use context.emit() on the way"],
        )
    docstring = parse(target.__doc__ or getattr(function, "__doc__", None))
    module_names, local_names = getattr(target, "__globals__", {}), _local_names(target)
    builder = Builder(module_names, local_names)
    problems: list[str] = []
    properties: Schema = {}
    required: list[str] = []
    decoders: list[tuple[str, Decode]] = []
    context_parameter: str | None = None

    signature = _signature_of(function)
    for parameter in signature.parameters.values():
        try:
            if _is_context(parameter.annotation, builder):
                if context_parameter is not None:
                    raise Unsupported("only one parameter can receive the JobContext")
                context_parameter = parameter.name
                _refuse_other_kinds(parameter)
                continue
            codec = _codec_of(parameter, builder)
        except Unsupported as error:
            problems.append(f"parameter {parameter.name!r}: {error}")
            continue
        text = docstring.parameters.get(parameter.name)
        if text and "description" not in codec.schema:
            codec = apply_metadata(codec, text)
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
            properties[parameter.name] = codec.schema
        else:
            properties[parameter.name] = with_default(codec.schema, parameter.default)
        if not codec.identity:
            decoders.append((parameter.name, codec.decode))
    if problems:
        raise SchemaError(name, problems)

    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    if builder.definitions:
        schema["$defs"] = builder.definitions
    return Signature(
        parameters=schema,
        description=docstring.description,
        context_parameter=context_parameter,
        output_schema=_output_schema(
            signature.return_annotation, Builder(module_names, local_names)
        ),
        is_async=inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(target),
        required=frozenset(required),
        decoders=tuple(decoders),
    )


def _codec_of(parameter: inspect.Parameter, builder: Builder) -> Codec:
    _refuse_other_kinds(parameter)
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        if parameter.name in ("ctx", "context"):
            raise Unsupported(
                f"annotate it as `{parameter.name}: JobContext` to receive the call's context, "
                "or give it another type when a model should fill it in"
            )
        annotation = Any
    codec = builder.build(annotation)
    if parameter.default is None:  # `x: int = None` means that null is fine
        codec = builder.build(typing.Optional[annotation]) if _refuses_null(codec) else codec  # noqa: UP045
    return codec


def _refuses_null(codec: Codec) -> bool:
    try:
        codec.decode(None, "")
    except Refused:
        return True
    return False


def _refuse_other_kinds(parameter: inspect.Parameter) -> None:
    advice = {
        inspect.Parameter.VAR_POSITIONAL: "a model cannot give *args; take a list instead",
        inspect.Parameter.VAR_KEYWORD: "a model cannot give **kwargs; take a dict instead",
        inspect.Parameter.POSITIONAL_ONLY: "arguments are given by name; remove the `/`",
    }
    if parameter.kind in advice:
        raise Unsupported(advice[parameter.kind])


def _is_context(annotation: Any, builder: Builder) -> bool:
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        # By its name too: it is often imported under TYPE_CHECKING only.
        if _CONTEXT_NAME.fullmatch(annotation.strip()):
            return True
        annotation = builder.resolve(annotation)
    members = typing.get_args(annotation) or (annotation,)
    return any(getattr(member, "__hardpoint_context__", False) is True for member in members)


def _output_schema(annotation: Any, builder: Builder) -> Schema | None:
    if annotation is None or annotation is inspect.Signature.empty:
        return None
    try:
        if isinstance(annotation, str):
            annotation = builder.resolve(annotation)
        if getattr(annotation, "__module__", "").startswith("hardpoint."):
            return None  # ToolOutput and parts are the envelope, not the result
        schema = builder.build(annotation).schema
    except (Unsupported, TypeError):  # any class may be returned; `to_result` decides later
        return None
    if reference := schema.get("$ref"):
        schema = builder.definitions[reference.removeprefix("#/$defs/")]
    if schema.get("type") != "object" or not (
        schema.get("properties") or schema.get("additionalProperties")
    ):
        return None
    return {**schema, "$defs": builder.definitions} if builder.definitions else schema


def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        import annotationlib

        # Names imported for type checkers only stay references, as text does before 3.14.
        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def _annotated_function(function: Any) -> Any:
    """The function that holds the annotations: inside wrappers, partials, methods and objects."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = inspect.unwrap(type(function).__call__)
    return getattr(function, "__func__", function)


def _local_names(target: Any) -> dict[str, Any]:
    """Names of the functions around a local function, for annotations that are still text."""
    if "<locals>" not in getattr(target, "__qualname__", ""):
        return {}
    enclosing = set(target.__qualname__.split(".")[:-1])
    frame = sys._getframe(1)
    names: dict[str, Any] = {}
    while frame is not None:
        if frame.f_code.co_name in enclosing and frame.f_globals is target.__globals__:
            names = {**frame.f_locals, **names}
        frame = frame.f_back  # type: ignore[assignment]
    return names
