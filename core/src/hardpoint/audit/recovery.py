"""Finish the audit files of processes that ended without closing them."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from hardpoint.audit import chain
from hardpoint.audit.index import Index

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


def lock(descriptor: int) -> bool:
    """Take the lock that a writer holds on its file as long as it lives; False when it is taken."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def close_left_over(folder: Path, index: Index) -> None:
    """Close every file whose writer is gone, so that it cannot be cut short unnoticed later on.

    A last line without its end belongs to a record that was never reported as written; it is
    removed. Nothing else is touched: what is wrong with a file is for `verify` to say.
    """
    for file in index.files():
        if file.closed or file.pruned is not None:
            continue
        path = folder / file.name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if not lock(descriptor):
                continue
            data = path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                os.ftruncate(descriptor, whole)
            try:
                last = chain.unseal(data[:whole].rstrip(b"\n").rpartition(b"\n")[2])
            except ValueError:
                continue
            ended = datetime.fromisoformat(last.record["at"]).timestamp()
            index.reached(file.name, last.number, last.hash, ended, closed=True)
        finally:
            os.close(descriptor)
