"""Stars as regular expressions that take linear time, whatever the text."""

from __future__ import annotations

from collections.abc import Sequence


def join_stars(parts: Sequence[str], anything: str = ".") -> str:
    """The expression for parts with any text between them.

    The first place where a part fits is as good as any other, so it is never taken back.

    Args:
        parts: Regular expressions of bounded length; empty ones stand for a star at an end.
        anything: What one character of the text between may be.
    """
    if len(parts) == 1:
        return parts[0]
    middle = "".join(f"(?>{anything}*?{part})" for part in parts[1:-1] if part)
    return f"{parts[0]}{middle}{anything}*{parts[-1]}"
