"""`hardpoint call`: one guarded call."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from hardpoint.calls import CallOutcome
from hardpoint.cli import exits
from hardpoint.cli.arguments import read_arguments
from hardpoint.cli.operator import inside_call, login_name
from hardpoint.cli.render import say_error, say_json, say_result
from hardpoint.cli.state import State
from hardpoint.context import JobContext
from hardpoint.interfaces import ApprovalRequest, Approver, Decision
from hardpoint.model_text import part_as_text
from hardpoint.tools import ApprovalRequirement


class YesApprover(Approver):
    """`--yes`: says yes to what the session could approve, never to what always asks."""

    async def decide(self, request: ApprovalRequest, context: JobContext) -> Decision | None:
        if request.requirement is ApprovalRequirement.UNLESS_AUTO_APPROVED:
            return Decision.once(by="--yes")
        return None


@click.command()
@click.argument("tool")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--input", "given", help="All arguments as JSON; @FILE or - reads them.")
@click.option("--user", default=None, help="Who calls; default: the login name.")
@click.option("--session", default="cli", show_default=True)
@click.option("--workspace", type=click.Path(file_okay=False, exists=True), default=None)
@click.option("--mode", type=click.Choice(["default", "plan", "auto", "locked"]), default="default")
@click.option(
    "--yes", is_flag=True, help="Approve what asks once a session; never what always asks."
)
@click.option("--no-input", is_flag=True, help="Ask nobody; a call that must ask exits with 4.")
@click.option("--approval", help="Use the answered approval of this id.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds.")
@click.option("--json", "as_json", is_flag=True, help="The whole outcome as JSON.")
@click.pass_obj
def call(
    state: State,
    tool: str,
    arguments: tuple[str, ...],
    given: str | None,
    user: str | None,
    session: str,
    workspace: str | None,
    mode: Any,
    yes: bool,
    no_input: bool,
    approval: str | None,
    timeout: float | None,
    as_json: bool,
) -> int:
    """Call TOOL with KEY=VALUE arguments, typed by its schema; KEY:=JSON gives JSON as it stands.

    Example: hardpoint call echo message=hi
    """
    approvers: list[Approver] = [YesApprover()] if yes else []
    interactive = not no_input and (yes or (sys.stdin.isatty() and sys.stderr.isatty()))
    if interactive and sys.stdin.isatty():
        from hardpoint.policy.terminal import TerminalApprover

        approvers.append(TerminalApprover())

    async def work() -> int:
        async with state.runtime(approver=approvers or None) as rt:
            entry = rt.registry.entry(tool)
            schema = None if entry is None else entry.definition.parameters
            params = read_arguments(arguments, given, schema)
            context = JobContext(
                user_id=user or login_name(),
                session_id=session,
                workspace=Path(workspace or rt.config.workspace or Path.cwd()).resolve(),
                interactive=interactive,
                mode=mode,
                approval=approval,
                deadline=None if timeout is None else rt.services.clock.now() + timeout,
            )
            outcome = await rt.run(tool, params, context)
        if as_json:
            say_json(outcome.to_json())
        else:
            _say_outcome(outcome)
        return exits.OK if outcome.error is None else exits.exit_code(outcome.error)

    with inside_call():
        return asyncio.run(work())


def _say_outcome(outcome: CallOutcome) -> None:
    """The result on stdout, what is to be said about it on stderr."""
    output = outcome.partial if outcome.output is None else outcome.output
    if output is not None:
        if output.result is not None or not output.parts:
            say_result(output.result)
        for part in output.parts:
            say_result(part_as_text(part))
    for warning in outcome.warnings:
        click.echo(f"note: {warning}", err=True)
    if outcome.error is not None:
        say_error(outcome.error)
