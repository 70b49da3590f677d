"""`hardpoint new`: a plugin from the template."""

from __future__ import annotations

from pathlib import Path

import click

from hardpoint.scaffold import new_plugin


@click.command()
@click.argument("name")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where; default: a folder NAME here."
)
def new(name: str, folder: Path | None) -> None:
    """Write a plugin NAME with one tool, settings and tests."""
    for path in new_plugin(name, folder):
        click.echo(path)
    place = folder or Path(name)
    click.echo(f"next: pip install -e {place} && hardpoint plugins list", err=True)
