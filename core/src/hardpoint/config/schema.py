"""The JSON Schema of the configuration, from the attrs classes that read it."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import attrs

from hardpoint.config.merge import RULE_LISTS, TABLES
from hardpoint.config.model import ToolConfig

_SCALARS: Final[Mapping[Any, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    Path: {"type": "string"},
    Decimal: {"type": ["number", "string"]},
    Any: {},
}

_WORDS: Final = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
    ]
}
_CONDITIONS: Final = {
    "type": "object",
    "properties": dict.fromkeys(("domain", "effects", "user", "origin", "provenance"), _WORDS),
    "additionalProperties": False,
    "minProperties": 1,
}
_RULE: Final = {
    "anyOf": [
        {"type": "string", "description": "tool, tool(SPEC) or server__*"},
        {
            "type": "object",
            "properties": {
                "tool": {"type": "string"},
                "where": {"type": "object", "minProperties": 1},
                "reason": {"type": "string"},
                "match": {"type": "array"},
                "not_match": {"type": "array"},
                "when": _CONDITIONS,
                "unless": _CONDITIONS,
                "rate_limit": {
                    "type": "object",
                    "properties": {
                        "requests_per_minute": {"type": "integer", "minimum": 1},
                        "requests_per_hour": {"type": "integer", "minimum": 1},
                    },
                    "additionalProperties": False,
                },
            },
            "required": ["tool"],
            "additionalProperties": False,
        },
    ]
}


def config_schema(plugin_types: Mapping[str, type]) -> dict[str, Any]:
    """The schema of a configuration file, with the tables of these plugins."""
    properties: dict[str, Any] = {name: schema_of(type_) for name, type_ in TABLES.items()}
    policy = properties["policy"]["properties"]
    policy.pop("rules")
    for word in RULE_LISTS:
        policy[word] = {"type": "array", "items": _RULE}
    plugin_tables = {name: schema_of(type_) for name, type_ in sorted(plugin_types.items())}
    properties["tools"] = {"type": "object", "additionalProperties": schema_of(ToolConfig)}
    properties["plugin"] = {
        "type": "object",
        "properties": plugin_tables,
        "additionalProperties": {"type": "object"},
    }
    properties["workspace"] = {"type": "string"}
    properties["$schema"] = {"type": "string"}
    if "mcp" in plugin_tables:
        properties["mcp"] = plugin_tables["mcp"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hardpoint configuration",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def schema_of(type_: Any) -> dict[str, Any]:
    """The schema of one type that a configuration may hold."""
    if type_ in _SCALARS:
        return dict(_SCALARS[type_])
    if isinstance(type_, type) and attrs.has(type_):
        return _object(type_)
    if isinstance(type_, type) and issubclass(type_, enum.Enum):
        return {"enum": [member.value for member in type_]}
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        kinds = [schema_of(each) for each in arguments if each is not types.NoneType]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if origin in (list, tuple, set, frozenset) or _is_sequence(origin):
        item = next((each for each in arguments if each is not ...), Any)
        return {"type": "array", "items": schema_of(item)}
    if origin is dict or _is_mapping(origin):
        return {"type": "object", "additionalProperties": schema_of(arguments[1]) or True}
    return {}


def _is_sequence(origin: Any) -> bool:
    from collections.abc import Collection

    return isinstance(origin, type) and issubclass(origin, Collection) and not _is_mapping(origin)


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _object(type_: type) -> dict[str, Any]:
    hints = typing.get_type_hints(type_)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in attrs.fields(type_):
        if not field.init:
            continue
        name = field.alias or field.name
        properties[name] = schema_of(hints.get(field.name, Any))
        if field.default is attrs.NOTHING:
            required.append(name)
        elif isinstance(field.default, bool | int | float | str):
            properties[name]["default"] = field.default
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if type_.__doc__ and not type_.__doc__.startswith("Method generated"):
        schema["description"] = type_.__doc__.strip().split("\n")[0]
    return schema | ({"required": required} if required else {})
