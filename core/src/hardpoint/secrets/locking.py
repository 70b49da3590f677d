"""One process at a time: a file that is locked while something is read, changed and written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardpoint.store.private import make_private_folder, open_private


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock; a process that dies gives it back."""
    make_private_folder(path.parent)
    descriptor = open_private(path)
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
