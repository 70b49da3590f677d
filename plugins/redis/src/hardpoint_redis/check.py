"""The probe of `hardpoint doctor`: count on the real server, and see that the count bites."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from hardpoint import HardpointError, ToolRateLimitConfig
from hardpoint.interfaces import Check, CheckResult, LimitRequest
from hardpoint_redis.config import DEFAULT_URL, RedisConfig
from hardpoint_redis.limiter import RedisRateLimiter


class RedisCheck(Check):
    """Counts one call, and wants the second one refused."""

    def __init__(self, config: RedisConfig) -> None:
        self._config = config

    async def run(self) -> Sequence[CheckResult]:
        limiter = RedisRateLimiter(self._config)
        user = f"doctor-{secrets.token_hex(8)}"
        request = [LimitRequest(user, "probe", ToolRateLimitConfig(1, 1))]
        try:
            first, second = await limiter.acquire(request), await limiter.acquire(request)
            limiter.clear(user, "probe")
        except HardpointError as error:
            if self._config.url == DEFAULT_URL:
                return [CheckResult("redis", "skipped", "no server is configured")]
            return [CheckResult("redis", "failed", error.message, error.hint)]
        finally:
            await limiter.aclose()
        if first is not None or second is None:
            return [CheckResult("redis", "failed", f"{self._config.place} does not count rightly")]
        return [CheckResult("redis", "ok", f"{self._config.place} counts")]
