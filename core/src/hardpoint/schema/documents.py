"""Check our own documents (capabilities, catalogues, lock) against schemas that we wrote ourselves.

These schemas are trusted, which a tool's schema never is: fastjsonschema makes Python of them. It
fills in defaults and stops at the first problem, which is named with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from difflib import get_close_matches
from typing import Any

from hardpoint.errors import ConfigError
from hardpoint.schema.values import describe


def compile_document(schema: Mapping[str, Any]) -> Callable[[Any, str], Any]:
    """Make a check for one kind of document.

    Args:
        schema: JSON Schema, draft 7. References may only lead into the schema itself.

    Returns:
        A function of a document and what to call it, for example its file. It gives back a copy
        with defaults filled in, and raises `ConfigError` with the dotted path of the first problem.

    Raises:
        ValueError: The schema refers to something outside itself.
    """
    import fastjsonschema

    _refuse_outside_references(schema)
    check = fastjsonschema.compile(dict(schema), use_formats=False)

    def checked(document: Any, where: str) -> Any:
        try:
            return check(deepcopy(document))
        except fastjsonschema.JsonSchemaValueException as error:
            raise ConfigError(_problem(error, where)) from None

    return checked


def _refuse_outside_references(value: Any) -> None:
    if isinstance(value, Mapping):
        target = value.get("$ref")
        if isinstance(target, str) and not target.startswith("#"):
            raise ValueError(f"$ref {target!r} leads out of the document's schema")
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for member in value:
        _refuse_outside_references(member)


def _problem(error: Any, where: str) -> str:
    steps = [str(step) for step in error.path[1:]]  # the first is the library's word for the whole
    definition = error.definition if isinstance(error.definition, dict) else {}
    if error.rule == "additionalProperties" and isinstance(error.value, Mapping):
        known = list(definition.get("properties", {}))
        unknown = next((key for key in error.value if key not in known), "")
        near = get_close_matches(str(unknown), known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"
        return f"{_dotted(where, [*steps, str(unknown)])}: unknown key{hint}"
    if error.rule == "required" and isinstance(error.value, Mapping):
        missing = [key for key in definition.get("required", ()) if key not in error.value]
        return f"{_dotted(where, steps)}: missing {', '.join(map(repr, missing))}"
    rule = str(error.message).removeprefix(str(error.name)).strip()
    return f"{_dotted(where, steps)}: {rule}, got {describe(error.value)}"


def _dotted(where: str, steps: list[str]) -> str:
    return ".".join([where, *steps] if where else steps) or "document"
