"""`hardpoint completion`: the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    Example: eval "$(hardpoint completion bash)"
    """
    from hardpoint.cli.app import COMPLETE

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "hardpoint", COMPLETE).source())
