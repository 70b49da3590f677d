"""Count calls in Redis: exact sliding windows for every process that uses the same server.

Each call is one script on the server, so it is counted in all of its limits or in none, by the
server's clock. A server that does not answer denies the call. What is counted is in `limits.lua`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import attrs

from hardpoint import ExternalService, RateLimiterBackend
from hardpoint.interfaces import LimitRequest
from hardpoint_redis.config import RedisConfig

if TYPE_CHECKING:
    import redis as client_library
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

MINUTE: Final = 60_000_000
HOUR: Final = 3_600_000_000
KEEPS_ALL: Final = "noeviction"
MAX_CONNECTIONS: Final = 16
"""One call holds one for less than a millisecond; more of them wait."""


@attrs.define(eq=False)
class _Session:
    """What belongs to one event loop."""

    loop: asyncio.AbstractEventLoop
    client: Redis
    script: Callable[..., Any]
    trusted: bool
    """Whether the server is known to keep what is counted."""
    first: asyncio.Lock = attrs.field(factory=asyncio.Lock)


class RedisRateLimiter(RateLimiterBackend):
    """The backend `redis`."""

    def __init__(self, config: RedisConfig | None = None) -> None:
        """Describe a server; it is reached with the first call."""
        self._config = config or RedisConfig()
        self._session: _Session | None = None

    async def acquire(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        """Count one call in every limit, or in none.

        Raises:
            ExternalService: The server gave no answer, so the call is denied.
        """
        return await self._ask(requests, count=True)

    async def check(self, requests: Sequence[LimitRequest]) -> timedelta | None:
        """What `acquire` would answer; counts nothing.

        Raises:
            ExternalService: The server gave no answer.
        """
        return await self._ask(requests, count=False)

    async def aclose(self) -> None:
        """Give back the connections; a later call opens others."""
        session, self._session = self._session, None
        if session is not None and session.loop is asyncio.get_running_loop():
            await session.client.aclose(close_connection_pool=True)

    async def _ask(self, requests: Sequence[LimitRequest], *, count: bool) -> timedelta | None:
        if not requests:
            return None
        keys: dict[str, int] = {}
        numbers: list[int] = [int(count)]
        for request in requests:
            key = self._key(request.user_id, request.tool)
            config = request.config
            number = keys.setdefault(key, len(keys) + 1)
            numbers += [number, config.requests_per_minute, config.requests_per_hour]
        session = self._open()
        try:
            async with session.first:
                if not session.trusted:
                    self._refuse_eviction(await _memory_of(session.client))
                    session.trusted = True
            wait = int(await session.script(keys=list(keys), args=numbers))
        except _failures() as error:
            raise self._no_answer(error) from error
        return timedelta(microseconds=wait) if wait > 0 else None

    def _open(self) -> _Session:
        """The connections of the running loop. Those of one that has ended are left to it."""
        loop = asyncio.get_running_loop()
        if self._session is not None and self._session.loop is loop:
            return self._session
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        # A request that was lost on the way is sent once more: counted twice, rather than never.
        pool = BlockingConnectionPool.from_url(
            self._config.url,
            max_connections=MAX_CONNECTIONS,
            timeout=self._config.timeout,
            socket_timeout=self._config.timeout,
            socket_connect_timeout=self._config.timeout,
            retry=Retry(NoBackoff(), 1),
        )
        client = Redis(connection_pool=pool)
        self._session = _Session(
            loop, client, client.register_script(_lua()), trusted=self._config.allow_eviction
        )
        return self._session

    def _refuse_eviction(self, memory: Mapping[str, Any]) -> None:
        policy = memory.get("maxmemory_policy", KEEPS_ALL)
        if memory.get("maxmemory") and policy != KEEPS_ALL:
            raise ExternalService(
                f"redis at {self._config.place} throws keys away when its memory is full"
                f" (maxmemory-policy {policy}), and rate limits with them: the call is denied",
                hint="set maxmemory-policy noeviction, or accept it with"
                " [plugin.redis] allow_eviction = true",
            )

    def _no_answer(self, error: BaseException) -> ExternalService:
        return ExternalService(
            f"the rate limits cannot be counted, so the call is denied: redis at"
            f" {self._config.place}: {_in_words(error)}",
            hint="start the server, correct [plugin.redis] url, or choose another [limits] backend",
        )

    # names -------------------------------------------------------------------------------------

    def _key(self, user: str, tool: str) -> str:
        # All keys of a user are in one slot of a cluster: a call is counted in several of them.
        user, tool = (quote(name, safe="", errors="surrogatepass") for name in (user, tool))
        return f"{self._config.prefix}:{{{user}}}:{tool}"

    def _pair(self, key: str) -> tuple[str, str]:
        user, _, tool = key.removeprefix(f"{self._config.prefix}:{{").partition("}:")
        return unquote(user, errors="surrogatepass"), unquote(tool, errors="surrogatepass")

    # for people --------------------------------------------------------------------------------

    def usage(self) -> list[tuple[str, str, int, int]]:
        """User, tool, calls in the last minute and in the last hour, of every pair with any.

        Raises:
            ExternalService: The server gave no answer.
        """
        try:
            with self._connected() as server:
                seconds, micros = server.time()
                now = seconds * 1_000_000 + micros
                keys = list(
                    server.scan_iter(match=f"{_escaped(self._config.prefix)}:{{*", count=500)
                )
                counted = [(self._pair(key), server.lrange(key, 0, -1)) for key in sorted(keys)]
        except _failures() as error:
            raise self._no_answer(error) from error
        rows = []
        for (user, tool), times in counted:
            ages = [now - int(at) for at in times]
            hour = sum(age < HOUR for age in ages)
            if hour:
                rows.append((user, tool, sum(age < MINUTE for age in ages), hour))
        return rows

    def clear(self, user: str, tool: str) -> None:
        """Forget what was counted for one pair.

        Raises:
            ExternalService: The server gave no answer.
        """
        try:
            with self._connected() as server:
                server.delete(self._key(user, tool))
        except _failures() as error:
            raise self._no_answer(error) from error

    def _connected(self) -> client_library.Redis:
        import redis

        return redis.Redis.from_url(
            self._config.url,
            decode_responses=True,
            socket_timeout=self._config.timeout,
            socket_connect_timeout=self._config.timeout,
        )


async def _memory_of(client: Redis) -> Mapping[str, Any]:
    from redis.exceptions import NoPermissionError

    try:
        found: Mapping[str, Any] = await client.info("memory")
    except NoPermissionError:
        logger.warning("redis does not say whether it keeps all keys: INFO is not permitted")
        return {}
    return found


@cache
def _lua() -> str:
    from importlib.resources import files

    return files("hardpoint_redis").joinpath("limits.lua").read_text("utf-8")


@cache
def _failures() -> tuple[type[Exception], ...]:
    from redis.exceptions import RedisError

    return (RedisError, OSError, TimeoutError)


def _in_words(error: BaseException) -> str:
    text = str(error).strip().rstrip(".")
    return text or type(error).__name__


def _escaped(text: str) -> str:
    """The text for a glob of Redis that means nothing but itself."""
    return "".join(f"\\{c}" if c in "*?[]\\^-" else c for c in text)
