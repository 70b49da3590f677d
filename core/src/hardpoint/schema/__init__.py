"""Schemas: which ones a tool may have (`lint`), whether arguments fit one (`compile_validator`).

Every schema here comes from a stranger. Nothing is fetched, nothing of it is run, and neither a
schema nor its arguments can make a check endless. Our own documents have `compile_document`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

from hardpoint.errors import InvalidParameters
from hardpoint.schema.documents import compile_document
from hardpoint.schema.lint import lint
from hardpoint.schema.validator import Validator, compile_validator

__all__ = ["Validator", "compile_document", "compile_validator", "lint", "validate_tool_schema"]


@overload
def validate_tool_schema(schema: Any, path: str = "") -> list[str]: ...


@overload
def validate_tool_schema(schema: Any, path: Mapping[str, Any]) -> None: ...


@overload
def validate_tool_schema(schema: Any, *, params: Mapping[str, Any]) -> None: ...


def validate_tool_schema(
    schema: Any, path: str | Mapping[str, Any] = "", *, params: Mapping[str, Any] | None = None
) -> list[str] | None:
    """Check a parameter schema, or arguments against one.

    Args:
        schema: A tool's parameter schema.
        path: Text: what problems call the schema. A mapping: the arguments to check.
        params: The arguments, by name.

    Returns:
        The problems of the schema; nothing when arguments were given.

    Raises:
        InvalidParameters: The arguments do not fit; `issues` lists every problem.
        SchemaError: Arguments were given, and the schema cannot be used.

    Example:
        validate_tool_schema({"type": "string"})
        # ['expected type "object", got "string"']
        validate_tool_schema(schema, {"name": "Ada"})
    """
    if params is None and isinstance(path, str):
        return lint(schema, path)
    given = params if params is not None else path
    issues = compile_validator(schema).validate(given)
    if issues:
        raise InvalidParameters("; ".join(map(str, issues)), issues=issues)
    return None
