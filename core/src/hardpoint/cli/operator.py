"""Commands for people only: they need a terminal or an operator's token, never a tool call."""

from __future__ import annotations

import getpass
import hmac
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hardpoint.errors import NotAuthorized
from hardpoint.folders import folder

TOKEN_VARIABLE: Final = "HARDPOINT_OPERATOR_TOKEN"  # noqa: S105  # a name
INSIDE_VARIABLE: Final = "HARDPOINT_INSIDE_CALL"
"""Set for every process that a tool call starts on the host."""


@contextmanager
def inside_call() -> Iterator[None]:
    """Mark what is started on this machine meanwhile: it cannot answer for a person."""
    before = os.environ.get(INSIDE_VARIABLE)
    os.environ[INSIDE_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[INSIDE_VARIABLE]
        else:
            os.environ[INSIDE_VARIABLE] = before


def login_name() -> str:
    """Who is at the keyboard, as the machine names them; a number where it has no name."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # no such user, which is usual in containers
        return f"uid{os.getuid()}" if hasattr(os, "getuid") else "user"


def require_operator(what: str) -> None:
    """Refuse unless a person, or somebody with the operator's token, is there.

    Raises:
        NotAuthorized: Neither is.
    """
    if os.environ.get(INSIDE_VARIABLE):
        raise NotAuthorized(f"`hardpoint {what}` cannot be used from inside a tool call")
    if sys.stdin.isatty() and sys.stderr.isatty():
        return
    given = os.environ.get(TOKEN_VARIABLE)
    known = _token()
    if given and known and hmac.compare_digest(given.encode(), known.encode()):
        return
    raise NotAuthorized(
        f"`hardpoint {what}` needs a terminal or the operator's token",
        hint=f"run it in a terminal, or write a token to {folder('config') / 'operator-token'}"
        f" (mode 0600) and set {TOKEN_VARIABLE}",
    )


def _token() -> str | None:
    path = folder("config") / "operator-token"
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            return None  # others can read it: it proves nothing
        return path.read_text("utf-8").strip() or None
    except OSError:
        return None
