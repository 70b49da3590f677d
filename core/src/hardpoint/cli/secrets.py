"""`hardpoint secrets`: set, list and delete; a value is never shown."""

from __future__ import annotations

import asyncio
import getpass
import sys
from typing import Any

import click

from hardpoint.cli.operator import login_name, require_operator
from hardpoint.cli.render import say_json, say_rows
from hardpoint.cli.state import State
from hardpoint.errors import HardpointError
from hardpoint.interfaces.secrets import SYSTEM


def owner_of(user: str | None, system: bool) -> str:
    """Whose secrets the options mean."""
    if system and user:
        raise click.UsageError("--user and --system exclude each other")
    if user == SYSTEM:
        raise click.UsageError("write --system for the installation's secrets")
    return SYSTEM if system else user or login_name()


def _whose(command: Any) -> Any:
    command = click.option("--user", help="Whose; default: the login name.")(command)
    return click.option("--system", is_flag=True, help="The installation's, not a user's.")(command)


@click.group()
def secrets() -> None:
    """Set, list and delete secrets; never shows a value."""


@secrets.command("set")
@click.argument("name")
@_whose
@click.pass_obj
def set_secret(state: State, name: str, user: str | None, system: bool) -> None:
    """Keep a secret; the value is asked for, or read from stdin."""
    require_operator("secrets set")
    owner = owner_of(user, system)
    if sys.stdin.isatty():
        value = getpass.getpass(f"value of {name}: ")
    else:
        value = sys.stdin.read().rstrip("\r\n")
    store = state.runtime(installed_plugins=True).services.secrets
    place = asyncio.run(store.set(owner, name, value))
    click.echo(f"{name} of {owner} is in {place}")


@secrets.command("list")
@_whose
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def list_secrets(state: State, user: str | None, system: bool, as_json: bool) -> None:
    """The names, each with the store that gives it."""
    require_operator("secrets list")
    owner = owner_of(user, system)
    store = state.runtime(installed_plugins=True).services.secrets
    found = asyncio.run(store.providers(owner))
    if as_json:
        say_json([{"name": name, "provider": provider} for name, provider in found])
        return
    say_rows([[name, provider] for name, provider in found])


@secrets.command("delete")
@click.argument("name")
@_whose
@click.pass_obj
def delete(state: State, name: str, user: str | None, system: bool) -> None:
    """Remove a secret."""
    require_operator("secrets delete")
    owner = owner_of(user, system)
    store = state.runtime(installed_plugins=True).services.secrets
    if not asyncio.run(store.delete(owner, name)):
        raise HardpointError(
            f"{owner} has no secret {name!r} that can be deleted",
            hint="`hardpoint secrets list` shows them",
        )
    click.echo(f"deleted {name} of {owner}")
