"""Ten thousand tools: registering, listing, searching, remembering. And single checks."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

from hardpoint import JobContext, RateLimiter, Tool, ToolOutput, ToolRateLimitConfig, ToolRegistry

TOOLS = 10_000


class Lookup(Tool):
    """A tool as a server with many of them might have."""

    description = "Look up an entry of a table by its key, newest first."

    def __init__(self, number: int) -> None:
        self.name = f"lookup_{number}"

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "key": {"type": "string", "description": "The key."},
                "limit": {"type": "integer", "description": "How many entries at most."},
            },
            "required": ["key"],
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        return ToolOutput.text(self.name)


def registry_of_many() -> ToolRegistry:
    registry = ToolRegistry()
    for number in range(TOOLS):
        registry.register(Lookup(number))
    return registry


def best_of(work: Any, rounds: int = 5) -> float:
    """Seconds of processor time, the least of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def many_tools() -> dict[str, float]:
    """Seconds, and bytes for each tool."""
    registry_of_many()  # whatever is imported at the first registration
    figures = {"register": best_of(registry_of_many, rounds=3)}
    registry = registry_of_many()
    figures["first listing"] = best_of(registry.schemas, rounds=1)
    figures["listing"] = best_of(registry.schemas)
    registry.search("lookup")
    figures["search"] = best_of(lambda: registry.search("look up entry 4711 by key"))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    kept = registry_of_many()
    kept.schemas()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    figures["bytes a tool"] = (after - before) / len(kept)
    return figures


def limiter() -> float:
    """Seconds for one check that counts."""
    counted = RateLimiter()
    config = ToolRateLimitConfig(10**9, 10**9)
    checks = range(20_000)

    def work() -> None:
        check = counted.check_and_increment
        for _ in checks:
            check("ana", "http", config)

    return best_of(work) / len(checks)


def leak_scan() -> float:
    """Bytes a second on text without findings."""
    from hardpoint.output.leaks import LeakScanner

    text = (b"2030-05-01 12:00:00,123 INFO app: GET /index.html 200 12ms user=ana\n") * 60_000
    scanner = LeakScanner()
    assert scanner.scan(text) == ()
    return len(text) / best_of(lambda: scanner.scan(text))


if __name__ == "__main__":
    for name, figure in many_tools().items():
        print(f"{name:20} {figure:12.6f}")
    print(f"limiter              {limiter() * 1e6:12.3f} us")
    print(f"leak scan            {leak_scan() / 1e6:12.0f} MB/s")
