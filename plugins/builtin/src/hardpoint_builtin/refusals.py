"""How the pure tools refuse arguments: one sentence, and one issue with a stable code."""

from __future__ import annotations

from hardpoint import InvalidParameters
from hardpoint.errors import Issue


def refuse(
    parameter: str, code: str, message: str, *, expected: str, received: str = "something else"
) -> InvalidParameters:
    """The error for one wrong argument.

    Args:
        parameter: The argument that is wrong.
        code: A stable name of the reason, for programs.
        message: What is wrong and what to do, for models and people.
        expected: What would be right.
        received: What came instead.
    """
    return InvalidParameters(message, issues=[Issue(f"/{parameter}", code, expected, received)])
