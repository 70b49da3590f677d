"""Read the configuration files in their order. How they are merged is decided in `merge`."""

from __future__ import annotations

import os
import stat
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from hardpoint.config.merge import Layer, merge
from hardpoint.config.model import LOAD_VARIABLE, Config, Level, Source
from hardpoint.config.positions import spans_of
from hardpoint.config.trust import is_trusted, trusted_file
from hardpoint.errors import ConfigError
from hardpoint.folders import folder

PROJECT_FILE: Final = Path(".hardpoint") / "config.toml"
PYPROJECT: Final = "pyproject.toml"
PREFIX: Final = "HARDPOINT_"


def managed_file() -> Path:
    """The file of the machine's administrator."""
    if sys.platform == "win32":
        return Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData")) / "hardpoint" / "config.toml"
    return Path("/etc/hardpoint/config.toml")


def user_file() -> Path:
    return folder("config") / "config.toml"


def find_project_file(start: Path) -> Path | None:
    """The nearest project configuration at or above a folder, outside the user's own folders."""
    for place in (start, *start.parents):
        if (place / PROJECT_FILE).is_file():
            return place / PROJECT_FILE
        pyproject = place / PYPROJECT
        if pyproject.is_file() and "[tool.hardpoint" in pyproject.read_text("utf-8", "replace"):
            return pyproject
    return None


def places(path: Path | str | None = None, project: Path | str | None = None) -> Sequence[Path]:
    """Every file that `load_config` looks at or for, there or not; and what it trusts."""
    if path is not None:
        return (managed_file(), Path(path))
    start = Path(project) if project is not None else Path.cwd()
    above = [
        place / name for place in (start, *start.parents) for name in (PROJECT_FILE, PYPROJECT)
    ]
    return (managed_file(), *above, user_file(), trusted_file())


def stamp(places: Sequence[Path]) -> Mapping[str, tuple[int, ...]]:
    """What a change of any of these files changes too: no content is read."""
    found: dict[str, tuple[int, ...]] = {}
    for place in places:
        try:
            seen = place.stat()
        except OSError:
            continue
        found[str(place)] = (seen.st_ino, seen.st_mtime_ns, seen.st_size, seen.st_mode)
    return found


def load_config(
    *,
    path: Path | str | None = None,
    project: Path | str | None = None,
    overrides: Mapping[str, Any] | None = None,
    managed: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """The configuration of one runtime.

    Args:
        path: Read this file in place of the user's and the project's.
        project: Where to look for a project's configuration; the current folder when absent.
        overrides: Settings of the command line, as nested tables.
        managed: The administrator's file, for tests.
        environ: The environment, for tests.

    Raises:
        ConfigError: Everything that is wrong, with file and line.
    """
    environ = os.environ if environ is None else environ
    layers = list(_layers(path, project, overrides or {}, managed or managed_file(), environ))
    config = merge(layers)
    names = environ.get(LOAD_VARIABLE)
    if names is not None:
        load_only = frozenset(name.strip() for name in names.split(",") if name.strip())
        config = attrs.evolve(config, load_only=load_only)
    return config


def _layers(
    path: Path | str | None,
    project: Path | str | None,
    overrides: Mapping[str, Any],
    managed: Path,
    environ: Mapping[str, str],
) -> Iterator[Layer]:
    """The layers that exist, strongest first."""
    if managed.exists():
        _refuse_unsafe(managed)
        yield read_layer(managed, "managed")
    yield Layer("command_line", None, dict(overrides))
    yield Layer("environment", None, dict(settings_of(environ)))
    if path is not None:
        yield read_layer(Path(path), "user")
        return
    found = find_project_file(Path(project) if project is not None else Path.cwd())
    if found is not None:
        yield attrs.evolve(read_layer(found, "project"), trusted=is_trusted(found))
    if user_file().exists():
        yield read_layer(user_file(), "user")


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def read_layer(path: Path, level: Level) -> Layer:
    """Read one file.

    Raises:
        ConfigError: It cannot be read, or is not TOML.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {_reason(error)}") from error
    try:
        table: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    inside: tuple[str, ...] = ("tool", "hardpoint") if path.name == PYPROJECT else ()
    for key in inside:
        table = table.get(key, {})
    sources = {
        span_path[len(inside) :]: Source(level, str(path), span.line)
        for span_path, span in spans_of(text).items()
        if span_path[: len(inside)] == inside
    }
    return Layer(level, path, table, sources)


def settings_of(environ: Mapping[str, str]) -> Mapping[str, Any]:
    """The settings among the variables: `HARDPOINT_TOOLS__HTTP__TIMEOUT=5`.

    A value is TOML where it can be, else text. Variables without `__` are not settings.
    """
    table: dict[str, Any] = {}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or "__" not in variable:
            continue
        if variable.startswith("HARDPOINT_SECRET_"):
            continue
        keys = variable.removeprefix(PREFIX).lower().split("__")
        place = table
        for key in keys[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{variable}: {key!r} is a value and a table at once")
        place[keys[-1]] = _value(text)
    return table


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _refuse_unsafe(path: Path) -> None:
    """The administrator's file counts only when nobody else can write it.

    Raises:
        ConfigError: Somebody else can.
    """
    if sys.platform == "win32":
        return
    for place in (path, path.parent):
        found = place.stat()
        if found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigError(
                f"{place} must belong to root and be writable by nobody else: {path} is final",
                hint=f"chown root {place} && chmod go-w {place}",
            )
