"""`hardpoint secrets`: set, list and delete; a value is never shown."""

from __future__ import annotations

import asyncio
import getpass
import sys

import click

from hardpoint.cli.operator import require_operator
from hardpoint.cli.owners import owner_of, whose
from hardpoint.cli.render import say_json, say_rows
from hardpoint.cli.state import State
from hardpoint.errors import HardpointError


@click.group()
def secrets() -> None:
    """Set, list and delete secrets; never shows a value."""


@secrets.command("set")
@click.argument("name")
@whose
@click.pass_obj
def set_secret(state: State, name: str, user: str | None, system: bool) -> None:
    """Keep a secret; the value is asked for, or read from stdin."""
    require_operator("secrets set")
    owner = owner_of(user, system)
    store = state.runtime(installed_plugins=True).services.secrets
    store.require_place()
    if sys.stdin.isatty():
        value = getpass.getpass(f"value of {name}: ")
    else:
        value = sys.stdin.read().rstrip("\r\n")
    place = asyncio.run(store.set(owner, name, value))
    click.echo(f"{name} of {owner} is in {place}")


@secrets.command("list")
@whose
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
    if not found:
        click.echo(f"{owner} has no secret here", err=True)
    say_rows([[name, provider] for name, provider in found])


@secrets.command("delete")
@click.argument("name")
@whose
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
