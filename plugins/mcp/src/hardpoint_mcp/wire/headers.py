"""Headers that repeat parts of a request, so that what stands between can route it (2026-07-28)."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

METHOD_HEADER: Final = "mcp-method"
NAME_HEADER: Final = "mcp-name"
PARAM_PREFIX: Final = "mcp-param-"
NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ANNOTATION: Final = "x-mcp-header"

_PLAIN = re.compile(r"[\x20-\x7e]*")
_WRAPPED = re.compile(r"=\?base64\?.*\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

# Keywords under which JSON Schema keeps further schemas, by the shape of their value. `properties`
# is apart: only through it does a header stand for one argument.
_ONE = frozenset(
    [
        "items",
        "contains",
        "unevaluatedItems",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    ]
)
_LIST = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAP = frozenset(("patternProperties", "dependentSchemas", "$defs", "definitions"))

Path = tuple[str, ...]


def encode(value: str) -> str:
    """A header value; in base64 where the text would not survive as it is."""
    if _PLAIN.fullmatch(value) and value == value.strip() and not _WRAPPED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def _positions(schema: Any) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    stack: list[tuple[Path | None, Any]] = [((), schema)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for keyword, value in node.items():
            if keyword == "properties" and isinstance(value, dict):
                stack += (
                    (None if path is None else (*path, key), sub) for key, sub in value.items()
                )
            elif keyword in _ONE:
                stack.append((None, value))
            elif keyword in _LIST and isinstance(value, list):
                stack += ((None, sub) for sub in value)
            elif keyword in _MAP and isinstance(value, dict):
                stack += ((None, sub) for sub in value.values())


def header_map(schema: Any) -> dict[Path, str]:
    """Which argument goes into which header.

    Raises:
        ValueError: When an annotation is not allowed where it stands; such a tool is not offered.
    """
    found: dict[Path, str] = {}
    taken: set[str] = set()
    for path, node in _positions(schema):
        if _ANNOTATION not in node:
            continue
        token, kind = node[_ANNOTATION], node.get("type")
        if not path:
            raise ValueError(f"{_ANNOTATION} stands where it names no single argument")
        where = ".".join(path)
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ValueError(f"{_ANNOTATION} of {where!r} is no header name")
        if kind not in ("string", "integer", "boolean"):
            raise ValueError(f"{_ANNOTATION} of {where!r} needs type string, integer or boolean")
        if token.lower() in taken:
            raise ValueError(f"{_ANNOTATION} {token!r} is used twice")
        taken.add(token.lower())
        found[path] = token
    return found


def request_headers(
    version: str, method: str, params: Mapping[str, Any], arguments: Mapping[Path, str]
) -> dict[str, str]:
    """All headers of one request."""
    headers = {"mcp-protocol-version": version, METHOD_HEADER: method}
    name = params.get(NAMED.get(method, ""))
    if isinstance(name, str):
        headers[NAME_HEADER] = encode(name)
    for path, token in arguments.items():
        value: Any = params.get("arguments")
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            headers[PARAM_PREFIX + token] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            headers[PARAM_PREFIX + token] = encode(str(value))
    return headers
