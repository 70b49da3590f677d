"""Exact windows on a real server."""

from __future__ import annotations

import asyncio
import gc
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hardpoint import ExternalService, ToolRateLimitConfig
from hardpoint.interfaces import LimitRequest
from hardpoint_redis import RedisConfig, RedisRateLimiter

MINUTE = 60_000_000
HOUR = 3_600_000_000


def limit(tool: str, minute: int, hour: int, user: str = "ana") -> LimitRequest:
    return LimitRequest(user, tool, ToolRateLimitConfig(minute, hour))


def age(server: Any, key: str, by: int) -> None:
    """Make everything that was counted older."""
    times = server.command("LRANGE", key, 0, -1)
    server.command("DEL", key)
    for at in times:
        server.command("RPUSH", key, int(at) - by)


async def test_a_limit_lets_so_many_calls_through_and_says_when_the_next_fits(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)

    answers = [await limiter.acquire([limit("http", 3, 100)]) for _ in range(5)]
    await limiter.aclose()

    assert answers[:3] == [None] * 3
    for wait in answers[3:]:
        assert wait is not None
        assert timedelta(seconds=30) < wait <= timedelta(seconds=60)


async def test_looking_counts_nothing(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)

    for _ in range(5):
        assert await limiter.check([limit("http", 1, 1)]) is None
    assert await limiter.acquire([limit("http", 1, 1)]) is None
    assert await limiter.check([limit("http", 1, 1)]) is not None
    assert limiter.usage() == [("ana", "http", 1, 1)]
    await limiter.aclose()


async def test_a_call_is_counted_in_every_limit_or_in_none(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)
    await limiter.acquire([limit("shared:all", 1, 1)])

    refused = await limiter.acquire([limit("http", 5, 5), limit("shared:all", 1, 1)])

    assert refused is not None
    assert limiter.usage() == [("ana", "shared:all", 1, 1)]
    await limiter.aclose()


async def test_two_limits_of_one_counter_count_a_call_once(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)
    both = [limit("http", 10, 10), limit("http", 2, 10)]

    answers = [await limiter.acquire(both) for _ in range(3)]

    assert [answer is None for answer in answers] == [True, True, False]
    assert limiter.usage() == [("ana", "http", 2, 2)]
    await limiter.aclose()


async def test_no_sixty_seconds_hold_more_than_the_limit_wherever_they_begin(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)
    key = "hardpoint:limits:{ana}:http"
    for _ in range(2):
        await limiter.acquire([limit("http", 3, 100)])
    age(server, key, 50_000_000)  # two calls 50 s ago
    await limiter.acquire([limit("http", 3, 100)])

    # A fixed window that began 10 s later would let three more through now.
    wait = await limiter.acquire([limit("http", 3, 100)])
    age(server, key, 11_000_000)  # the first two are 61 s old, the third is 11 s old
    answers = [await limiter.acquire([limit("http", 3, 100)]) for _ in range(3)]
    await limiter.aclose()

    assert wait is not None
    assert wait <= timedelta(seconds=10)
    assert [answer is None for answer in answers] == [True, True, False]


async def test_the_hour_is_a_window_of_its_own(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)
    key = "hardpoint:limits:{ana}:http"
    for _ in range(3):
        await limiter.acquire([limit("http", 10, 3)])
        age(server, key, 2 * MINUTE)

    refused = await limiter.acquire([limit("http", 10, 3)])
    age(server, key, HOUR - 6 * MINUTE)
    allowed = await limiter.acquire([limit("http", 10, 3)])
    await limiter.aclose()

    assert refused is not None
    assert timedelta(minutes=53) < refused <= timedelta(minutes=54)
    assert allowed is None
    assert server.command("LLEN", key) == 3, "what left the window is forgotten"


async def test_what_nobody_uses_is_forgotten(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)

    await limiter.acquire([limit("http", 1, 1), limit("shared:all", 1, 1)])
    await limiter.aclose()

    for key in server.command("KEYS", "*"):
        assert 3_600_000 < server.command("PTTL", key) <= 3_601_000


async def test_a_server_clock_that_was_set_back_locks_nobody_out(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)
    for _ in range(2):
        await limiter.acquire([limit("http", 2, 2)])
    age(server, "hardpoint:limits:{ana}:http", -48 * HOUR)  # as if counted the day after tomorrow

    wait = await limiter.acquire([limit("http", 2, 2)])
    await limiter.aclose()

    assert wait is not None
    assert wait <= timedelta(hours=1)


async def test_names_cannot_be_chosen_to_meet(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)
    pairs = [("a", "b:c"), ("a:b", "c"), ("a}:b", "c"), ("{a", "b"), ("ä\ud800", "\n"), ("", "*")]

    for user, tool in pairs:
        assert await limiter.acquire([limit(tool, 1, 1, user)]) is None

    assert {(user, tool) for user, tool, _, _ in limiter.usage()} == set(pairs)
    limiter.clear("a:b", "c")
    assert await limiter.acquire([limit("c", 1, 1, "a:b")]) is None
    assert await limiter.acquire([limit("b:c", 1, 1, "a")]) is not None
    await limiter.aclose()


async def test_another_prefix_is_another_installation(server: Any) -> None:
    ours = RedisRateLimiter(server.config)
    theirs = RedisRateLimiter(RedisConfig(url=server.config.url, prefix="other[*]"))

    await ours.acquire([limit("http", 1, 1)])

    assert await theirs.acquire([limit("http", 1, 1)]) is None
    assert theirs.usage() == [("ana", "http", 1, 1)]
    await ours.aclose()
    await theirs.aclose()


async def test_calls_at_once_never_go_over_the_limit(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)

    answers = await asyncio.gather(*(limiter.acquire([limit("http", 37, 37)]) for _ in range(300)))
    await limiter.aclose()

    assert sum(answer is None for answer in answers) == 37


# Nobody is left to close the connections of a loop that has ended.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_limiter_outlives_its_event_loop(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)

    answers = [asyncio.run(limiter.acquire([limit("http", 2, 2)])) for _ in range(3)]
    del limiter
    gc.collect()

    assert [answer is None for answer in answers] == [True, True, False]


async def test_a_server_that_forgot_the_script_is_given_it_again(server: Any) -> None:
    limiter = RedisRateLimiter(server.config)
    await limiter.acquire([limit("http", 2, 2)])
    server.command("SCRIPT", "FLUSH")

    assert await limiter.acquire([limit("http", 2, 2)]) is None
    assert await limiter.acquire([limit("http", 2, 2)]) is not None
    await limiter.aclose()


# when the server fails ----------------------------------------------------------------------------


async def test_a_server_that_is_away_denies_and_says_what_to_do(own_server: Any) -> None:
    limiter = RedisRateLimiter(own_server.config)

    with pytest.raises(ExternalService, match="cannot be counted, so the call is denied") as away:
        await limiter.acquire([limit("http", 1, 1)])
    own_server.start()
    assert await limiter.acquire([limit("http", 1, 1)]) is None
    own_server.stop()
    with pytest.raises(ExternalService):
        await limiter.acquire([limit("http", 2, 2)])
    await limiter.aclose()

    assert str(own_server.socket) in away.value.message
    assert "[plugin.redis] url" in str(away.value.hint)


async def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()

    path = Path(tempfile.mkdtemp(prefix="hp-redis-")) / "silent.sock"
    silent = await asyncio.start_unix_server(listen, path)
    limiter = RedisRateLimiter(RedisConfig(url=f"unix://{path}", timeout=0.1))

    with pytest.raises(ExternalService):
        await limiter.acquire([limit("http", 9, 9)])

    await limiter.aclose()
    silent.close()
    await silent.wait_closed()
    shutil.rmtree(path.parent)


async def test_a_server_that_throws_counts_away_is_refused_unless_that_is_accepted(
    own_server: Any,
) -> None:
    own_server.start("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
    strict = RedisRateLimiter(own_server.config)
    lax = RedisRateLimiter(RedisConfig(url=own_server.config.url, allow_eviction=True))

    with pytest.raises(ExternalService, match="allkeys-lru"):
        await strict.acquire([limit("http", 1, 1)])
    assert await lax.acquire([limit("http", 1, 1)]) is None
    await strict.aclose()
    await lax.aclose()


async def test_a_full_server_refuses_a_new_pair(own_server: Any) -> None:
    own_server.start("--maxmemory", "1", "--maxmemory-policy", "noeviction")
    limiter = RedisRateLimiter(own_server.config)

    with pytest.raises(ExternalService, match="memory"):
        await limiter.acquire([limit("http", 1, 1)])
    await limiter.aclose()


def test_messages_never_show_the_password() -> None:
    config = RedisConfig(url="rediss://user:hunter2@cache.example:6380/1")

    async def ask() -> None:
        await RedisRateLimiter(
            RedisConfig(url="redis://user:hunter2@127.0.0.1:1/1", timeout=0.2)
        ).acquire([limit("http", 1, 1)])

    with pytest.raises(ExternalService) as refused:
        asyncio.run(ask())

    assert config.place == "cache.example:6380"
    assert "hunter2" not in repr(config) + str(refused.value) + str(refused.value.hint)


@pytest.mark.parametrize("url", ["http://localhost", "localhost:6379", ""])
def test_an_address_of_something_else_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="redis://"):
        RedisConfig(url=url)
