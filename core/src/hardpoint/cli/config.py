"""`hardpoint config`: what is set, where, and what may be set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import click

from hardpoint.cli.render import say_json
from hardpoint.cli.state import State
from hardpoint.config import Config, Source
from hardpoint.config.files import (
    PROJECT_FILE,
    find_project_file,
    managed_file,
    user_file,
)
from hardpoint.errors import ConfigError, HardpointError
from hardpoint.serde import to_json

_START = """\
# The configuration of Hardpoint. `hardpoint config schema` prints everything that may stand here.

[plugins]
disabled = []

[policy]
allow = []
ask = []
deny = []
"""


@click.group()
def config() -> None:
    """Show, check and trust the configuration."""


@config.command("show")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def show(state: State, as_json: bool) -> None:
    """The settings in force, each with the file and line that it comes from."""
    found = state.load_config()
    values = _settings(found)
    if as_json:
        say_json(values | {"sources": {key: str(source) for key, source in found.sources.items()}})
        return
    defaults = dict(_flat(_settings(type(found)())))
    for key, value in sorted(_flat(values)):
        where = _source_of(key, value, defaults, found.sources)
        click.echo(f"{key} = {json.dumps(value, ensure_ascii=False)}  ({where})")
    for rule in found.policy.rules:
        click.echo(f"policy.{rule.decision}: {rule.spec}  ({rule.source})")
    for name in sorted(set(found.plugin) & set(_unloaded(state))):
        click.echo(f"[plugin.{name}] is kept but not read: the plugin is not loaded")
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)


def _settings(config: Config) -> dict[str, Any]:
    values: dict[str, Any] = to_json(config)
    for fact in ("sources", "warnings"):
        del values[fact]
    return values


def _unloaded(state: State) -> list[str]:
    from hardpoint.cli.plugins import _load

    return [name for name, record in _load(state).records.items() if record.status != "active"]


def _flat(table: Any, path: str = "") -> list[tuple[str, Any]]:
    if not isinstance(table, dict):
        return [(path, table)]
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        if path == "policy" and key == "rules":
            continue
        found += _flat(value, f"{path}.{key}" if path else key)
    return found


def _source_of(
    key: str, value: Any, defaults: Mapping[str, Any], sources: Mapping[str, Source]
) -> str:
    if key not in sources and key in defaults and defaults[key] == value:
        return "default"
    while key:
        if key in sources:
            return str(sources[key])
        key = key.rpartition(".")[0]
    return "merged"


@config.command("path")
def path() -> None:
    """The files that are read, strongest first, and whether they are there."""
    project = find_project_file(Path.cwd()) or Path.cwd() / PROJECT_FILE
    for level, place in (("managed", managed_file()), ("project", project), ("user", user_file())):
        there = "" if place.exists() else "  (not there)"
        click.echo(f"{level}: {place}{there}")


@config.command("init")
@click.option("--project", is_flag=True, help="In this folder, not for the user.")
def init(project: bool) -> None:
    """Write a first file. An existing one is left alone."""
    from hardpoint.config.edit import write_atomically

    place = Path.cwd() / PROJECT_FILE if project else user_file()
    if place.exists():
        raise HardpointError(f"{place} is there already")
    write_atomically(place, _START)
    click.echo(f"wrote {place}")


@config.command("schema")
@click.pass_obj
def schema(state: State) -> None:
    """The JSON Schema of the whole configuration, plugins included."""
    from hardpoint.cli.plugins import _load
    from hardpoint.config.schema import config_schema

    manager = _load(state)
    types = {name: type(value) for name, value in manager.configs.items() if attrs.has(type(value))}
    say_json(config_schema(types))


@config.command("trust")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask; needs an operator token.")
def trust(file: Path | None, yes: bool) -> None:
    """Trust a project's file as it is now; a change of it needs trust again."""
    from hardpoint.cli.operator import require_operator
    from hardpoint.config.trust import trust as pin

    require_operator("config trust")
    found = file or find_project_file(Path.cwd())
    if found is None or not found.exists():
        raise ConfigError(
            "there is no project configuration here", hint="hardpoint config init --project"
        )
    click.echo(found.read_text("utf-8", "replace"))
    if not yes and not click.confirm(f"Trust {found} as shown?", err=True):
        raise click.Abort
    click.echo(f"trusted {found} (sha256 {pin(found)})")
