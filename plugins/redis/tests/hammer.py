"""One process of many: guarded calls as fast as they go; prints how many ran and were limited."""

from __future__ import annotations

import asyncio
import sys

import hardpoint
from hardpoint.testing import make_context, make_runtime
from hardpoint_redis import plugin

ran = 0


async def main(socket: str, calls: int, limit: int) -> None:
    @hardpoint.tool(rate_limit=hardpoint.ToolRateLimitConfig(limit, limit))
    async def hit() -> str:
        """Be called."""
        global ran
        ran += 1
        return "hit"

    settings = {
        "plugin": {"redis": {"url": f"unix://{socket}", "timeout": 60.0}},
        "limits": {"backend": "redis"},
    }
    limited = 0
    async with make_runtime(tools=[hit], plugins={"redis": plugin}, settings=settings) as rt:
        context = make_context("everybody")
        for _ in range(calls // 20):
            outcomes = await asyncio.gather(*(rt.run("hit", {}, context) for _ in range(20)))
            limited += sum(isinstance(o.error, hardpoint.RateLimited) for o in outcomes)
    print(ran, limited)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
