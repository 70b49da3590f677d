"""Tool definitions in the words of each provider. A tool's own schema never changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from hardpoint.errors import InvalidParameters
from hardpoint.providers.flat import copy_json
from hardpoint.providers.gemini import gemini_form
from hardpoint.providers.names import NameMap
from hardpoint.providers.plain import plain_form
from hardpoint.providers.strict import NotStrict, strict_form
from hardpoint.schema.graph import Graph, read_schema

logger = logging.getLogger(__name__)


class Definition(Protocol):
    """What is needed of a tool definition; MCP also reads title, output schema and annotations."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...


FAMILIES: Final[Mapping[str, str]] = {
    "openai": "openai",
    "openai-strict": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "mcp": "mcp",
}
"""The providers, and whose names and messages each uses."""


def family_of(provider: str) -> str:
    """The family of a provider.

    Raises:
        InvalidParameters: No such provider.
    """
    family = FAMILIES.get(provider)
    if family is None:
        known = ", ".join(sorted(FAMILIES))
        raise InvalidParameters(f"no provider named {provider!r}; known are {known}")
    return family


def definitions_for(provider: str, definitions: Iterable[Definition]) -> list[dict[str, Any]]:
    """Tool definitions as a provider's API takes them.

    Args:
        provider: `openai`, `openai-strict`, `openai-responses`, `anthropic`, `gemini` or `mcp`.
        definitions: The tools, for example `Runtime.visible()`.

    Returns:
        One entry for each tool, in order. Under `openai-strict` a tool whose schema has no strict
        form is given with `"strict": False`; `why_not_strict` says why.

    Example:
        client.chat.completions.create(tools=definitions_for("openai", rt.visible()), …)
    """
    listed = list(definitions)
    names = NameMap(family_of(provider), (definition.name for definition in listed))
    shape = _SHAPES[provider]
    return [shape(definition, names.to_wire(definition.name)) for definition in listed]


def why_not_strict(parameters: dict[str, Any]) -> str | None:
    """Why a schema has no strict form, in a few words; None when it has one."""
    try:
        strict_form(read_schema(parameters))
    except NotStrict as reason:
        return str(reason)
    return None


def _openai(definition: Definition, name: str) -> dict[str, Any]:
    function = _function(definition, name, read_schema(definition.parameters))
    return {"type": "function", "function": function}


def _openai_responses(definition: Definition, name: str) -> dict[str, Any]:
    function = _function(definition, name, read_schema(definition.parameters))
    # The Responses API makes tools strict unless told otherwise.
    return {"type": "function", **function, "strict": False}


def _openai_strict(definition: Definition, name: str) -> dict[str, Any]:
    graph = read_schema(definition.parameters)
    try:
        parameters = strict_form(graph)
    except NotStrict as reason:
        logger.info("tool %s is offered without strict mode: %s", definition.name, reason)
        function = {**_function(definition, name, graph), "strict": False}
    else:
        function = {
            "name": name,
            "description": definition.description,
            "parameters": parameters,
            "strict": True,
        }
    return {"type": "function", "function": function}


def _function(definition: Definition, name: str, graph: Graph) -> dict[str, Any]:
    parameters, variants = plain_form(graph)
    return {
        "name": name,
        "description": _sentences(definition.description, variants),
        "parameters": parameters,
    }


def _anthropic(definition: Definition, name: str) -> dict[str, Any]:
    parameters, variants = plain_form(read_schema(definition.parameters))
    return {
        "name": name,
        "description": _sentences(definition.description, variants),
        "input_schema": parameters,
    }


def _gemini(definition: Definition, name: str) -> dict[str, Any]:
    graph = read_schema(definition.parameters)
    _, variants = plain_form(graph)
    made = {"name": name, "description": _sentences(definition.description, variants)}
    parameters = gemini_form(graph)
    return made if parameters is None else {**made, "parameters": parameters}


def _mcp(definition: Definition, name: str) -> dict[str, Any]:
    made = {
        "name": name,
        "title": getattr(definition, "title", None),
        "description": definition.description,
        "inputSchema": {"type": "object", **definition.parameters},
        "outputSchema": getattr(definition, "output_schema", None),
        "annotations": dict(getattr(definition, "annotations", None) or {}),
    }
    always = ("description", "inputSchema")
    return {key: copy_json(value) for key, value in made.items() if value or key in always}


def _sentences(*texts: str) -> str:
    return " ".join(text for text in texts if text)


_SHAPES: Final[Mapping[str, Callable[[Definition, str], dict[str, Any]]]] = {
    "openai": _openai,
    "openai-strict": _openai_strict,
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "mcp": _mcp,
}
