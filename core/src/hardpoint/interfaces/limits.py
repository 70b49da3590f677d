"""Counting calls, in memory or shared between processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta

import attrs

from hardpoint.limits import ToolRateLimitConfig


@attrs.frozen
class LimitRequest:
    """One limit that a call must fit in."""

    user_id: str
    tool: str
    """The tool's name, or the name of a limit that several tools share."""
    config: ToolRateLimitConfig


class RateLimiterBackend(ABC):
    """An exact sliding-window limiter."""

    @abstractmethod
    async def acquire(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        """Count one call in every limit, or in none.

        Returns:
            None when it was counted, else the time until one call would fit in all of them.
        """

    @abstractmethod
    async def check(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        """What `acquire` would answer; counts nothing."""

    async def aclose(self) -> None:
        """Give back connections."""
