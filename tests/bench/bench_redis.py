"""Our script against the `limits` library, on a real server: `python -m tests.bench.bench_redis`.

Needs `redis-server` and `pip install limits`. Both count 20 at once against one server.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from hardpoint import ToolRateLimitConfig
from hardpoint.interfaces import LimitRequest
from hardpoint_redis import RedisConfig, RedisRateLimiter

CALLS, AT_ONCE = 5000, 20
Hit = Callable[[], Awaitable[bool]]


async def measure(name: str, socket: str, hit: Hit) -> None:
    """Time of a call as the caller sees it, and what of it the server works."""
    import redis

    server = redis.Redis(unix_socket_path=socket)
    await hit()
    server.config_resetstat()
    begun = time.perf_counter()
    for _ in range(CALLS // AT_ONCE):
        await asyncio.gather(*(hit() for _ in range(AT_ONCE)))
    took = (time.perf_counter() - begun) / CALLS * 1e6
    commands = server.info("commandstats")
    works = sum(commands[f"cmdstat_{name}"]["usec"] for name in ("evalsha",)) / CALLS
    print(f"{name:36} {took:6.0f} µs a call, {works:5.1f} µs of it on the server")
    server.close()


async def speed(socket: str, many: int) -> None:
    from limits import RateLimitItemPerHour, RateLimitItemPerMinute
    from limits.aio.storage import RedisStorage
    from limits.aio.strategies import MovingWindowRateLimiter

    ours = RedisRateLimiter(RedisConfig(url=f"unix://{socket}"))
    request = [LimitRequest("ana", f"x{many}", ToolRateLimitConfig(many, many))]
    storage = RedisStorage(f"async+redis+unix://{socket}", implementation="redispy")
    theirs = MovingWindowRateLimiter(storage)
    minute, hour = RateLimitItemPerMinute(many), RateLimitItemPerHour(many)

    async def one() -> bool:
        return await ours.acquire(request) is None

    async def two() -> bool:
        return await theirs.hit(minute, "ana", "y") and await theirs.hit(hour, "ana", "y")

    await measure(f"ours, both windows, limit {many}", socket, one)
    await measure(f"limits, both windows, limit {many}", socket, two)
    await ours.aclose()


async def exactness(socket: str) -> None:
    """Refused by the hour, has the minute been counted all the same?"""
    from limits import RateLimitItemPerHour, RateLimitItemPerMinute
    from limits.aio.storage import RedisStorage
    from limits.aio.strategies import MovingWindowRateLimiter

    theirs = MovingWindowRateLimiter(
        RedisStorage(f"async+redis+unix://{socket}", implementation="redispy")
    )
    minute, hour = RateLimitItemPerMinute(10), RateLimitItemPerHour(1)
    for _ in range(3):
        if await theirs.hit(minute, "ben", "z"):
            await theirs.hit(hour, "ben", "z")
    left = (await theirs.get_window_stats(minute, "ben", "z")).remaining
    print(f"limits: 3 calls, 1 of them passed, {10 - left} counted in the minute")

    ours = RedisRateLimiter(RedisConfig(url=f"unix://{socket}"))
    for _ in range(3):
        await ours.acquire([LimitRequest("ben", "z", ToolRateLimitConfig(10, 1))])
    print(f"ours:   3 calls, 1 of them passed, {ours.usage()[-1][2]} counted in the minute")
    await ours.aclose()


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="hp-redis-"))
    socket = folder / "redis.sock"
    program = shutil.which("redis-server") or sys.exit("redis-server is not installed")
    server = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", str(socket), "--save", ""],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    next(line for line in server.stdout if "ready to accept" in line)
    try:
        for many in (1000, 10**6):
            asyncio.run(speed(str(socket), many))
        asyncio.run(exactness(str(socket)))
    finally:
        server.kill()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
