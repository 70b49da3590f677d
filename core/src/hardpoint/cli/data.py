"""`hardpoint data`: give out, delete and prune what is stored."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import IO, Any

import click

from hardpoint.cli.render import say_json
from hardpoint.cli.state import State
from hardpoint.errors import HardpointError


@click.group()
def data() -> None:
    """Export, prune and delete what is stored."""


@data.command()
@click.argument("user")
@click.option("--output", type=click.Path(), help="A new file; default: stdout.")
@click.pass_obj
def export(state: State, user: str, output: str | None) -> None:
    """All that is kept about USER, one JSON object a line; secrets only by name."""
    from hardpoint.cli.operator import require_operator
    from hardpoint.store.private import open_private

    require_operator("data export")

    async def work(out: IO[str]) -> int:
        from hardpoint.personal import export

        count = 0
        async with state.runtime() as runtime:
            async for record in export(runtime.services, user):
                out.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")
                count += 1
        return count

    if output is None:
        count = asyncio.run(work(sys.stdout))
    else:
        try:
            made = open_private(Path(output), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except OSError as error:
            raise HardpointError(f"{output}: {error.strerror}") from error
        with open(made, "w", encoding="utf-8", newline="\n") as out:
            count = asyncio.run(work(out))
    click.echo(f"{count} records of {user}", err=True)


@data.command()
@click.argument("user")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def delete(state: State, user: str, yes: bool, as_json: bool) -> None:
    """Delete all that is kept about USER: memory, jobs, grants, results, secrets, counts.

    The audit stays; it goes by age, with `hardpoint data prune`.
    """
    from hardpoint.cli.operator import require_operator

    require_operator("data delete")
    if not yes:
        click.confirm(f"Delete everything about {user}? It cannot be undone", abort=True, err=True)

    async def work() -> Any:
        from hardpoint.personal import delete

        async with state.runtime() as runtime:
            counts = await delete(runtime.services, user)
            if runtime.services.audit is not None:
                runtime.services.audit.record("data_deleted", user=user, counts=dict(counts))
            return counts

    _say(asyncio.run(work()), as_json, f"nothing is kept about {user}")


@data.command()
@click.option(
    "--audit-days", type=click.IntRange(1), help="Delete closed audit files older than this."
)
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def prune(state: State, audit_days: int | None, as_json: bool) -> None:
    """Delete what is past its time: kept results, void approvals, on request old audit files."""
    from hardpoint.cli.operator import require_operator

    require_operator("data prune")

    async def work() -> Any:
        from hardpoint.audit import prune

        async with state.runtime() as runtime:
            services = runtime.services
            counts = {
                "results": await services.results.prune(),
                "approvals": services.approvals.prune(),
            }
            if audit_days is not None and services.audit is not None:
                before = time.time() - audit_days * 86_400
                counts["audit files"] = prune(services.audit.folder, before=before)
            return {place: count for place, count in counts.items() if count}

    _say(asyncio.run(work()), as_json, "nothing is past its time")


def _say(counts: Any, as_json: bool, nothing: str) -> None:
    if as_json:
        say_json(dict(counts))
        return
    for place, count in sorted(counts.items()):
        click.echo(f"deleted {count} of {place}")
    if not counts:
        click.echo(nothing)
