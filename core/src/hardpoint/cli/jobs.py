"""`hardpoint jobs`: the background jobs of this data folder, of all users."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from datetime import UTC, datetime
from typing import Any

import click

from hardpoint.cli.render import say_json, say_rows, word
from hardpoint.cli.state import State


@click.group()
def jobs() -> None:
    """List, show, cancel and work off background jobs."""


FILTERS = {
    "all": (),
    "active": ("pending", "in_progress", "waiting"),
    "waiting": ("waiting",),
    "completed": ("completed",),
    "failed": ("failed",),
    "cancelled": ("cancelled",),
}


@jobs.command("list")
@click.option("--filter", "chosen", type=click.Choice(list(FILTERS)), default="all")
@click.option("--user", help="Only this user's.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def list_jobs(state: State, chosen: str, user: str | None, limit: int, as_json: bool) -> None:
    """Jobs, the newest first."""
    found = _with_jobs(state, lambda jobs: jobs.list(user, FILTERS[chosen], limit))
    if as_json:
        say_json([_about(job) for job in found])
        return
    say_rows(
        [[j.id, j.state, j.user_id, _age(j.created), _line(j.title), _awaited(j)] for j in found]
    )


@jobs.command("show")
@click.argument("job_id", metavar="ID")
@click.option("--events", default=50, show_default=True, type=click.IntRange(0, 10_000))
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def show(state: State, job_id: str, events: int, as_json: bool) -> None:
    """One job, by its id or its first four characters: state, result, what happened."""

    async def look(jobs: Any) -> tuple[Any, Any]:
        job = await jobs.get(job_id, None)
        return job, await jobs.events(job, events) if events else ()

    job, happened = _with_jobs(state, look)
    if as_json:
        listed = [
            {"number": e.number, "at": e.at, "event": e.kind, "data": e.data} for e in happened
        ]
        say_json({**_about(job), "events": listed})
        return
    click.echo(f"{job.id}  {job.state}  of {job.user_id}: {_line(job.title)}")
    if job.message:
        click.echo(f"  {job.done:g} of {job.total or 0:g}: {_line(job.message)}")
    if job.state == "waiting":
        click.echo(f"  waits for `hardpoint approvals answer {job.approval}`")
    if job.error is not None:
        click.echo(f"  {job.error['kind']}: {_line(job.error['message'])}")
    for event in happened:
        said = ", ".join(f"{name}={word(value)}" for name, value in event.data.items())
        click.echo(f"  {_time(event.at)}  {event.kind}  {_line(said)}".rstrip())


@jobs.command("cancel")
@click.argument("job_id", metavar="ID")
@click.pass_obj
def cancel(state: State, job_id: str) -> None:
    """End a job, whichever process runs it."""

    async def end(jobs: Any) -> Any:
        job = await jobs.get(job_id, None)
        return await jobs.cancel(job) if job.is_active else job

    job = _with_jobs(state, end)
    click.echo(f"{job.id}: {job.state}")


@jobs.command("worker")
@click.option("--drain", is_flag=True, help="End when nothing waits any more.")
@click.pass_obj
def worker(state: State, drain: bool) -> None:
    """Work off the jobs that wait, until interrupted."""

    async def work() -> None:
        async with state.runtime(origin="job") as runtime:
            if drain:
                await runtime.jobs.drain()
                return
            await runtime.jobs.start()
            click.echo("working off jobs; Ctrl-C ends it", err=True)
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()
            if sys.platform != "win32":  # there Ctrl-C ends the loop by itself
                for number in (signal.SIGINT, signal.SIGTERM):
                    loop.add_signal_handler(number, stopped.set)
            await stopped.wait()

    asyncio.run(work())


@jobs.command("prune")
@click.option("--days", default=30, show_default=True, type=click.IntRange(0))
@click.pass_obj
def prune(state: State, days: int) -> None:
    """Delete jobs that ended longer ago than this."""
    count = _with_jobs(state, lambda jobs: jobs.prune(time.time() - days * 86_400))
    click.echo(f"deleted {count}")


def _with_jobs(state: State, ask: Any) -> Any:
    async def work() -> Any:
        async with state.runtime() as runtime:
            return await ask(runtime.jobs)

    return asyncio.run(work())


def _about(job: Any) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "user": job.user_id,
        "title": job.title,
        "description": job.description,
        "status": job.state,
        "worker": job.worker,
        "approval_id": job.approval if job.state == "waiting" else None,
        "project_dir": job.project_dir,
        "calls": [{"tool": call.tool} for call in job.calls],
        "created": job.created,
        "started": job.started,
        "finished": job.finished,
        "progress": {"done": job.done, "total": job.total, "message": job.message},
        "result": job.result,
        "error": job.error,
        "cost": None if job.cost is None else str(job.cost),
    }


def _awaited(job: Any) -> str:
    return f"waits for {job.approval}" if job.state == "waiting" else ""


def _line(text: str) -> str:
    from hardpoint.policy.showing import visible

    return visible(str(text).replace("\n", " "))


def _age(created: float) -> str:
    return f"{max(0, round(time.time() - created))} s ago"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
