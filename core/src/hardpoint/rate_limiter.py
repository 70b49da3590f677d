"""Count calls in exact sliding windows, in this process. Shared counting is in `policy.rate_limit`.

No 60 seconds ever hold more than `requests_per_minute` calls and no hour more than
`requests_per_hour`, wherever they begin. A refused call counts nowhere. Which limits apply to a
call is decided elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from datetime import timedelta

from hardpoint.errors import RateLimited
from hardpoint.interfaces.limits import LimitRequest
from hardpoint.limits import ToolRateLimitConfig

# Times are whole microseconds: a difference of "exactly 60 seconds" would not be exact otherwise.
# They are floats, which hold them exactly and are quicker to make.
MINUTE = 60_000_000
HOUR = 3_600_000_000

Key = tuple[str, str]


class RateLimiter:
    """The limiter in memory. Safe to use from threads; never waits.

    Example:
        limiter = RateLimiter()
        wait = limiter.check_and_increment("ana", "http", ToolRateLimitConfig(30, 500))
        if wait is not None:
            print(f"try again in {wait}")
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, max_keys: int = 100_000
    ) -> None:
        """Make an empty limiter.

        Args:
            clock: Gives seconds that do not go back.
            max_keys: How many pairs of user and tool are counted at most. A pair without a call for
                an hour is forgotten; while all are in use a new one is refused.
        """
        self._clock = clock
        self._max_keys = max_keys
        self._lock = threading.Lock()
        # The pair that was counted last stands last, so the first one is the next to become idle.
        self._calls: OrderedDict[Key, deque[float]] = OrderedDict()
        self._next_sweep = 0.0

    def __len__(self) -> int:
        return len(self._calls)

    def check_and_increment(
        self, user: str, tool: str, config: ToolRateLimitConfig
    ) -> timedelta | None:
        """Count a call if it fits.

        Returns:
            None when it was counted, else the time until one call would fit.

        Raises:
            RateLimited: When the pair is new and there is no room for another one.
        """
        key = (user, tool)
        with self._lock:
            now = (self._clock() * 1e6 + 0.5) // 1
            calls = self._calls.get(key)
            if calls is None:
                self._add(key, now)
                return None
            count = len(calls)
            if count >= config.requests_per_minute or count >= config.requests_per_hour:
                wait = _wait(calls, now, config)
                if wait > 0:
                    return timedelta(0, 0, wait)
            self._count(key, calls, now)
            return None

    check_and_record = check_and_increment

    def check(self, user: str, tool: str, config: ToolRateLimitConfig) -> timedelta | None:
        """What `check_and_increment` would answer; counts nothing."""
        return self.check_all([LimitRequest(user, tool, config)])

    def acquire(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        """Count one call in every limit, or in none. Limits of the same pair count it once.

        Returns:
            None when it was counted, else the time until it would fit in all of them.

        Raises:
            RateLimited: When a pair is new and there is no room for another one.
        """
        with self._lock:
            now = (self._clock() * 1e6 + 0.5) // 1
            wait = self._longest_wait(requests, now)
            if wait > 0:
                return timedelta(0, 0, wait)
            for key in {(request.user_id, request.tool) for request in requests}:
                calls = self._calls.get(key)
                if calls is None:
                    self._add(key, now)
                else:
                    self._count(key, calls, now)
            return None

    def check_all(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        """What `acquire` would answer; counts nothing."""
        with self._lock:
            wait = self._longest_wait(requests, (self._clock() * 1e6 + 0.5) // 1)
        return timedelta(0, 0, wait) if wait > 0 else None

    def get_usage(self, user: str, tool: str) -> tuple[int, int] | None:
        """Calls counted in the last minute and in the last hour; None without any."""
        with self._lock:
            now = (self._clock() * 1e6 + 0.5) // 1
            calls = self._calls.get((user, tool), ())
            minute = sum(1 for at in calls if now - at < MINUTE)
            hour = sum(1 for at in calls if now - at < HOUR)
        return (minute, hour) if hour else None

    def usage(self) -> list[tuple[str, str, int, int]]:
        """User, tool, calls in the last minute and in the last hour, of every pair with any."""
        with self._lock:
            pairs = sorted(self._calls)
        counted = ((pair, self.get_usage(*pair)) for pair in pairs)
        return [(*pair, *found) for pair, found in counted if found is not None]

    def clear(self, user: str, tool: str) -> None:
        """Forget what was counted for one pair."""
        with self._lock:
            self._calls.pop((user, tool), None)

    def clear_all(self) -> None:
        """Forget everything."""
        with self._lock:
            self._calls.clear()

    def _longest_wait(self, requests: Sequence[LimitRequest], now: float) -> float:
        wait = 0.0
        new = set()
        for request in requests:
            key = (request.user_id, request.tool)
            calls = self._calls.get(key)
            if calls is None:
                new.add(key)
            else:
                wait = max(wait, _wait(calls, now, request.config))
        if new and wait <= 0:
            self._make_room(len(new), now)
        return wait

    def _count(self, key: Key, calls: deque[float], now: float) -> None:
        # A clock that went back after all must not spoil the order.
        newest = calls[-1]
        calls.append(now if now >= newest else newest)
        self._calls.move_to_end(key)
        while now - calls[0] >= HOUR:
            calls.popleft()
        if now >= self._next_sweep:
            self._sweep(now)

    def _add(self, key: Key, now: float) -> None:
        self._make_room(1, now)
        self._calls[key] = deque((now,))

    def _make_room(self, count: int, now: float) -> None:
        if len(self._calls) + count <= self._max_keys and now < self._next_sweep:
            return
        self._sweep(now)
        if len(self._calls) + count <= self._max_keys:
            return
        oldest = next(iter(self._calls.values()), None)
        idle_in = timedelta(microseconds=oldest[-1] + HOUR - now) if oldest else None
        raise RateLimited(
            idle_in,
            f"the rate limiter already counts {len(self._calls)} pairs of user and tool, as many "
            "as max_keys allows; a new one has to wait until another was idle for an hour",
            hint="raise max_keys when this many users and tools are expected",
        )

    def _sweep(self, now: float) -> None:
        self._next_sweep = now + MINUTE
        while self._calls:
            key, calls = next(iter(self._calls.items()))
            if now - calls[-1] < HOUR:
                return
            del self._calls[key]


def _wait(calls: deque[float], now: float, config: ToolRateLimitConfig) -> float:
    """Microseconds until one more call fits; zero or less when it fits now."""
    # A call fits when the one that is `limit` calls back has left the window.
    count = len(calls)
    wait = 0.0
    if count >= (limit := config.requests_per_minute):
        wait = calls[-limit] + MINUTE - now
    if count >= (limit := config.requests_per_hour):
        wait = max(wait, calls[-limit] + HOUR - now)
    return wait
