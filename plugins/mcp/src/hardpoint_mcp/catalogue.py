"""Turn a server's raw list of tools into definitions: repair, drop, clean. Not what they may do."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import attrs

from hardpoint import ToolDefinition, validate_tool_schema
from hardpoint_mcp.config import PrefixMode, ServerConfig
from hardpoint_mcp.names import assign
from hardpoint_mcp.wire.headers import Path, header_map

LONGEST_DESCRIPTION: Final = 16_384
MAX_TOOLS: Final = 5_000
_MAX_DEPTH: Final = 64

Raw = dict[str, Any]


@attrs.frozen(slots=False)
class Listed:
    """One tool as its server describes it, and as it is offered."""

    original: str
    raw: Raw = attrs.field(repr=False)
    """Exactly what the server sent."""
    definition: ToolDefinition = attrs.field(repr=False)
    hash: str
    """SHA-256 over the whole definition as the server sent it."""

    @cached_property
    def headers(self) -> Mapping[Path, str]:
        """Which arguments travel as HTTP headers too."""
        return header_map(self.definition.parameters)


@attrs.frozen
class Catalogue:
    """The tools of one server by offered name, and what was wrong with the others."""

    tools: Mapping[str, Listed] = attrs.field(factory=dict)
    warnings: tuple[str, ...] = ()

    def definitions(self) -> Sequence[ToolDefinition]:
        return [listed.definition for listed in self.tools.values()]


def build(
    server: str,
    config: ServerConfig,
    mode: PrefixMode,
    items: Iterable[Raw],
    *,
    checked: bool = False,
) -> Catalogue:
    """The catalogue of one server. A tool that cannot be used costs only itself.

    Args:
        checked: The items were in a catalogue before; their schemas need no second look.
    """
    usable: dict[str, Raw] = {}
    warnings: list[str] = []
    for raw in items:
        name = raw.get("name")
        if not isinstance(name, str) or not name.strip():
            warnings.append(f"{server}: a tool without a name is left out")
        elif name in usable:
            warnings.append(f"{server}: a second tool named {name!r} is left out")
        elif not _selected(name, config):
            continue
        elif len(usable) >= MAX_TOOLS:
            warnings.append(f"{server}: only the first {MAX_TOOLS} tools are kept")
            break
        else:
            usable[name] = raw
    tools: dict[str, Listed] = {}
    for offered, original in assign(server, config.prefix or mode, usable, config.rename).items():
        raw = usable[original]
        try:
            definition = define(raw, offered, owner=server, original=original, checked=checked)
        except ValueError as error:
            warnings.append(f"{server}: tool {original!r} is left out: {error}")
            continue
        tools[offered] = Listed(original, raw, definition, fingerprint(raw))
    return Catalogue(tools, tuple(warnings))


def _selected(name: str, config: ServerConfig) -> bool:
    def any_of(globs: Sequence[str]) -> bool:
        return any(fnmatch.fnmatchcase(name, glob) for glob in globs)

    return any_of(config.include) and not any_of(config.exclude)


def define(
    raw: Raw, name: str, *, owner: str, original: str, checked: bool = False
) -> ToolDefinition:
    """A raw tool as a definition.

    Raises:
        ValueError: When its parameter schema is beyond repair, with the reason.
    """
    parameters = repair(raw.get("inputSchema", raw.get("input_schema")))
    if not checked:
        problems = validate_tool_schema(parameters)
        if problems:
            raise ValueError("; ".join(problems[:3]))
        header_map(parameters)  # raises for a header that must not be
    title = raw.get("title")
    annotations = read_annotations(raw.get("annotations"))
    if not isinstance(title, str):
        title = annotations.get("title")
    return ToolDefinition(
        name=name,
        description=clean_text(raw.get("description")),
        parameters=parameters,
        title=clean_text(title, 200) or None,
        output_schema=_output_schema(
            raw.get("outputSchema", raw.get("output_schema")), checked=checked
        ),
        annotations=annotations,
        owner=owner,
        original_name=original,
    )


def fingerprint(raw: Raw) -> str:
    """SHA-256 over everything that a server says about a tool."""
    text = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def tools_hash(catalogue: Catalogue) -> str:
    """SHA-256 over everything that a server says about all its tools, in whatever order."""
    told = "\n".join(sorted(fingerprint(listed.raw) for listed in catalogue.tools.values()))
    return hashlib.sha256(told.encode()).hexdigest()


# schemas ---------------------------------------------------------------------------------------


def repair(schema: Any) -> dict[str, Any]:
    """A parameter schema with what servers forget put in: the object, `properties`, `items`.

    Raises:
        ValueError: When it does not describe an object.
    """
    if schema is None:
        return {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise ValueError("its parameter schema is not an object")
    kind = schema.get("type")
    if kind is None or kind == ["object"]:
        schema = {**schema, "type": "object"}
    elif kind != "object":
        raise ValueError(f"its arguments are of type {kind!r}, not an object")
    repaired: dict[str, Any] = _repair(schema, 0)
    required = repaired.get("required")
    if isinstance(required, list):
        # `required` may name what `properties` forgot; such an argument can be anything.
        for name in required:
            if isinstance(name, str):
                repaired["properties"].setdefault(name, {})
    else:
        repaired.pop("required", None)
    return repaired


_SCHEMAS: Final = (
    "items",
    "additionalProperties",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")


def _repair(schema: Any, depth: int) -> Any:
    if not isinstance(schema, dict):
        return schema
    if depth > _MAX_DEPTH:
        raise ValueError("its parameter schema is nested too deeply")
    made = dict(schema)
    for keyword in _SCHEMAS:
        if isinstance(made.get(keyword), dict):
            made[keyword] = _repair(made[keyword], depth + 1)
    for keyword in _LISTS:
        if isinstance(made.get(keyword), list):
            made[keyword] = [_repair(item, depth + 1) for item in made[keyword]]
    for keyword in _MAPS:
        if isinstance(made.get(keyword), dict):
            made[keyword] = {k: _repair(item, depth + 1) for k, item in made[keyword].items()}
    if made.get("type") == "object" and not isinstance(made.get("properties"), dict):
        made["properties"] = {}
    if made.get("type") == "array" and "items" not in made and "prefixItems" not in made:
        made["items"] = {}
    return made


def _output_schema(schema: Any, *, checked: bool) -> dict[str, Any] | None:
    """The output schema, or None for one that cannot be used: the tool stays."""
    if not isinstance(schema, dict) or checked:
        return schema if isinstance(schema, dict) else None
    from hardpoint import compile_validator

    try:
        compile_validator(schema)
    except Exception:  # whatever a stranger's schema does to the compiler
        return None
    return schema


# texts and hints -------------------------------------------------------------------------------

_HINTS: Final = {
    "title": str,
    "readOnlyHint": bool,
    "destructiveHint": bool,
    "idempotentHint": bool,
    "openWorldHint": bool,
}


def read_annotations(raw: Any) -> dict[str, Any]:
    """The hints, in MCP's spelling; also from servers that write them with underscores."""
    if not isinstance(raw, Mapping):
        return {}
    found: dict[str, Any] = {}
    for name, kind in _HINTS.items():
        snake = re.sub(r"[A-Z]", lambda m: "_" + m[0].lower(), name)
        value = raw.get(name, raw.get(snake))
        if isinstance(value, kind):
            found[name] = value
    return found


def clean_text(text: Any, limit: int = LONGEST_DESCRIPTION) -> str:
    """Text of a stranger without what a reader cannot see, and not longer than the limit."""
    if not isinstance(text, str):
        return ""
    cleaned: str = text
    if not (text.isascii() and text.isprintable()):
        cleaned = "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def invisible_characters(text: str) -> str:
    """The characters that a person does not see, as code points; empty when there are none."""
    hidden = {c for c in text if c not in "\n\t\r" and unicodedata.category(c)[0] == "C"}
    return ", ".join(sorted(f"U+{ord(c):04X}" for c in hidden))
