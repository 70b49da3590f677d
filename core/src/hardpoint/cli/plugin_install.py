"""`hardpoint plugins install`: a person puts a plugin, which is trusted code, beside this program.

pip does it, as it would by hand; here is what is checked before and told after.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from hardpoint.errors import HardpointError

_REQUIREMENT: Final = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"  # a name
    r"(?:\[[A-Za-z0-9._, -]+\])?"  # extras
    r"(?:\s*(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+(?:\s*,\s*"
    r"(?:~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+)*)?"  # versions
)


def checked(requirement: str) -> str:
    """A requirement or a path, as pip is given it.

    Raises:
        HardpointError: It is neither; nothing of it may be read as an option or an address.
    """
    text = requirement.strip()
    if _REQUIREMENT.fullmatch(text):
        return text
    path = Path(text).expanduser()
    if text and not text.startswith("-") and path.exists():
        return str(path.resolve())
    raise HardpointError(
        f"{requirement!r} is neither a requirement nor a file or folder that is here",
        hint="write NAME, NAME==VERSION, or the path of a wheel or project",
    )


def install(requirement: str, pip_options: Sequence[str] = ()) -> None:
    """Let pip install it into the environment that this program runs in.

    Raises:
        HardpointError: There is no pip, or it failed.
    """
    if importlib.util.find_spec("pip") is None:
        raise HardpointError(
            f"the environment {sys.prefix!r} has no pip",
            hint=f"install {requirement!r} with the tool that made the environment",
        )
    command = [sys.executable, "-m", "pip", "install", *pip_options, "--", requirement]
    # What pip says is for people; standard output is for the answer.
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        raise HardpointError(f"pip could not install {requirement!r}; it said why above")


def records() -> Mapping[str, Mapping[str, Any]]:
    """The plugins as a new process finds them: this one has looked before."""
    command = [sys.executable, "-m", "hardpoint", "plugins", "list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HardpointError(f"the plugins cannot be listed: {done.stderr.strip()}")
    return {record["name"]: record for record in json.loads(done.stdout)}


def report(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """The plugins that came or changed."""
    return [record for name, record in sorted(after.items()) if before.get(name) != record]


def show(changed: Sequence[Mapping[str, Any]]) -> None:
    """Say what came, for a person."""
    if not changed:
        click.echo("installed; no plugin came with it, or it was there already", err=True)
    for record in changed:
        tools = f", tools: {', '.join(record['tools'])}" if record["tools"] else ""
        why = f" ({record['reason']})" if record["reason"] else ""
        click.echo(
            f"{record['name']}: {record['status']}{why},"
            f" {record['distribution']} {record['version']}{tools}"
        )
