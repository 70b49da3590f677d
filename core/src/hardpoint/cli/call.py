"""`hardpoint call`: one guarded call."""

from __future__ import annotations

import asyncio
import getpass
import json
import sys
from pathlib import Path
from typing import Any

import click

from hardpoint.cli import exits
from hardpoint.cli.render import say_error, say_json, say_result
from hardpoint.cli.state import State
from hardpoint.context import JobContext
from hardpoint.interfaces import ApprovalRequest, Approver, Decision
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
    params = read_arguments(arguments, given)
    approvers: list[Approver] = [YesApprover()] if yes else []
    interactive = not no_input and (yes or (sys.stdin.isatty() and sys.stderr.isatty()))
    if interactive and sys.stdin.isatty():
        from hardpoint.policy.terminal import TerminalApprover

        approvers.append(TerminalApprover())

    async def work() -> int:
        async with state.runtime(approver=approvers or None) as rt:
            context = JobContext(
                user_id=user or getpass.getuser(),
                session_id=session,
                workspace=Path(workspace or rt.config.workspace or Path.cwd()).resolve(),
                interactive=interactive,
                mode=mode,
                approval=approval,
                deadline=None if timeout is None else rt.services.clock.now() + timeout,
            )
            for warning in rt.config.warnings:
                click.echo(f"warning: {warning}", err=True)
            outcome = await rt.run(tool, params, context)
        if as_json:
            say_json(outcome.to_json())
        elif outcome.error is None:
            assert outcome.output is not None
            if outcome.output.result is not None or not outcome.output.parts:
                say_result(outcome.output.result)
            for part in outcome.output.parts:
                from hardpoint.model_text import part_as_text

                say_result(part_as_text(part))
            for warning in outcome.warnings:
                click.echo(f"note: {warning}", err=True)
        else:
            if outcome.partial is not None:
                say_result(outcome.partial.result)
            say_error(outcome.error)
        return exits.OK if outcome.error is None else exits.exit_code(outcome.error)

    return asyncio.run(work())


def read_arguments(pairs: tuple[str, ...], given: str | None) -> Any:
    """The arguments of a call from `KEY=VALUE`, `KEY:=JSON` and `--input`.

    Raises:
        click.UsageError: They cannot be read.
    """
    params = _read_input(given)
    if not pairs:
        return params
    if not isinstance(params, dict):
        raise click.UsageError("--input must be a JSON object when KEY=VALUE is given too")
    several: dict[str, list[Any]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{pair!r} is not KEY=VALUE")
        value: Any = text
        if key.endswith(":"):
            key = key[:-1]
            try:
                value = json.loads(text)
            except ValueError as error:
                raise click.UsageError(f"{key}: not JSON: {error}") from error
        several.setdefault(key, []).append(value)
    return params | {key: v[0] if len(v) == 1 else v for key, v in several.items()}


def _read_input(given: str | None) -> Any:
    if given is None:
        return {}
    text = given
    if given == "-":
        text = sys.stdin.read()
    elif given.startswith("@"):
        try:
            text = Path(given[1:]).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"--input: {error}") from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--input is not JSON: {error}") from error
