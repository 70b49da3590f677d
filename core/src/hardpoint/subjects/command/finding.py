"""What a check is told about a command, and what it says: how strict to be, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import attrs

from hardpoint.subjects.command.words import Word

Requirement = Literal["unless_auto_approved", "always", "deny"]
RANK: Final = {"unless_auto_approved": 0, "always": 1, "deny": 2}


@attrs.frozen
class Finding:
    """One reason to ask every time, or to refuse."""

    requirement: Requirement
    why: str


@attrs.frozen
class Input:
    """What stands on a command's standard input."""

    given: bool = False
    text: str | None = None
    """All of it, where the line itself holds it."""
    from_file: bool = False


def ask(why: str) -> Finding:
    return Finding("always", why)


def refuse(why: str) -> Finding:
    return Finding("deny", why)


def strictest(requirements: list[Requirement]) -> Requirement:
    """The strictest of them; an ordinary command when there are none."""
    return max(requirements, key=RANK.__getitem__, default="unless_auto_approved")


Check = Callable[[str, Sequence[Word], Input], list[Finding]]
"""A check of one program: its base name, the command with it, and its standard input."""
