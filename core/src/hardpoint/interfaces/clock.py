"""Time as the code sees it; tests hand over another."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Unix time in seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that only go forward."""
        ...


class SystemClock:
    """The real time."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
