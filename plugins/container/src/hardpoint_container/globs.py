"""Match paths against a glob: `*`, `?`, `[…]`, `{a,b}` within a name, `**` across folders.

Time is linear in pattern times path, whatever the pattern: it comes from a model.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from hardpoint.errors import InvalidParameters

LONGEST: Final = 1000
ALTERNATIVES: Final = 64


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """A test for paths relative to the searched folder.

    Raises:
        InvalidParameters: The pattern is empty, too long, leaves the folder, or too wide.
    """
    if not pattern or len(pattern) > LONGEST:
        raise InvalidParameters(f"the pattern must have 1 to {LONGEST} characters")
    choices = [_segments(one) for one in _expand(pattern)]

    def matches(path: str) -> bool:
        names = path.split("/")
        return any(_match(segments, names) for segments in choices)

    return matches


def _segments(pattern: str) -> Sequence[str]:
    segments = [segment for segment in pattern.split("/") if segment not in ("", ".")]
    if pattern.startswith("/") or ".." in segments or not segments:
        raise InvalidParameters(
            f"the pattern {pattern!r} must stay below the searched folder",
            hint="use path to search another folder",
        )
    return segments


def _match(segments: Sequence[str], names: Sequence[str]) -> bool:
    """Whether the segments cover the names; a table instead of backtracking."""
    reached = {0}
    for segment in segments:
        if segment == "**":
            reached = set(range(min(reached), len(names) + 1))
        else:
            test = _name_test(segment)
            reached = {at + 1 for at in reached if at < len(names) and test(names[at])}
        if not reached:
            return False
    return len(names) in reached


@lru_cache(maxsize=256)
def _name_test(segment: str) -> Callable[[str], object]:
    if not re.search(r"[*?\[]", segment):
        return segment.__eq__
    # fnmatch's expressions do not backtrack into an earlier star.
    return re.compile(fnmatch.translate(re.sub(r"\*+", "*", segment))).match


def _expand(pattern: str) -> list[str]:
    """Every choice of `{a,b}`, nested ones too."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        one = todo.pop()
        inner = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if inner is None:
            done.append(one)
        else:
            todo += [one[: inner.start()] + c + one[inner.end() :] for c in inner[1].split(",")]
        if len(todo) + len(done) > ALTERNATIVES:
            raise InvalidParameters(f"the pattern has more than {ALTERNATIVES} alternatives")
    return done
