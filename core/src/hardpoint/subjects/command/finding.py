"""What a check says about a command: how strict to be, and why."""

from __future__ import annotations

from typing import Final, Literal

import attrs

Requirement = Literal["unless_auto_approved", "always", "deny"]
RANK: Final = {"unless_auto_approved": 0, "always": 1, "deny": 2}


@attrs.frozen
class Finding:
    """One reason to ask every time, or to refuse."""

    requirement: Requirement
    why: str


def ask(why: str) -> Finding:
    return Finding("always", why)


def refuse(why: str) -> Finding:
    return Finding("deny", why)


def strictest(requirements: list[Requirement]) -> Requirement:
    """The strictest of them; an ordinary command when there are none."""
    return max(requirements, key=RANK.__getitem__, default="unless_auto_approved")
