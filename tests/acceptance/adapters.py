"""One function per case file: hands a case to the product's code and turns its answer into text.

An adapter only translates. It never looks at `id`, `kind` or `why`, and decides nothing itself.
"""

from __future__ import annotations

from typing import Any


def rate_limit(case: dict[str, Any]) -> list[str | float]:
    """`"allowed"` or the wait in seconds per event."""
    from hardpoint.limits import ToolRateLimitConfig
    from hardpoint.policy.rate_limit import RateLimiter

    now = 0.0
    limiter = RateLimiter(clock=lambda: now)
    config = ToolRateLimitConfig(**case["config"])
    answers: list[str | float] = []
    for event in case["events"]:
        now = event["t"]
        wait = limiter.check_and_increment(event["user"], event["tool"], config)
        answers.append("allowed" if wait is None else wait.total_seconds())
    return answers
