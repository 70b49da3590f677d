"""Read a call's arguments from the command line: `KEY=VALUE`, `KEY:=JSON`, `--input`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click


def read_arguments(
    pairs: Sequence[str], given: str | None, schema: Mapping[str, Any] | None = None
) -> Any:
    """The arguments of a call. Texts get their types later, by the tool's schema, as a model's do.

    Args:
        pairs: `KEY=VALUE`, a text, or `KEY:=JSON`, a value as it stands. A key that comes more than
            once is a list.
        given: JSON; `@FILE` and `-` say where to read it.
        schema: The tool's schema: a key that wants a list is one, also when it comes once.

    Raises:
        click.UsageError: They cannot be read.
    """
    params = _read_input(given)
    if not pairs:
        return params
    if not isinstance(params, dict):
        raise click.UsageError("--input must be a JSON object when KEY=VALUE is given too")
    several: dict[str, list[Any]] = {}
    for pair in pairs:
        key, value = _read_pair(pair)
        several.setdefault(key, []).append(value)
    properties = (schema or {}).get("properties", {})
    return params | {
        key: values if len(values) > 1 or _is_member(values[0], properties.get(key)) else values[0]
        for key, values in several.items()
    }


def read_params(arguments: Sequence[str]) -> Any:
    """Arguments given as one JSON object or as `KEY=VALUE`.

    Raises:
        click.UsageError: They cannot be read.
    """
    if len(arguments) == 1 and arguments[0].lstrip().startswith("{"):
        return read_arguments((), arguments[0])
    return read_arguments(arguments, None)


def _read_pair(pair: str) -> tuple[str, Any]:
    key, equals, text = pair.partition("=")
    if not equals or not key.removesuffix(":"):
        raise click.UsageError(f"{pair!r} is not KEY=VALUE")
    if not key.endswith(":"):
        return key, text
    try:
        return key[:-1], json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{key[:-1]}: not JSON: {error}") from error


def _is_member(value: Any, schema: Any) -> bool:
    """Whether a text is one member of a list, rather than a whole list as JSON."""
    wants_list = isinstance(schema, Mapping) and schema.get("type") == "array"
    return wants_list and isinstance(value, str) and not value.lstrip().startswith("[")


def _read_input(given: str | None) -> Any:
    if given is None:
        return {}
    text = given
    try:
        if given == "-":
            text = sys.stdin.read()
        elif given.startswith("@"):
            text = Path(given[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--input: {error}") from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--input is not JSON: {error}") from error
