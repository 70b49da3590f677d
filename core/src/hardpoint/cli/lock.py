"""`hardpoint lock` writes the surface down, `hardpoint verify` compares it with what was."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from hardpoint.cli import exits
from hardpoint.cli.render import printable, say_json
from hardpoint.cli.state import State
from hardpoint.lockfile import FILE_NAME, Surface, read_lock, write_lock
from hardpoint.lockfile.compare import Difference, compare

file_option = click.option(
    "--file", "given", type=click.Path(dir_okay=False, path_type=Path),
    help=f"The lock file; default: the one in force, else {FILE_NAME} here.",
)  # fmt: skip
offline_option = click.option(
    "--offline", is_flag=True, help="Ask no server for its tools; take what is remembered."
)


@click.command()
@file_option
@offline_option
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def lock(state: State, given: Path | None, offline: bool, as_json: bool) -> None:
    """Write down the whole surface: distributions, tools, modules, images, servers, grants."""
    from hardpoint.cli.operator import require_operator

    config = state.load_config()
    path = _path(config, given)
    if config.plugins.lock is not None and _same(path, config.plugins.lock):
        # Whoever may write the file in force decides what may be called.
        require_operator("lock")
    before = read_lock(path) if path.exists() else None
    now, failures = asyncio.run(_survey(config, offline))
    write_lock(path, now)
    differences = [] if before is None else compare(before, now)
    if as_json:
        counts = {key: len(value) for key, value in _parts(now).items()}
        say_json({"file": str(path), **counts, **_as_json(differences, failures)})
        return
    _say_failures(failures)
    for each in differences:
        click.echo(printable(str(each)))
    click.echo(f"wrote {path}: " + ", ".join(f"{len(v)} {k}" for k, v in _parts(now).items() if v))


@click.command()
@file_option
@offline_option
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def verify(state: State, given: Path | None, offline: bool, as_json: bool) -> int:
    """Compare the surface with the lock file, and every installed file with its hash.

    Exit 1 when anything differs.
    """
    from hardpoint.lockfile.survey import changed_files

    config = state.load_config()
    path = _path(config, given)
    before = read_lock(path)
    now, failures = asyncio.run(_survey(config, offline))
    differences = list(compare(before, now))
    for name in now.distributions:
        for file in changed_files(name):
            differences.append(Difference("changed", "file", file, f"of {name}"))
    ok = not differences
    if as_json:
        say_json({"file": str(path), "ok": ok, **_as_json(differences, failures)})
    else:
        _say_failures(failures)
        for each in differences:
            click.echo(printable(str(each)))
        click.echo(f"{path}: " + ("nothing differs" if ok else f"{len(differences)} differences"))
        if not ok:
            click.echo(f"hint: look at them, then `hardpoint lock --file {path}`", err=True)
    return exits.OK if ok else exits.FAILED


async def _survey(config: Any, offline: bool) -> tuple[Surface, Sequence[str]]:
    """The surface of a running runtime, without the lock that is to be written or checked."""
    from hardpoint.runtime import Runtime

    free = attrs.evolve(config, plugins=attrs.evolve(config.plugins, lock=None))
    async with Runtime(free, origin="cli", in_memory=False, installed_plugins=True) as runtime:
        return await runtime.surface(ask=not offline)


def _path(config: Any, given: Path | None) -> Path:
    return Path(given or config.plugins.lock or FILE_NAME).expanduser()


def _same(one: Path, other: Path) -> bool:
    return one.expanduser().resolve() == other.expanduser().resolve()


def _parts(surface: Surface) -> dict[str, Any]:
    return {"distributions": surface.distributions, "tools": surface.tools, **surface.things}


def _as_json(differences: Sequence[Difference], failures: Sequence[str]) -> dict[str, Any]:
    rows = [attrs.asdict(each) for each in differences]
    return {"differences": rows, "not_asked": list(failures)}


def _say_failures(failures: Sequence[str]) -> None:
    for each in failures:
        click.echo(f"not asked: {printable(each)}", err=True)
