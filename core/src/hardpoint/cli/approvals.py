"""`hardpoint approvals`: what waits for an answer, and what earlier answers are remembered."""

from __future__ import annotations

import time
from typing import Any

import attrs
import click

from hardpoint.cli.operator import login_name, require_operator
from hardpoint.cli.render import say_json, say_rows
from hardpoint.cli.state import State
from hardpoint.errors import HardpointError


@click.group()
def approvals() -> None:
    """List, answer and revoke approvals."""


def _grants(state: State) -> Any:
    return state.runtime(installed_plugins=False).approvals


@approvals.command("list")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def list_approvals(state: State, as_json: bool) -> None:
    """Requests that wait, and answers that are remembered."""
    grants = _grants(state)
    pending, remembered = grants.pending(), grants.list()
    if as_json:
        say_json(
            {
                "pending": [attrs.asdict(each) for each in pending],
                "remembered": [attrs.asdict(each) for each in remembered],
            }
        )
        return
    rows = [
        [each.id, "waits", each.user_id, each.tool, _age(each.created), _shown(each.request)]
        for each in pending
    ]
    rows += [
        [each.id, each.scope, each.user_id, each.tool, _age(each.created), each.pattern]
        for each in remembered
    ]
    say_rows(rows)


def _age(created: float) -> str:
    return f"{max(0, round(time.time() - created))} s ago"


def _shown(request: dict[str, Any]) -> str:
    from hardpoint.policy.terminal import visible

    return visible(str(request.get("params", {})))


@approvals.command("show")
@click.argument("approval_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def show(state: State, approval_id: str, as_json: bool) -> None:
    """One request: what would run, and why it is asked."""
    found = _grants(state).get(approval_id)
    if found is None:
        raise HardpointError(f"no approval {approval_id!r}", hint="`hardpoint approvals list`")
    if as_json:
        say_json(attrs.asdict(found))
        return
    from hardpoint.policy.terminal import visible

    request = found.request
    click.echo(f"{found.tool} for {found.user_id}, {found.state}")
    for name, value in request.get("params", {}).items():
        click.echo(f"  {visible(str(name))} = {visible(str(value))}")
    for reason in request.get("reasons", ()):
        click.echo(f"  because: {visible(reason)}")


@approvals.command("answer")
@click.argument("approval_id", metavar="ID")
@click.argument("verdict", type=click.Choice(["yes", "no"]), required=False)
@click.option("--message", help="What the model is told.")
@click.pass_context
def answer(ctx: click.Context, approval_id: str, verdict: str | None, message: str | None) -> None:
    """Answer a request: the same call then goes through once, within the hour."""
    require_operator("approvals answer")
    if verdict is None:
        ctx.invoke(show, approval_id=approval_id, as_json=False)
        verdict = "yes" if click.confirm("Approve exactly this call, once?", err=True) else "no"
    grants = _grants(ctx.obj)
    grants.answer(approval_id, verdict == "yes", by=login_name(), message=message)
    click.echo(f"{approval_id}: {'approved once' if verdict == 'yes' else 'denied'}")


@approvals.command("revoke")
@click.argument("grant_id", metavar="ID")
@click.pass_obj
def revoke(state: State, grant_id: str) -> None:
    """Forget a remembered answer."""
    if not _grants(state).revoke(grant_id):
        raise HardpointError(
            f"no remembered answer {grant_id!r}", hint="`hardpoint approvals list`"
        )
    click.echo(f"revoked {grant_id}")
