"""`hardpoint audit`: read and verify what was written down."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import attrs
import click

from hardpoint.cli import exits
from hardpoint.cli.render import say_json, say_rows
from hardpoint.cli.state import State
from hardpoint.errors import HardpointError


def audit_folder(state: State) -> Path:
    """The folder of the audit in force."""
    from hardpoint.folders import folder

    return state.load_config().audit.path or folder("state") / "audit"


def since_option(command: Any) -> Any:
    return click.option(
        "--hours", type=click.FloatRange(min=0, min_open=True), help="Only the last so many hours."
    )(command)


def since(hours: float | None) -> float | None:
    return None if hours is None else time.time() - hours * 3600


@click.group()
def audit() -> None:
    """Read and verify the audit."""


@audit.command("list")
@click.option("--tool")
@click.option("--user")
@click.option("--decision", type=click.Choice(["allow", "ask", "deny", "refused"]))
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1))
@since_option
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def list_records(
    state: State,
    tool: str | None,
    user: str | None,
    decision: str | None,
    limit: int,
    hours: float | None,
    as_json: bool,
) -> None:
    """The latest decisions, oldest first."""
    from collections import deque

    from hardpoint.audit import read

    wanted = {"tool": tool, "user": user, "decision": decision}
    fields: dict[str, Any] = {key: value for key, value in wanted.items() if value is not None}
    records = deque(
        read(audit_folder(state), since=since(hours), kind="decided", **fields), maxlen=limit
    )
    if as_json:
        say_json(list(records))
        return
    rows = []
    for record in records:
        error = record.get("error") or {}
        why = error.get("message") or "; ".join(r["why"] for r in record.get("reasons", ()))
        rows.append(
            [record["at"], record["call_id"], str(record["user"]), record["tool"],
             record["decision"], why]
        )  # fmt: skip
    say_rows(rows)


@audit.command("show")
@click.argument("call_id", metavar="CALL")
@click.pass_obj
def show(state: State, call_id: str) -> None:
    """Every record of one call, as JSON."""
    from hardpoint.audit import show as records_of

    records = records_of(audit_folder(state), call_id)
    if not records:
        raise HardpointError(f"no call {call_id!r} in the audit", hint="`hardpoint audit list`")
    say_json(records)


@audit.command("stats")
@since_option
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def stats(state: State, hours: float | None, as_json: bool) -> None:
    """How often what happened."""
    from hardpoint.audit import stats as count

    found = attrs.asdict(count(audit_folder(state), since=since(hours)))
    if as_json:
        say_json(found)
        return
    for key, value in found.items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {n}" for name, n in sorted(value.items())) or "none"
        click.echo(f"{key}: {value}")


@audit.command("verify")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def verify(state: State, as_json: bool) -> int:
    """Hold every file against its chain and the index; exit 1 at the first break."""
    from hardpoint.audit import verify as check

    report = check(audit_folder(state))
    if as_json:
        say_json({**attrs.asdict(report), "ok": report.ok})
    else:
        for each in report.breaks:
            click.echo(f"broken: {each}")
        for note in report.notes:
            click.echo(f"note: {note}")
        state_of_it = "nothing is missing or changed" if report.ok else "not to be trusted"
        click.echo(f"{report.records} records in {report.files} files: {state_of_it}")
    return exits.OK if report.ok else exits.FAILED
