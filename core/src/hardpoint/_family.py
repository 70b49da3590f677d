"""A root call and the calls that its tool makes: one deadline, one depth, one count for all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from hardpoint.errors import NotAuthorized

MAX_DEPTH: Final = 5
MAX_NESTED: Final = 20


class Family:
    """What a root call shares with everything below it."""

    __slots__ = ("_ends", "_nested", "_paused", "_waiting", "_waiting_since")

    def __init__(self, timeout: timedelta) -> None:
        self._ends = time.monotonic() + timeout.total_seconds()
        self._nested = 0
        self._paused = 0.0
        self._waiting = 0
        self._waiting_since = 0.0

    def admit(self, depth: int) -> None:
        """Let one more nested call in.

        Raises:
            NotAuthorized: Too deep, or too many.
        """
        if depth > MAX_DEPTH:
            raise NotAuthorized(f"tools calling tools may go {MAX_DEPTH} deep, not {depth}")
        self._nested += 1
        if self._nested > MAX_NESTED:
            raise NotAuthorized(f"one call may make {MAX_NESTED} further calls, not more")

    def paused(self) -> float:
        """Seconds spent so far on waiting for an approver; they do not count."""
        ongoing = time.monotonic() - self._waiting_since if self._waiting else 0.0
        return self._paused + ongoing

    def time_left(self) -> float:
        return self._ends + self.paused() - time.monotonic()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Stop the clock while a person thinks."""
        if self._waiting == 0:
            self._waiting_since = time.monotonic()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._paused += time.monotonic() - self._waiting_since
