import subprocess
import sys
import threading
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.errors import RateLimited
from hardpoint.interfaces.limits import LimitRequest
from hardpoint.limits import ToolRateLimitConfig
from hardpoint.policy.rate_limit import (
    MIGRATIONS,
    MemoryRateLimiter,
    RateLimiter,
    SqliteRateLimiter,
)
from hardpoint.store import Store


class Hand:
    """A clock that is moved by hand."""

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Hand()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def limiter(request, clock, tmp_path):
    if request.param == "memory":
        yield MemoryRateLimiter(RateLimiter(clock=clock))
        return
    there = request.param == "postgresql"
    store = Store(request.getfixturevalue("database") if there else tmp_path)
    yield SqliteRateLimiter(store.namespace("limits", MIGRATIONS), clock=clock)
    store.close()


def one(user, tool, minute, hour):
    return [LimitRequest(user, tool, ToolRateLimitConfig(minute, hour))]


def test_the_default_is_60_a_minute_and_1000_an_hour():
    assert ToolRateLimitConfig() == ToolRateLimitConfig(60, 1000)
    with pytest.raises(ValueError):
        ToolRateLimitConfig(0)


def test_a_call_within_the_limits_is_counted(clock):
    limiter = RateLimiter(clock=clock)

    for _ in range(3):
        assert limiter.check_and_increment("ana", "http", ToolRateLimitConfig(10, 100)) is None

    assert limiter.get_usage("ana", "http") == (3, 3)
    assert limiter.get_usage("ben", "http") is None
    clock.now = 60
    assert limiter.get_usage("ana", "http") == (0, 3)
    clock.now = 3600
    assert limiter.get_usage("ana", "http") is None


def test_check_counts_nothing(clock):
    limiter = RateLimiter(clock=clock)
    config = ToolRateLimitConfig(1, 10)

    assert limiter.check("ana", "http", config) is None
    assert limiter.check("ana", "http", config) is None
    limiter.check_and_record("ana", "http", config)

    assert limiter.check("ana", "http", config) == timedelta(seconds=60)
    assert limiter.get_usage("ana", "http") == (1, 1)


def test_cleared_pairs_start_anew(clock):
    limiter = RateLimiter(clock=clock)
    config = ToolRateLimitConfig(1, 10)
    for tool in ("http", "shell", "echo"):
        limiter.check_and_increment("ana", tool, config)

    limiter.clear("ana", "http")
    assert limiter.check_and_increment("ana", "http", config) is None
    assert limiter.check_and_increment("ana", "shell", config) is not None

    limiter.clear_all()
    assert limiter.check_and_increment("ana", "shell", config) is None


async def test_a_full_limit_says_when_one_call_fits_again(limiter, clock):
    for at in (0, 10, 20):
        clock.now = at
        assert await limiter.acquire(one("ana", "http", 3, 100)) is None

    clock.now = 59.999
    assert await limiter.acquire(one("ana", "http", 3, 100)) == timedelta(milliseconds=1)
    clock.now = 60
    assert await limiter.acquire(one("ana", "http", 3, 100)) is None
    assert await limiter.check(one("ana", "http", 3, 100)) == timedelta(seconds=10)


async def test_a_refused_call_counts_in_none_of_its_limits(limiter, clock):
    shared = LimitRequest("ana", "network tools", ToolRateLimitConfig(1, 10))
    own = LimitRequest("ana", "http", ToolRateLimitConfig(5, 50))
    assert await limiter.acquire([own, shared]) is None

    for _ in range(10):
        assert await limiter.acquire([own, shared]) == timedelta(seconds=60)

    for _ in range(4):
        assert await limiter.acquire([own]) is None
    assert await limiter.acquire([own]) is not None


async def test_several_limits_on_one_pair_count_a_call_once_and_the_strictest_holds(limiter, clock):
    both = one("ana", "http", 10, 100) + one("ana", "http", 3, 100)

    for _ in range(3):
        assert await limiter.acquire(both) is None

    assert await limiter.acquire(both) == timedelta(seconds=60)
    assert await limiter.acquire(one("ana", "http", 4, 100)) is None


async def test_a_clock_that_goes_back_lets_no_extra_call_through(limiter, clock):
    clock.now = 100_000.0
    for _ in range(3):
        assert await limiter.acquire(one("ana", "http", 3, 100)) is None

    for back in (99_999.5, 99_990.0, 10_000.0):
        clock.now = back
        assert await limiter.acquire(one("ana", "http", 3, 100)) is not None


async def test_a_stored_limit_recovers_after_the_clock_was_set_back(clock, tmp_path):
    limiter = SqliteRateLimiter(Store(tmp_path).namespace("limits", MIGRATIONS), clock=clock)
    clock.now = 1_000_000.0
    assert await limiter.acquire(one("ana", "http", 1, 100)) is None

    clock.now = 10_000.0
    assert await limiter.acquire(one("ana", "http", 1, 100)) == timedelta(seconds=60)
    clock.now = 10_060.0
    assert await limiter.acquire(one("ana", "http", 1, 100)) is None


@given(
    gaps=st.lists(st.integers(0, 40_000).map(lambda ms: ms / 1000), max_size=120),
    minute=st.integers(1, 6),
    hour=st.integers(1, 30),
)
def test_no_window_ever_holds_more_than_its_limit(gaps, minute, hour):
    clock = Hand()
    limiter = RateLimiter(clock=clock)
    counted = []
    for gap in gaps:
        clock.now += gap
        wait = limiter.check_and_increment("ana", "http", ToolRateLimitConfig(minute, hour))
        at = round(clock.now * 1000)
        fits = (
            sum(1 for t in counted if t > at - 60_000) < minute
            and sum(1 for t in counted if t > at - 3_600_000) < hour
        )
        assert (wait is None) == fits
        if wait is None:
            counted.append(at)
        else:
            later = at + round(wait.total_seconds() * 1000)
            assert sum(1 for t in counted if t > later - 60_000) < minute
            assert sum(1 for t in counted if t > later - 3_600_000) < hour


def test_idle_pairs_are_forgotten(clock):
    limiter = RateLimiter(clock=clock)
    for user in range(100):
        limiter.check_and_increment(f"user {user}", "http", ToolRateLimitConfig())

    clock.now = 1800
    limiter.check_and_increment("user 7", "http", ToolRateLimitConfig())
    clock.now = 3601
    limiter.check_and_increment("somebody new", "http", ToolRateLimitConfig())

    assert len(limiter) == 2


def test_a_new_pair_is_refused_while_every_place_is_in_use(clock):
    limiter = RateLimiter(clock=clock, max_keys=2)
    config = ToolRateLimitConfig(5, 50)
    limiter.check_and_increment("ana", "http", config)
    clock.now = 10
    limiter.check_and_increment("ben", "http", config)

    with pytest.raises(RateLimited, match="max_keys") as refused:
        limiter.check_and_increment("cyd", "http", config)
    assert refused.value.retry_after == timedelta(seconds=3590)
    with pytest.raises(RateLimited):
        limiter.acquire(one("cyd", "http", 5, 50))
    assert limiter.check_and_increment("ana", "http", config) is None

    clock.now = 3610
    assert limiter.check_and_increment("cyd", "http", config) is None


def test_threads_never_count_more_than_the_limit():
    limiter = RateLimiter(clock=Hand())
    allowed = []

    def hammer():
        for _ in range(500):
            if limiter.check_and_increment("ana", "http", ToolRateLimitConfig(300, 1000)) is None:
                allowed.append(1)

    threads = [threading.Thread(target=hammer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(allowed) == 300


HAMMER = """
import sys
from hardpoint.interfaces.limits import LimitRequest
from hardpoint.limits import ToolRateLimitConfig
from hardpoint.policy.rate_limit import MIGRATIONS, SqliteRateLimiter
from hardpoint.store import Store

limiter = SqliteRateLimiter(Store(sys.argv[1]).namespace("limits", MIGRATIONS), clock=lambda: 1000)
request = [LimitRequest("ana", "http", ToolRateLimitConfig(40, 100))]
print(sum(limiter.acquire_now(request) is None for _ in range(30)))
"""


def test_processes_that_share_a_store_never_count_more_than_the_limit(tmp_path):
    command = [sys.executable, "-c", HAMMER, str(tmp_path)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]

    counted = [int(worker.communicate(timeout=60)[0]) for worker in workers]

    assert sum(counted) == 40


def test_usage_of_a_stored_limit_lists_every_pair(clock, tmp_path):
    limiter = SqliteRateLimiter(Store(tmp_path).namespace("limits", MIGRATIONS), clock=clock)
    limiter.acquire_now(one("ana", "http", 5, 50))
    clock.now = 90
    limiter.acquire_now(one("ana", "http", 5, 50))
    limiter.acquire_now(one("ben", "shell", 5, 50))

    assert limiter.usage() == [("ana", "http", 1, 2), ("ben", "shell", 1, 1)]
    limiter.clear("ana", "http")
    assert limiter.usage() == [("ben", "shell", 1, 1)]
