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

OPERATIONS: Final = ("read", "write", "list", "delete")


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
        if not text or text == "/":
            raise ConfigError(f"the path pattern {spec!r} names no path; write `**` for any path")
        if "\0" in text:
            raise ConfigError(f"the path pattern {spec!r} holds NUL, which no path does")
        if text.startswith("!"):
            raise ConfigError(
                f"the path pattern {spec!r} starts with `!`; write a deny rule instead, deny wins"
            )
        if "\\" in text and os.sep != "\\":
            raise ConfigError(f"the path pattern {spec!r} holds a backslash; use `/` and `[*]`")
        if any(part == ".." for part in text.split("/")):
            raise ConfigError(f"the path pattern {spec!r} holds `..`, which no judged path does")
        if text.startswith("~/"):
            text = "/" + os.path.expanduser("~").rstrip("/") + text[1:]
        while text.startswith("./"):
            text = text[2:]
        _compiled(text)
        return cls(spec, text, operation)

    def matches(self, value: object, operation: str = "") -> bool:
        """Whether a path fits.

        Args:
            value: A path relative to the workspace, or absolute when outside.
            operation: What the call does with it.
        """
        if not isinstance(value, str):
            return False
        if self.operation is not None and operation != self.operation:
            return False
        path = posixpath.normpath(value) if value else "."
        return _compiled(self.glob).fullmatch(re.sub(r"^/+", "/", path)) is not None


@lru_cache(maxsize=512)
def _compiled(glob: str) -> re.Pattern[str]:
    absolute = glob.startswith("//")
    body = glob.strip("/") if not absolute else glob[2:].rstrip("/")
    anchored = "/" in glob.rstrip("/")
    parts = [part for part in body.split("/") if part not in ("", ".")]
    pattern = "/" if absolute else ("" if anchored else "(?:.*/)?")
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            pattern += ".*" if last else "(?:.*/)?"
        else:
            pattern += _part(part, glob) + ("" if last else "/")
    # A pattern that names a folder covers what is in it.
    return re.compile(pattern + ("" if parts[-1:] == ["**"] else "(?:/.*)?"), re.DOTALL)


def _part(part: str, glob: str) -> str:
    """One path segment as a regular expression."""
    pattern, at = "", 0
    while at < len(part):
        char = part[at]
        at += 1
        if char == "*":
            pattern += "" if pattern.endswith("[^/]*") else "[^/]*"
        elif char == "?":
            pattern += "[^/]"
        elif char == "[":
            end = part.find("]", at + 2 if part[at : at + 1] in ("!", "^", "]") else at + 1)
            if end < 0:
                raise ConfigError(f"the path pattern {glob!r} has a `[` without `]`")
            inside = part[at:end].replace("\\", "\\\\").replace("[", "\\[")
            inside = "^" + inside[1:] if inside[0] in "!^" else inside
            try:
                re.compile(f"[{inside}]")
            except re.error as error:
                raise ConfigError(f"the path pattern {glob!r}: {error}") from error
            pattern += f"(?!/)[{inside}]"
            at = end + 1
        else:
            pattern += re.escape(char)
    return pattern
