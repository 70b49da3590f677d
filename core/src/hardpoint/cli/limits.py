"""`hardpoint limits`: what rate limits and budgets have counted."""

from __future__ import annotations

from typing import Any

import attrs
import click

from hardpoint.cli.operator import login_name, require_operator
from hardpoint.cli.render import say_json, say_rows
from hardpoint.cli.state import State
from hardpoint.context import JobContext
from hardpoint.errors import HardpointError


@click.group()
def limits() -> None:
    """Show what rate limits and budgets have counted."""


@limits.command("list")
@click.option("--user", help="Whose budgets; default: the login name.")
@click.option("--session", default="cli", show_default=True)
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def list_limits(state: State, user: str | None, session: str, as_json: bool) -> None:
    """Calls of the last minute and hour, and the state of every budget."""
    runtime = state.runtime()
    counted = runtime.counted()
    context = JobContext(user_id=user or login_name(), session_id=session)
    accounts: list[Any] = runtime.budgets(context)
    if as_json:
        rows = [
            {"user": u, "tool": t, "this_minute": minute, "this_hour": hour}
            for u, t, minute, hour in counted
        ]
        say_json({"limits": rows, "budgets": [attrs.asdict(account) for account in accounts]})
        return
    say_rows(
        [[u, t, f"{minute} this minute", f"{hour} this hour"] for u, t, minute, hour in counted]
    )
    say_rows([[a.name, a.dimension, a.shown()] for a in accounts])


@limits.command("clear")
@click.argument("user")
@click.argument("tool")
@click.pass_obj
def clear(state: State, user: str, tool: str) -> None:
    """Forget what was counted for one user and tool."""
    require_operator("limits clear")
    if not state.runtime().clear_limit(user, tool):
        raise HardpointError("this rate limiter cannot be cleared from here")
    click.echo(f"cleared {tool} of {user}")
