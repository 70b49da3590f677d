"""The backends that count calls: in this process, or in the store that processes share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from hardpoint.interfaces.limits import LimitRequest, RateLimiterBackend
from hardpoint.rate_limiter import HOUR, MINUTE, RateLimiter
from hardpoint.store import Namespace, Transaction


class MemoryRateLimiter(RateLimiterBackend):
    """The backend `memory`: one `RateLimiter` for this process, also without awaiting."""

    def __init__(self, limiter: RateLimiter | None = None) -> None:
        self.limiter = RateLimiter() if limiter is None else limiter
        self.acquire_now = self.limiter.acquire
        self.check_now = self.limiter.check_all
        self.usage = self.limiter.usage
        self.clear = self.limiter.clear

    async def acquire(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        return self.limiter.acquire(requests)

    async def check(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        return self.limiter.check_all(requests)


MIGRATIONS = (
    """CREATE TABLE limits_calls (
        user_id TEXT NOT NULL, tool TEXT NOT NULL, at BIGINT NOT NULL
    )""",
    "CREATE INDEX limits_calls_by_pair ON limits_calls (user_id, tool, at)",
    "CREATE INDEX limits_calls_by_time ON limits_calls (at)",
)


class SqliteRateLimiter(RateLimiterBackend):
    """The backend `sqlite`: counts in the store, shared by every process that uses the same one.

    Processes have only the wall clock in common. A clock that is a little behind what was counted
    last is read as that time; when it was set back by more than a minute, everything counted moves
    back with it. Both ways no window holds more calls than it may.
    """

    def __init__(self, namespace: Namespace, *, clock: Callable[[], float] = time.time) -> None:
        """Count in `namespace`, which was opened with `MIGRATIONS`."""
        self._namespace = namespace
        self._clock = clock

    async def acquire(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        return await self._namespace.run(self.acquire_now, requests)

    async def check(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        return await self._namespace.run(self.check_now, requests)

    def acquire_now(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        """`acquire` for code without a loop; waits while another process counts."""
        with self._namespace.transaction() as transaction:
            now, newest = self._times(transaction)
            if newest - now > MINUTE:
                transaction.execute("UPDATE limits_calls SET at = at - ?", (newest - now,))
            else:
                now = max(now, newest)
            wait = _stored_wait(transaction, requests, now)
            if wait > 0:
                return timedelta(microseconds=wait)
            transaction.execute("DELETE FROM limits_calls WHERE at <= ?", (now - HOUR,))
            for user, tool in {(request.user_id, request.tool) for request in requests}:
                transaction.execute(
                    "INSERT INTO limits_calls (user_id, tool, at) VALUES (?, ?, ?)",
                    (user, tool, now),
                )
        return None

    def check_now(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        """`check` for code without a loop."""
        wait = _stored_wait(self._namespace, requests, max(self._times(self._namespace)))
        return timedelta(microseconds=wait) if wait > 0 else None

    def usage(self) -> list[tuple[str, str, int, int]]:
        """User, tool, calls in the last minute and in the last hour, of every pair with any."""
        now = max(self._times(self._namespace))
        rows = self._namespace.query(
            "SELECT user_id, tool, SUM(CASE WHEN at > ? THEN 1 ELSE 0 END) AS minute,"
            " COUNT(*) AS hour FROM limits_calls WHERE at > ?"
            " GROUP BY user_id, tool ORDER BY user_id, tool",
            (now - MINUTE, now - HOUR),
        )
        return [(row["user_id"], row["tool"], int(row["minute"]), row["hour"]) for row in rows]

    def clear(self, user: str, tool: str) -> None:
        """Forget what was counted for one pair."""
        self._namespace.execute(
            "DELETE FROM limits_calls WHERE user_id = ? AND tool = ?", (user, tool)
        )

    def _times(self, source: Namespace | Transaction) -> tuple[int, int]:
        """The clock's time and that of the newest call; both in microseconds."""
        newest = source.query("SELECT MAX(at) AS at FROM limits_calls")[0]["at"]
        return int(self._clock() * 1e6 + 0.5), newest or 0


def _stored_wait(
    source: Namespace | Transaction, requests: Sequence[LimitRequest], now: int
) -> int:
    """Microseconds until one more call fits in all of `requests`; zero when it fits now."""
    wait = 0
    for request in requests:
        for limit, window in (
            (request.config.requests_per_minute, MINUTE),
            (request.config.requests_per_hour, HOUR),
        ):
            rows = source.query(
                "SELECT at FROM limits_calls WHERE user_id = ? AND tool = ? AND at > ?"
                " ORDER BY at DESC LIMIT 1 OFFSET ?",
                (request.user_id, request.tool, now - window, limit - 1),
            )
            if rows:
                wait = max(wait, rows[0]["at"] + window - now)
    return wait
