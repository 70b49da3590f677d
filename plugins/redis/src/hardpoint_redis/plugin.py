"""Hooks of hardpoint-redis. Nothing here loads the client."""

from __future__ import annotations

from typing import Any

from hardpoint import hookimpl
from hardpoint_redis.config import RedisConfig

HARDPOINT_API = 1


@hookimpl
def hardpoint_config_type() -> type:
    return RedisConfig


@hookimpl
def hardpoint_register_rate_limiters(registry: Any, config: RedisConfig) -> None:
    from hardpoint_redis.limiter import RedisRateLimiter

    registry.register("redis", RedisRateLimiter(config))


@hookimpl
def hardpoint_register_extensions(registry: Any, config: RedisConfig) -> None:
    from hardpoint_redis.check import RedisCheck

    registry.register("check", "redis", RedisCheck(config))
