"""Write servers into our own configuration file, and take them out, without touching the rest."""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hardpoint import set_toml_value, with_toml_value, write_atomically
from hardpoint.errors import ConfigError

_HEADER: Final = re.compile(r"^\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_TABLES: Final = (("mcp", "servers"), ("plugin", "mcp", "servers"))


def add_server(path: Path, name: str, settings: Mapping[str, Any]) -> None:
    """Write one server's table; a table of that name is replaced.

    Raises:
        ConfigError: The file is not TOML, or would have to be rewritten.
    """
    remove_server(path, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Each new key stands right below the header: the last one written comes first.
    for key, value in reversed(list(settings.items())):
        set_toml_value(path, ("mcp", "servers", name), key, value)


def set_option(path: Path, name: str, key: str, value: Any) -> None:
    """Set one setting of a server; comments stay.

    Raises:
        ConfigError: The file does not hold the server, or would have to be rewritten.
    """
    data = _load(path)
    for table in _TABLES:
        if name in _lookup(data, table):
            return set_toml_value(path, (*table, name), key, value)
    raise ConfigError(f"{path} holds no server {name!r}")


def servers_in(path: Path) -> Mapping[str, Any]:
    """The servers that a file itself configures."""
    data = _load(path)
    return {name: one for table in _TABLES for name, one in _lookup(data, table).items()}


def remove_server(path: Path, name: str) -> bool:
    """Take a server's table out of a file; False when it is not there.

    Raises:
        ConfigError: It stands there in a form that cannot be cut out.
    """
    expected = _load(path)
    holding = [table for table in _TABLES if name in _lookup(expected, table)]
    if not holding:
        return False
    text = path.read_text("utf-8")
    for table in holding:
        text = without_table(text, (*table, name))
        del _lookup(expected, table)[name]
    if _without_empty(tomllib.loads(text)) != _without_empty(expected):
        raise ConfigError(f"{path}: server {name!r} cannot be cut out; edit the file by hand")
    write_atomically(path, text)
    return True


def with_table(text: str, table: Sequence[str], values: Mapping[str, Any]) -> str:
    """TOML with one table, instead of whatever it was before."""
    text = without_table(text, table)
    for key, value in reversed(list(values.items())):
        text = with_toml_value(text, table, key, value)
    return text


def without_table(text: str, table: Sequence[str]) -> str:
    """TOML without one table and what is below it."""
    kept: list[str] = []
    inside = cut = False
    for line in text.splitlines(keepends=True):
        header = _HEADER.match(line.rstrip("\r\n"))
        if header is not None:
            inside = _names(header[1])[: len(table)] == list(table)
        cut = cut or inside
        if not inside:
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "".join(kept)) if cut else text


def _names(header: str) -> list[str]:
    """The names of a table's header, quotes and all."""
    node: Any = {}
    with contextlib.suppress(tomllib.TOMLDecodeError):
        node = tomllib.loads(f"[{header}]")
    names = []
    while isinstance(node, dict) and len(node) == 1:
        ((name, node),) = node.items()
        names.append(name)
    return names


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}; mend the file first") from error


def _lookup(data: Any, table: Sequence[str]) -> dict[str, Any]:
    for name in table:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _without_empty(value: Any) -> Any:
    """A table that holds nothing, and one that is not there, are the same."""
    if not isinstance(value, dict):
        return value
    made = {key: _without_empty(each) for key, each in value.items()}
    return {key: each for key, each in made.items() if each != {}}
