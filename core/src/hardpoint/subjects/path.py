"""Patterns over paths, as in a `.gitignore` file.

`*` and `?` stay within one folder, `**` spans folders. A pattern without a slash, or with one only
at its end, holds at any depth; with a slash it starts at the workspace. A pattern that names a
folder covers everything below it. `//abs` starts at the root of the machine, `~/` at the home
folder. `read:`, `write:`, `list:` or `delete:` in front limits it to one operation.
"""

from __future__ import annotations

import os
import posixpath
import re
from functools import lru_cache
from typing import Final

import attrs

from hardpoint.errors import ConfigError
from hardpoint.subjects.stars import join_stars

OPERATIONS: Final = ("read", "write", "list", "delete")
_ANY_DEPTH: Final = None
"""In place of the expression of a folder: `**`."""


@attrs.frozen
class PathPattern:
    """One pattern over workspace paths."""

    spec: str
    glob: str
    operation: str | None = None
    """The only operation that it speaks of; None for any."""

    @classmethod
    def parse(cls, spec: str) -> PathPattern:
        """Read a pattern.

        Raises:
            ConfigError: It can match no path.
        """
        text, operation = spec, None
        head, colon, tail = spec.partition(":")
        if colon and head in OPERATIONS:
            text, operation = tail, head
        if not text.strip("/"):
            raise ConfigError(f"the path pattern {spec!r} names no path; write `**` for any path")
        if "\0" in text:
            raise ConfigError(f"the path pattern {spec!r} holds NUL, which no path does")
        if text.startswith("!"):
            raise ConfigError(
                f"the path pattern {spec!r} starts with `!`; write a deny rule instead, deny wins"
            )
        if "\\" in text:
            raise ConfigError(f"the path pattern {spec!r} holds a backslash; use `/` and `[*]`")
        if ".." in text.split("/"):
            raise ConfigError(f"the path pattern {spec!r} holds `..`, which no judged path does")
        if text.startswith("~/"):
            text = "/" + os.path.expanduser("~").rstrip("/") + text[1:]
        _compiled(text)
        return cls(spec, text, operation)

    def matches(self, value: object, operation: str = "") -> bool:
        """Whether a path fits.

        Args:
            value: A path relative to the workspace, or absolute when outside.
            operation: What the call does with it.
        """
        if not isinstance(value, str) or self.operation not in (None, operation):
            return False
        absolute, folders = _compiled(self.glob)
        path = posixpath.normpath(value) if value else "."
        # A pattern at any depth holds outside the workspace, too.
        anywhere = not absolute and folders[0] is _ANY_DEPTH
        if absolute != path.startswith("/") and not anywhere:
            return False
        return _fits(folders, path.strip("/").split("/"))


def _fits(folders: tuple[re.Pattern[str] | None, ...], parts: list[str]) -> bool:
    """Whether the folders of a pattern lead to a path, or to a folder above it."""
    reached = {0}
    for part in ["", *parts]:
        if part:
            reached = {
                at if folders[at] is _ANY_DEPTH else at + 1
                for at in reached
                if folders[at] is _ANY_DEPTH or _match(folders[at], part)
            }
        # `**` may stand for no folder at all.
        for at in sorted(reached):
            while at < len(folders) - 1 and folders[at] is _ANY_DEPTH:
                at += 1
                reached.add(at)
        if len(folders) in reached:
            return True
    return len(folders) - 1 in reached and folders[-1] is _ANY_DEPTH


def _match(folder: re.Pattern[str] | None, part: str) -> bool:
    return folder is not None and folder.fullmatch(part) is not None


@lru_cache(maxsize=512)
def _compiled(glob: str) -> tuple[bool, tuple[re.Pattern[str] | None, ...]]:
    """Whether a pattern starts at the root, and the expression of each of its folders."""
    parts = [part for part in glob.split("/") if part not in ("", ".")]
    folders = tuple(
        _ANY_DEPTH if part == "**" else re.compile(_folder(part, glob), re.DOTALL) for part in parts
    )
    if "/" not in glob.rstrip("/").removeprefix("./") and not glob.startswith("./"):
        folders = (_ANY_DEPTH, *folders)
    return glob.startswith("//"), folders


def _folder(part: str, glob: str) -> str:
    """The expression for one folder or file name."""
    pieces = [""]
    at = 0
    while at < len(part):
        char = part[at]
        at += 1
        if char == "*":
            pieces.append("")
        elif char == "?":
            pieces[-1] += "."
        elif char == "[":
            end = part.find("]", at + 1 + (part[at : at + 1] in ("!", "^")))
            if end < 0:
                raise ConfigError(f"the path pattern {glob!r} has a `[` without `]`")
            inside = part[at:end].replace("[", "\\[")
            inside = "^" + inside[1:] if inside[0] in "!^" else inside
            try:
                re.compile(f"[{inside}]")
            except re.error as error:
                raise ConfigError(f"the path pattern {glob!r}: {error}") from error
            pieces[-1] += f"[{inside}]"
            at = end + 1
        else:
            pieces[-1] += re.escape(char)
    return join_stars(pieces)
