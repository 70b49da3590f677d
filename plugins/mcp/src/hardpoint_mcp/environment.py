"""What a server process gets to see of this one's environment: little, and what was given to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Final

from hardpoint_mcp.wire.errors import ConnectionLost

_PASSED_ON: Final = (
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TMPDIR",
    "TZ",
)

_INSIDE: Final = "HARDPOINT_INSIDE_CALL"
"""By this `hardpoint approvals answer` and its like know that no person runs them."""


def server_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server: a few harmless variables of ours, and the configured ones."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # A shell function exported as a variable would be code.
    passed = {name: value for name, value in passed.items() if not value.startswith("()")}
    return passed | dict(given) | {_INSIDE: "1"}


def find_command(command: str, env: Mapping[str, str], cwd: str | None) -> str:
    """The path of a program.

    Raises:
        ConnectionLost: It is not there; the hint says what could be installed.
    """
    if os.sep in command:
        path = command if cwd is None or os.path.isabs(command) else os.path.join(cwd, command)
        found = path if os.access(path, os.X_OK) and not os.path.isdir(path) else None
    else:
        found = shutil.which(command, path=env.get("PATH"))
    if found is None:
        raise ConnectionLost(
            f"the program {command!r} was not found", sent=False, hint=_HINTS.get(command)
        )
    return found


_HINTS: Final = {
    "npx": "install Node.js, which brings npx",
    "node": "install Node.js",
    "uvx": "install uv, which brings uvx: pip install uv",
    "uv": "pip install uv",
    "docker": "install Docker, or use podman",
}
