"""`json`: parse, query, write, check and change JSON. Works on values and on JSON text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from hardpoint import InvalidParameters, JobContext, Tool, ToolOutput
from hardpoint_builtin import json_path, json_text
from hardpoint_builtin.refusals import refuse

_SLICE_LIMIT = 4096
_AGGREGATE_LIMIT = 100_000


class JsonTool(Tool):
    """Parse, query, write, check and change JSON."""

    name = "json"
    description = (
        "Parse, query, stringify, validate and change JSON. `data` is a value or JSON text; `path` "
        'is names joined by dots with [0] for an index and ["key"] for any key, for example '
        "users[0].name."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "operation": {
                    "type": "string",
                    "enum": [*_OPERATIONS],
                    "description": "What to do. set needs `value`; set and delete return the "
                    "changed data and leave the original alone.",
                },
                # Without a type on purpose: any JSON value.
                "data": {"description": "The JSON value, or JSON text."},
                "path": {
                    "type": "string",
                    "description": 'Where in the data, for example a.b[0].c or ["any key"]. '
                    "Needed for query, set and delete.",
                },
                "value": {"description": "set: the new value, taken as it is."},
                "format": {
                    "type": "string",
                    "enum": ["pretty", "compact"],
                    "description": "stringify: with line breaks (the default) or without.",
                },
                "start": {"type": "integer", "minimum": 0, "description": "slice: first index."},
                "end": {"type": "integer", "minimum": 0, "description": "slice: index after it."},
                "function": {
                    "type": "string",
                    "enum": [*_AGGREGATES],
                    "description": "aggregate: what to compute over an array of numbers.",
                },
                "source_tool_call_id": {
                    "type": "string",
                    "description": "Take the output of this earlier call in place of `data`.",
                },
            },
            "required": ["operation"],
            "additionalProperties": False,
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        operation = _OPERATIONS.get(params.get("operation", ""))
        if operation is None:
            raise refuse(
                "operation",
                "invalid_operation",
                f"unknown operation {params.get('operation')!r}; use {', '.join(_OPERATIONS)}",
                expected=f"one of {', '.join(_OPERATIONS)}",
            )
        return ToolOutput.success(operation(_data(params, ctx), params))

    def effects(self, params: Mapping[str, Any]) -> frozenset[Any]:
        return frozenset()

    def requires_sanitization(self) -> bool:
        return False


def _data(params: Mapping[str, Any], ctx: JobContext) -> Any:
    source = params.get("source_tool_call_id")
    if source:
        if source not in ctx.tool_output_stash:
            known = ", ".join(sorted(ctx.tool_output_stash)) or "none"
            raise refuse(
                "source_tool_call_id",
                "missing_data",
                f"no output of a call {source!r}; there is: {known}",
                expected=f"one of {known}",
            )
        return ctx.tool_output_stash[source]
    if "data" not in params:
        raise refuse(
            "data",
            "missing_data",
            "missing 'data' parameter: give a JSON value or JSON text",
            expected="a JSON value or JSON text",
            received="nothing",
        )
    return params["data"]


# operations --------------------------------------------------------------------------------------


def _value(data: Any) -> Any:
    return json_text.parse(data) if isinstance(data, str) else data


def _path(params: Mapping[str, Any], *, needed: bool = True) -> json_path.Path:
    if "path" not in params and needed:
        raise refuse(
            "path",
            "missing_path",
            "missing 'path' parameter: say which part, for example a.b[0], or $ for all",
            expected="a path",
            received="nothing",
        )
    return json_path.parse_path(params.get("path", ""))


def _at_path(data: Any, params: Mapping[str, Any]) -> Any:
    return json_path.read(_value(data), _path(params, needed=False))


def _parse(data: Any, params: Mapping[str, Any]) -> Any:
    return _value(data)


def _query(data: Any, params: Mapping[str, Any]) -> Any:
    path = _path(params)
    return json_path.read(_value(data), path)


def _stringify(data: Any, params: Mapping[str, Any]) -> str:
    # An object or array written as text is meant to be written anew; other text is a value.
    if isinstance(data, str) and data.lstrip()[:1] in ("{", "[") and json_text.is_valid(data):
        data = json_text.parse(data)
    return json_text.write(data, indent=None if params.get("format") == "compact" else 2)


def _validate(data: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(data, str):
        return {"valid": False}
    return {"valid": json_text.is_valid(data)}


def _set(data: Any, params: Mapping[str, Any]) -> Any:
    path = _path(params)
    if "value" not in params:
        raise refuse(
            "value",
            "missing_value",
            "missing 'value' parameter: set needs the new value",
            expected="a JSON value",
            received="nothing",
        )
    return json_path.replace(_value(data), path, params["value"])


def _delete(data: Any, params: Mapping[str, Any]) -> Any:
    path = _path(params)
    return json_path.delete(_value(data), path)


def _length(data: Any, params: Mapping[str, Any]) -> int:
    value = _at_path(data, params)
    if not isinstance(value, list | dict | str):
        raise _wrong_kind("length", "an array, an object or text")
    return len(value)


def _last(data: Any, params: Mapping[str, Any]) -> Any:
    items = _array("last", data, params)
    if not items:
        raise refuse(
            "path",
            "index_out_of_bounds",
            "array index out of bounds: the array is empty and has no last item",
            expected="an array with items",
            received="an empty array",
        )
    return items[-1]


def _slice(data: Any, params: Mapping[str, Any]) -> list[Any]:
    items = _array("slice", data, params)
    start, end = params.get("start", 0), params.get("end", len(items))
    if min(end, len(items)) - start > _SLICE_LIMIT:
        raise refuse(
            "end",
            "invalid_index",
            f"a slice has at most {_SLICE_LIMIT} items; ask for the next ones in another call",
            expected=f"at most {_SLICE_LIMIT} items",
        )
    return items[start:end]


def _aggregate(data: Any, params: Mapping[str, Any]) -> Any:
    numbers = _array("aggregate", data, params)
    function = params.get("function")
    if function not in _AGGREGATES:
        raise refuse(
            "function",
            "invalid_function",
            f"aggregate needs 'function': one of {', '.join(_AGGREGATES)}",
            expected=f"one of {', '.join(_AGGREGATES)}",
        )
    if not 0 < len(numbers) <= _AGGREGATE_LIMIT:
        raise _wrong_kind("aggregate", f"1 to {_AGGREGATE_LIMIT} numbers")
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        raise _wrong_kind("aggregate", "an array of numbers only")
    try:
        computed = _AGGREGATES[function](numbers)
    except OverflowError:
        computed = math.inf
    if isinstance(computed, float) and not math.isfinite(computed):
        raise refuse(
            "data",
            "number_out_of_range",
            "the numbers are too large for a fractional result",
            expected="smaller numbers",
        )
    return computed


def _array(operation: str, data: Any, params: Mapping[str, Any]) -> list[Any]:
    value = _at_path(data, params)
    if not isinstance(value, list):
        raise _wrong_kind(operation, "an array")
    return value


def _wrong_kind(operation: str, needed: str) -> InvalidParameters:
    return refuse(
        "path",
        "not_indexable",
        f"{operation} needs {needed} at the path",
        expected=needed,
        received="another value",
    )


_OPERATIONS: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "parse": _parse,
    "query": _query,
    "stringify": _stringify,
    "validate": _validate,
    "set": _set,
    "delete": _delete,
    "length": _length,
    "last": _last,
    "slice": _slice,
    "aggregate": _aggregate,
}
_AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "average": lambda numbers: sum(numbers) / len(numbers),
    "min": min,
    "max": max,
}
