"""The table of commands. Each is imported when it is called, a plugin's when its name is given."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from hardpoint.cli.render import without_reader
from hardpoint.cli.state import State

INTERRUPTED: Final = 130
COMPLETE: Final = "_HARDPOINT_COMPLETE"
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "call": ("call:call", "Call one tool, guarded."),
    "tools": ("tools:tools", "List, inspect and search tools."),
    "policy": ("policy:policy", "Say what the policy decides, and test it."),
    "explain": ("policy:explain", "Say which rules, limits and domain a call would meet."),
    "approvals": ("approvals:approvals", "List, answer and revoke approvals."),
    "plugins": ("plugins:plugins", "List plugins; switch them and single tools on and off."),
    "new": ("new:new", "Start a plugin from the template."),
    "config": ("config:config", "Show, check and trust the configuration."),
    "limits": ("limits:limits", "Show what rate limits and budgets have counted."),
    "secrets": ("secrets:secrets", "Set, list and delete secrets; never shows a value."),
    "audit": ("audit:audit", "Read and verify the audit."),
    "jobs": ("jobs:jobs", "List, show, cancel and work off background jobs."),
    "lock": ("lock:lock", "Write down the whole surface."),
    "verify": ("lock:verify", "Compare the surface with what was written down."),
    "data": ("data:data", "Export, prune and delete what is stored."),
    "doctor": ("doctor:doctor", "Try whether everything holds what it promises."),
    "demo": ("demo:demo", "Real calls through the whole pipeline, offline, in under a minute."),
    "completion": ("completion:completion", "Print the completion script of a shell."),
}


class Commands(click.Group):
    """The core's commands by name, then those of the plugins."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        state = ctx.ensure_object(State)
        return [*(name for name in COMMANDS if _exists(name)), *sorted(state.plugin_commands())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS and _exists(cmd_name):
            return _import("hardpoint.cli." + COMMANDS[cmd_name][0])
        reference = ctx.ensure_object(State).plugin_commands().get(cmd_name)
        return None if reference is None else _import(reference.target)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line each, without importing any of them."""
        rows = [(name, about) for name, (_, about) in COMMANDS.items() if _exists(name)]
        extra = ctx.ensure_object(State).plugin_commands()
        rows += [(name, extra[name].help) for name in sorted(extra)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _exists(name: str) -> bool:
    module = COMMANDS[name][0].split(":")[0]
    return os.path.exists(os.path.join(os.path.dirname(__file__), module + ".py"))


def _import(target: str) -> click.Command:
    module, _, attribute = target.partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="hardpoint", message="hardpoint %(version)s")
@click.option(
    "-p",
    "plugins",
    multiple=True,
    metavar="[no:]NAME",
    help="Switch a plugin off (no:NAME) or on (NAME) for this run.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False),
    help="Read this file in place of the user's and the project's.",
)
@click.option("-v", "--verbose", is_flag=True, help="Write what happens to stderr.")
@click.pass_context
def root(
    ctx: click.Context, plugins: Sequence[str], config_file: str | None, verbose: bool
) -> None:
    """The tool layer of an AI agent: every call found, checked, approved, limited, recorded."""
    ctx.obj = State(plugin_switches=tuple(plugins), config_file=config_file, verbose=verbose)


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code."""
    try:
        # Not `root.main`, which ends the process by itself when the reader of a pipe has gone.
        result = _complete() if COMPLETE in os.environ else _invoke(arguments)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.Abort:
        return _not_confirmed()
    except (KeyboardInterrupt, EOFError):
        return INTERRUPTED
    except click.ClickException as error:
        _with_near_name(error).show()
        return error.exit_code
    except BrokenPipeError:
        return without_reader()
    except Exception as error:
        return _report(error)


def _with_near_name(error: click.ClickException) -> click.ClickException:
    """The error of a mistyped command with the name that was meant."""
    unknown = re.fullmatch(r"No such command '(.*)'\.", error.format_message())
    ctx = getattr(error, "ctx", None)
    if unknown is None or ctx is None or not isinstance(ctx.command, click.Group):
        return error  # another mistake, or a click that suggests a name itself
    import difflib

    near = difflib.get_close_matches(unknown[1], ctx.command.list_commands(ctx), n=1)
    if not near:
        return error
    return click.UsageError(f"{error.format_message()} Did you mean {near[0]!r}?", ctx)


def _not_confirmed() -> int:
    """A question had no yes: a person's decision at a terminal, a mistake where nobody is."""
    if sys.stdin.isatty():
        return INTERRUPTED
    from hardpoint.cli.exits import USAGE

    click.echo("error: the question was not answered with yes, so nothing was done", err=True)
    click.echo("hint: run it in a terminal, or say --yes", err=True)
    return USAGE


def _invoke(arguments: Sequence[str]) -> Any:
    with root.make_context("hardpoint", list(arguments)) as ctx:
        try:
            return root.invoke(ctx)
        finally:
            ctx.ensure_object(State).close()


def _complete() -> int:
    """Answer the shell, which asks what could come next."""
    from click.shell_completion import shell_complete

    return shell_complete(root, {}, "hardpoint", COMPLETE, os.environ[COMPLETE])


def _report(error: Exception) -> int:
    """Say what went wrong; the exit code. What is not ours keeps its traceback: it is a defect."""
    from hardpoint.cli.exits import exit_code
    from hardpoint.cli.render import say_error
    from hardpoint.errors import HardpointError

    if not isinstance(error, HardpointError):
        raise error
    say_error(error)
    return exit_code(error)
