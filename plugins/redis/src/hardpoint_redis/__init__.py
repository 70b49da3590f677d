"""Rate limits that many machines share, counted exactly in Redis."""

from hardpoint_redis.config import RedisConfig
from hardpoint_redis.limiter import RedisRateLimiter

__all__ = ["RedisConfig", "RedisRateLimiter"]
