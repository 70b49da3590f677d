"""`hardpoint approvals`: what waits for an answer, and what earlier answers are remembered."""

from __future__ import annotations

import sys
import time

import attrs
import click

from hardpoint.cli.operator import login_name, require_operator
from hardpoint.cli.render import say_json, say_rows
from hardpoint.cli.state import State
from hardpoint.errors import HardpointError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from hardpoint.policy.grants import StoredGrants
    from hardpoint.policy.pending import PendingApproval


@click.group()
def approvals() -> None:
    """List, answer and revoke approvals."""


def _grants(state: State) -> StoredGrants:
    """The answers of this configuration; neither plugins nor tools are needed for them."""
    from hardpoint.interfaces import SystemClock
    from hardpoint.policy.grants import StoredGrants

    config = state.load_config()
    return StoredGrants(state.store(config), SystemClock(), valid_seconds=config.approval.expires)


@approvals.command("list")
@click.option("--user", help="Only this user's.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def list_approvals(state: State, user: str | None, as_json: bool) -> None:
    """Requests that wait, and answers that are remembered."""
    grants = _grants(state)
    pending, remembered = grants.pending(user), grants.list(user)
    if as_json:
        say_json(
            {
                "pending": [attrs.asdict(each) for each in pending],
                "remembered": [attrs.asdict(each) for each in remembered],
            }
        )
        return
    from hardpoint.policy.showing import visible

    rows = [
        [each.id, "waits", each.user_id, each.tool, _age(each.created), _summary(each)]
        for each in pending
    ]
    rows += [
        [each.id, each.scope, each.user_id, each.tool, _age(each.created), each.pattern]
        for each in remembered
    ]
    say_rows([[visible(cell).replace("\n", " ") for cell in row] for row in rows])


def _age(created: float) -> str:
    return f"{max(0, round(time.time() - created))} s ago"


def _summary(pending: PendingApproval) -> str:
    import json

    shown = [subject["value"] for subject in pending.request["subjects"]]
    text = json.dumps(shown or pending.request["params"], ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]} … (`hardpoint approvals show {pending.id}`)"


@approvals.command("show")
@click.argument("approval_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def show(state: State, approval_id: str, as_json: bool) -> None:
    """One request: what would run, and why it is asked."""
    found = _find(_grants(state), approval_id)
    if as_json:
        say_json(attrs.asdict(found))
        return
    from hardpoint.policy.showing import describe
    from hardpoint.policy.terminal import show as show_lines

    show_lines(describe(found.to_request(), full=True)[0], sys.stdout)
    answered = f" by {found.answered_by}" if found.answered_by else ""
    click.echo(f"  state: {found.state}{answered}")


def _find(grants: StoredGrants, approval_id: str) -> PendingApproval:
    found = grants.get(approval_id)
    if found is None:
        raise HardpointError(f"no approval {approval_id!r}", hint="`hardpoint approvals list`")
    return found


@approvals.command("answer")
@click.argument("approval_id", metavar="ID")
@click.argument(
    "verdict", type=click.Choice(["yes", "once", "session", "always", "no"]), required=False
)
@click.option("--message", help="What the model is told.")
@click.pass_context
def answer(ctx: click.Context, approval_id: str, verdict: str | None, message: str | None) -> None:
    """Answer a request. After `yes` the same call goes through once, within the hour.

    `session` and `always` are remembered for what the request shows, where it offers them.
    """
    require_operator("approvals answer")
    grants = _grants(ctx.obj)
    if verdict is None:
        found = _find(grants, approval_id)
        ctx.invoke(show, approval_id=approval_id, as_json=False)
        offered = [word for word in found.request["verdicts"] if word != "edit"]
        verdict = click.prompt("Answer", type=click.Choice(offered), default="no", err=True)
    click.echo(f"{approval_id}: {_give(grants, approval_id, verdict, message)}")


def _give(grants: StoredGrants, approval_id: str, verdict: Any, message: str | None) -> str:
    by = login_name()
    if verdict in ("session", "always"):
        grant = grants.answer_for(approval_id, verdict, by=by, message=message)
        return f"approved ({verdict}), remembered as {grant}"
    approve = verdict in ("yes", "once")
    grants.answer(approval_id, approve, by=by, message=message)
    return "approved once" if approve else "denied"


@approvals.command("revoke")
@click.argument("grant_id", metavar="ID")
@click.pass_obj
def revoke(state: State, grant_id: str) -> None:
    """Forget a remembered answer, or one to a single call that was not used yet."""
    if not _grants(state).revoke(grant_id):
        raise HardpointError(f"no answer {grant_id!r}", hint="`hardpoint approvals list`")
    click.echo(f"revoked {grant_id}")
