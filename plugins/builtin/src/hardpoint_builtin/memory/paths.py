"""Which paths memory has: documents like `projects/alpha/notes.md`, never files of the host."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import Final

from hardpoint import InvalidParameters, NotAuthorized
from hardpoint.errors import Issue

MAX_PATH: Final = 512
MAX_PARTS: Final = 16

IDENTITY: Final = frozenset({"identity.md", "soul.md", "agents.md", "user.md"})
"""Who the agent is and whom it serves. Written by people, never by a tool call."""

_TARGETS: Final = {
    "memory": "MEMORY.md",
    "heartbeat": "HEARTBEAT.md",
    "bootstrap": "BOOTSTRAP.md",
}
TARGETS: Final = ("memory", "daily_log", "heartbeat", "bootstrap")

_HOST_PATH: Final = re.compile(r"/|~|[A-Za-z]:[\\/]|\\\\|file:", re.IGNORECASE)
_GUIDANCE: Final = (
    "memory documents have relative paths such as 'projects/alpha/notes.md';"
    " for files of the workspace use read_file, write_file and list_dir"
)


def resolve_target(target: str, now: datetime) -> str:
    """The path that a target names: a shortcut, or the path itself.

    Raises:
        InvalidParameters: It is no path of memory.
    """
    word = target.strip().casefold()
    if word == "daily_log":
        return f"daily/{now:%Y-%m-%d}.md"
    return _TARGETS[word] if word in _TARGETS else clean_path(target, "target")


def clean_path(path: str, parameter: str = "path") -> str:
    """A path in its one spelling.

    Raises:
        InvalidParameters: It is no path of memory; the message says what would be one.
    """
    text = unicodedata.normalize("NFC", path.strip())
    if _HOST_PATH.match(text):
        raise _refuse(parameter, path, "a path inside memory", _GUIDANCE)
    if "\\" in text:
        raise _refuse(parameter, path, "parts divided by '/'", _GUIDANCE)
    if any(unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in text):
        raise _refuse(parameter, path, "visible characters", "leave control characters out")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise _refuse(parameter, path, "a document's path without '..'", _GUIDANCE)
    cleaned = "/".join(part.strip() for part in parts)
    if len(cleaned) > MAX_PATH or len(parts) > MAX_PARTS or not all(p.strip() for p in parts):
        limit = f"at most {MAX_PATH} characters in {MAX_PARTS} parts"
        raise _refuse(parameter, path, limit, "use a shorter path")
    return cleaned


def clean_prefix(path: str) -> str:
    """A folder in its one spelling, `""` for everything.

    Raises:
        InvalidParameters: As for `clean_path`.
    """
    return "" if path.strip() in ("", ".", "/", "./") else clean_path(path)


def refuse_identity(path: str) -> None:
    """Keep tool calls from rewriting who the agent is.

    Raises:
        NotAuthorized: The path is one of the identity files, under any spelling.
    """
    spelled = unicodedata.normalize("NFKC", path).casefold().rstrip(". ")
    if spelled in IDENTITY:
        raise NotAuthorized(
            f"{path!r} is an identity file, which only a person changes",
            hint="write what should be remembered to target 'memory'",
        )


def _refuse(parameter: str, path: str, expected: str, hint: str) -> InvalidParameters:
    shown = path if len(path) <= 80 else path[:80] + "…"
    return InvalidParameters(
        f"{shown!r} is no path of memory: {expected} is needed; {hint}",
        issues=[Issue(f"/{parameter}", "invalid_value", expected, repr(shown))],
    )
