"""`hardpoint plugins`: what is installed, and switches for plugins and single tools."""

from __future__ import annotations

import json
import sys

import click

from hardpoint.cli.render import say_json, say_rows
from hardpoint.cli.state import State

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from hardpoint.errors import HardpointError
    from hardpoint.plugins import PluginManager, PluginRecord


@click.group(invoke_without_command=True)
@click.pass_context
def plugins(ctx: click.Context) -> Any:
    """List plugins; switch them and single tools on and off."""
    if ctx.invoked_subcommand is None:
        return ctx.invoke(list_plugins)


def _load(state: State) -> PluginManager:
    import attrs

    from hardpoint.plugins import PluginManager
    from hardpoint.registry import ToolRegistry

    config = state.load_config()
    # Listing shows what failed; it must not stop at it.
    config = attrs.evolve(config, plugins=attrs.evolve(config.plugins, required=frozenset()))
    manager = PluginManager(config, ToolRegistry(protect=True))
    manager.load(strict=False)
    return manager


def _to_json(record: PluginRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "status": record.status,
        "distribution": record.distribution,
        "version": record.version,
        "reason": record.reason,
        "hooks": list(record.hooks),
        "tools": list(record.tools),
    }


@plugins.command("list")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def list_plugins(state: State, as_json: bool = False) -> None:
    """Every installed plugin with its status; blocked and failed ones with the reason."""
    from hardpoint.cli.catalogue import cached, plugin_rows

    records = cached(state, "plugins", lambda: _records(state), keep=_none_failed)
    if as_json:
        say_json(records)
        return
    say_rows(plugin_rows(records))


def _records(state: State) -> list[dict[str, Any]]:
    manager = _load(state)
    return [_to_json(manager.records[name]) for name in sorted(manager.records)]


def _none_failed(records: list[dict[str, Any]]) -> bool:
    # What made a plugin fail may be mended without any file of it changing.
    return all(record["status"] != "failed" for record in records)


@plugins.command("info")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def info(state: State, name: str, as_json: bool) -> None:
    """One plugin: where it comes from, its hooks, tools and settings."""
    manager = _load(state)
    record = manager.records.get(name)
    if record is None:
        raise _unknown(name, manager)
    about = _to_json(record)
    config = manager.configs.get(name)
    if config is not None:
        from hardpoint.serde import to_json

        about["settings"] = to_json(config)
    if as_json:
        say_json(about)
        return
    for key, value in about.items():
        if isinstance(value, list):
            value = ", ".join(value)
        elif isinstance(value, dict):
            value = json.dumps(value, ensure_ascii=False)
        if value:
            click.echo(f"{key}: {value}")


@plugins.command("enable")
@click.argument("name")
@click.option("--project", is_flag=True, help="In the project's file, not the user's.")
@click.pass_obj
def enable(state: State, name: str, project: bool) -> None:
    """Switch a plugin or a single tool on."""
    _switch(state, name, on=True, project=project)


@plugins.command("disable")
@click.argument("name")
@click.option("--project", is_flag=True, help="In the project's file, not the user's.")
@click.pass_obj
def disable(state: State, name: str, project: bool) -> None:
    """Switch a plugin or a single tool off. A plugin that is off is never imported."""
    _switch(state, name, on=False, project=project)


@plugins.command("install")
@click.argument("requirement")
@click.option("--yes", is_flag=True, help="Do not ask again.")
@click.option("--no-index", is_flag=True, help="From files and folders alone.")
@click.option("--no-deps", is_flag=True, help="Without what it depends on.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def install(
    state: State, requirement: str, yes: bool, no_index: bool, no_deps: bool, as_json: bool
) -> None:
    """Install a plugin with pip: NAME, NAME==VERSION, a wheel or a project's folder.

    A plugin is code that runs with all your rights. No tool call can do this.
    """
    from hardpoint.cli import plugin_install
    from hardpoint.cli.operator import require_operator

    require_operator("plugins install")
    wanted = plugin_install.checked(requirement)
    if not yes:
        question = f"Install {wanted} into {sys.prefix}? It will run with all your rights"
        click.confirm(question, abort=True, err=True)
    before = plugin_install.records()
    given = {"--no-index": no_index, "--no-deps": no_deps}
    plugin_install.install(wanted, [option for option, on in given.items() if on])
    changed = plugin_install.report(before, plugin_install.records())
    if as_json:
        say_json(changed)
    else:
        plugin_install.show(changed)
    if state.load_config().plugins.lock is not None:
        click.echo(
            "a lock file is in force: look at `hardpoint verify`, then `hardpoint lock`", err=True
        )


def _switch(state: State, name: str, *, on: bool, project: bool) -> None:
    from pathlib import Path

    from hardpoint.config.edit import set_toml_value
    from hardpoint.config.files import PROJECT_FILE, read_layer, user_file

    manager = _load(state)
    path = Path(state.config_file) if state.config_file else user_file()
    if project:
        path = Path.cwd() / PROJECT_FILE
    table: dict[str, Any] = read_layer(path, "user").table if path.exists() else {}
    known_tools = {*manager.registry.list(), *table.get("tools", {})}
    if name in manager.records:
        disabled = [n for n in table.get("plugins", {}).get("disabled", []) if n != name]
        set_toml_value(path, ["plugins"], "disabled", disabled if on else [*disabled, name])
        what = "plugin"
    elif name in known_tools:
        set_toml_value(path, ["tools", name], "enabled", on)
        what = "tool"
    else:
        raise _unknown(name, manager)
    click.echo(f"{what} {name!r} is {'on' if on else 'off'} in {path}")
    still = _load(state).blocked_reason(name) if what == "plugin" and on else None
    if still is not None:
        click.echo(f"warning: it stays off: {still}", err=True)


def _unknown(name: str, manager: PluginManager) -> HardpointError:
    import difflib

    from hardpoint.errors import HardpointError

    near = difflib.get_close_matches(name, [*manager.records, *manager.registry.list()], n=1)
    hint = (
        f"did you mean {near[0]!r}?"
        if near
        else "`hardpoint plugins list` and `hardpoint tools list` show what there is"
    )
    return HardpointError(f"no plugin or tool {name!r} is installed", hint=hint)
