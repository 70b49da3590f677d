"""Whose a secret is: the options that say so."""

from __future__ import annotations

from typing import Any

import click

from hardpoint.cli.operator import login_name
from hardpoint.interfaces.secrets import SYSTEM


def owner_of(user: str | None, system: bool) -> str:
    """Whose secrets the options mean."""
    if system and user:
        raise click.UsageError("--user and --system exclude each other")
    if user == SYSTEM:
        raise click.UsageError("write --system for the installation's secrets")
    return SYSTEM if system else user or login_name()


def whose(command: Any) -> Any:
    command = click.option("--user", help="Whose; default: the login name.")(command)
    return click.option("--system", is_flag=True, help="The installation's, not a user's.")(command)
