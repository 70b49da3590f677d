"""Change single settings in a TOML file and leave everything else, comments included, as it is."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardpoint.config.positions import spans_of, tables_of
from hardpoint.errors import ConfigError

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def set_toml_value(path: Path, table: Sequence[str], key: str, value: Any) -> None:
    """Set `key` in `[table]` of a file; file, table and key are made when they are missing.

    Raises:
        ConfigError: The file is not TOML, or the change would not read back as it was meant.
    """
    text = path.read_text("utf-8") if path.exists() else ""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}; mend the file first") from error
    changed = with_toml_value(text, table, key, value)
    place: Any = before
    for name in table:
        place = place.setdefault(name, {})
    place[key] = value
    if not _means(changed, before):
        raise ConfigError(
            f"{path}: cannot set {'.'.join([*table, key])} without rewriting the file",
            hint="edit it by hand",
        )
    write_atomically(path, changed)


def _means(text: str, table: Mapping[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == table
    except tomllib.TOMLDecodeError:
        return False


def with_toml_value(text: str, table: Sequence[str], key: str, value: Any) -> str:
    """The text with one value changed or added."""
    written = to_toml(value)
    here = (*table, key)
    spans = spans_of(text)
    if here in spans:
        span = spans[here]
        return text[: span.start] + written + text[span.end :]
    line = f"{_key(key)} = {written}\n"
    header = tables_of(text).get(tuple(table))
    if header is not None:
        at = text.find("\n", header.end)
        if at == -1:
            return text + "\n" + line
        return text[: at + 1] + line + text[at + 1 :]
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}[{'.'.join(_key(name) for name in table)}]\n{line}"


def to_toml(value: Any) -> str:
    """A value as TOML: text, numbers, booleans, lists, inline tables."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(to_toml(each) for each in value) + "]"
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(name)} = {to_toml(each)}" for name, each in value.items())
        return "{ " + inner + " }" if inner else "{}"
    raise ConfigError(f"{value!r} cannot be written as TOML")


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step; a crash leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(fresh, "x", encoding="utf-8", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        if path.exists():
            os.chmod(fresh, path.stat().st_mode & 0o777)
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    # JSON's text is TOML's basic string, but for one character that JSON leaves alone.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
