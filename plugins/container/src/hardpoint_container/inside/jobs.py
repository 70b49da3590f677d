"""A running command and what it has written so far."""

from __future__ import annotations

import time
from typing import Any

TAIL = 64 * 1024


class Stream:
    """One output of a command: the first `keep` bytes go out at once, the last ones at the end."""

    def __init__(self, number: int, keep: int) -> None:
        self.number, self.room, self.total, self.tail = number, keep, 0, b""

    def take(self, data: bytes) -> bytes:
        """Account for new output; what of it goes out now."""
        self.total += len(data)
        now, later = data[: self.room], data[self.room :]
        self.room -= len(now)
        if later:
            self.tail = (self.tail + later)[-TAIL:]
        return now


class Job:
    """One running command."""

    def __init__(
        self,
        call: dict[str, Any],
        pid: int,
        streams: dict[int, Stream],
        feed: memoryview,
        feed_fd: int | None,
    ) -> None:
        self.id, self.pid = call["id"], pid
        self.started = time.monotonic()
        self.deadline = self.started + call["timeout"]
        self.most = call["most"]
        self.streams, self.feed, self.feed_fd = streams, feed, feed_fd
        self.cause: str | None = None  # why we ended it: timeout, cancelled or output
        self.killed = False
