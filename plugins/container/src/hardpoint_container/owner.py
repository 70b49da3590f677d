"""Which process of Hardpoint a sandbox belongs to, and whether that process still lives."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def my_mark() -> str:
    """This process: boot, PID namespace, number and start time; no other one has the same."""
    return f"{_boot()}:{_namespace()}:{os.getpid()}:{_started(os.getpid())}"


def is_alive(mark: str) -> bool:
    """Whether the marked process may still live; True also where that cannot be known from here."""
    parts = mark.split(":")
    if len(parts) != 4 or not parts[2].isdigit():
        return False
    boot, namespace, pid, started = parts
    if boot != _boot():
        return False
    if namespace != _namespace():
        return True  # another container shares this Podman; its own processes reap there
    return bool(started) and _started(int(pid)) == started


def _boot() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return "unknown"


def _started(pid: int) -> str:
    """The start time of a process in clock ticks; empty when there is no such process."""
    try:
        # The name in parentheses may hold blanks and parentheses of its own.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return ""
