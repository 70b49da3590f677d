"""Which process runs a job, told so that others can see when it has died."""

from __future__ import annotations

import json
import os
import secrets
import socket
from functools import cache
from pathlib import Path


def make_owner() -> str:
    """The name of this process, unlike that of any other, earlier or elsewhere."""
    pid = os.getpid()
    return json.dumps(
        {"place": _place(), "pid": pid, "started": _started(pid), "token": secrets.token_hex(8)}
    )


def has_died(owner: str | None) -> bool:
    """Whether that process has certainly ended. False when it cannot be known from here."""
    try:
        told = json.loads(owner or "{}")
        pid, place = int(told["pid"]), told["place"]
    except (ValueError, KeyError, TypeError):
        return False
    if place != _place():
        return False
    if told.get("started") != _started(pid):
        return True  # gone, or its number was given to another
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


@cache
def _place() -> str:
    """Where process numbers mean the same: this machine since its start, this container."""
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        numbers = str(Path("/proc/self/ns/pid").readlink())
    except OSError:  # not Linux
        start = numbers = ""
    return f"{socket.gethostname()}|{start}|{numbers}"


def _started(pid: int) -> str | None:
    """When a process started, in the kernel's own count; None where that is not told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name, in parentheses, may hold anything.
    return stat.rpartition(")")[2].split()[19]
