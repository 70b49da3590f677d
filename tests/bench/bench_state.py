"""What counting, recording and storing one call cost: `pytest tests/bench/bench_state.py`."""

import pytest

from hardpoint import RateLimiter
from hardpoint.audit import AuditLog
from hardpoint.interfaces.limits import LimitRequest
from hardpoint.limits import ToolRateLimitConfig
from hardpoint.output.leaks import LeakScanner
from hardpoint.policy.rate_limit import MIGRATIONS, SqliteRateLimiter
from hardpoint.store import Store

RECORD = {
    "call_id": "c1",
    "tool": "http",
    "user": "ana",
    "session": "s",
    "decision": "allow",
    "params": {"url": "https://example.com/a", "method": "GET"},
    "subjects": [{"kind": "url", "value": "https://example.com/a", "operation": "read"}],
    "effects": ["read"],
    "digest": "0" * 64,
}


@pytest.mark.parametrize("limit", [60, 10**9], ids=["refused", "counted"])
def test_rate_limit_in_memory(benchmark, limit):
    limiter, config = RateLimiter(), ToolRateLimitConfig(limit, 10**9)
    benchmark(limiter.check_and_increment, "ana", "http", config)


def test_rate_limit_with_a_hundred_thousand_pairs(benchmark):
    limiter, config = RateLimiter(max_keys=100_001), ToolRateLimitConfig(10**9, 10**9)
    for number in range(100_000):
        limiter.check_and_increment(f"user {number}", "http", config)
    benchmark(limiter.check_and_increment, "ana", "http", config)


def test_rate_limit_in_the_store(benchmark, tmp_path):
    limiter = SqliteRateLimiter(Store(tmp_path).namespace("limits", MIGRATIONS))
    request = [LimitRequest("ana", "http", ToolRateLimitConfig(10**9, 10**9))]
    benchmark(limiter.acquire_now, request)


@pytest.mark.parametrize("batch", [True, False], ids=["batched", "at once"])
def test_audit_record(benchmark, tmp_path, batch):
    log = AuditLog(tmp_path, scanner=LeakScanner())
    benchmark(log.write, "decided", RECORD, batch=batch)
    log.close()
