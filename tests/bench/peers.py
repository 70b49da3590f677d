"""One trivial async tool, called through Hardpoint with everything on, and through its peers.

Run with the `bench` group installed: `nox -s bench`. Each peer does what its own public entry point
for "run this tool call" does, and no more; the column "leaves out" says what that is not.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Call = Callable[[], Awaitable[Any]]

EVERYTHING = "hardpoint, everything on"
PLAIN = "hardpoint, nothing configured"
ROUNDS = 15
CALLS = 200


async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


async def measure(calls: dict[str, Call]) -> dict[str, float]:
    """Microseconds of processor time a call, by the best of several rounds; they take turns.

    Everything runs in this process and waits for nothing, so other programs do not count.
    """
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        for _ in range(20):
            await call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            began = time.process_time()
            for _ in range(CALLS):
                await call()
            best[name] = min(best[name], (time.process_time() - began) / CALLS * 1e6)
    return best


async def guarded_call() -> dict[str, float]:
    """The figures of the guarded call and of the peers that are installed."""
    import hardpoint
    from hardpoint.config import AuditConfig, Config, PolicyConfig, RuleEntry

    calls: dict[str, Call] = {}
    with tempfile.TemporaryDirectory() as folder:
        config = Config(
            audit=AuditConfig(path=Path(folder)),
            policy=PolicyConfig(rules=(RuleEntry("deny", "add(a:13)"), RuleEntry("allow", "add"))),
        )
        limited = hardpoint.tool(
            add,
            name="add",
            rate_limit=hardpoint.ToolRateLimitConfig(10**9, 10**9),
            effects=["read"],
        )
        context = hardpoint.JobContext(user_id="ana")
        plain = hardpoint.tool(add, name="add", effects=["read"])
        async with (
            hardpoint.Runtime(config, tools=[limited]) as rt,
            hardpoint.Runtime(tools=[plain]) as bare,
        ):
            calls[EVERYTHING] = lambda: rt.call("add", {"a": 1, "b": 2}, context)
            calls[PLAIN] = lambda: bare.call("add", {"a": 1, "b": 2}, context)
            for name, make in PEERS.items():
                try:
                    calls[name] = await make()
                except ImportError:
                    continue
            return await measure(calls)


async def openai_agents() -> Call:
    from agents import RunContextWrapper, function_tool
    from agents.tool_context import ToolContext

    tool = function_tool(add)
    text = json.dumps({"a": 1, "b": 2})
    context = ToolContext.from_agent_context(
        RunContextWrapper(None), "call_1", tool_name="add", tool_arguments=text
    )
    return lambda: tool.on_invoke_tool(context, text)


async def pydantic_ai() -> Call:
    from pydantic_ai import FunctionToolset, RunContext
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import RunUsage

    toolset: Any = FunctionToolset([add])
    context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    tool = (await toolset.get_tools(context))["add"]

    async def call() -> Any:
        arguments = tool.args_validator.validate_python({"a": 1, "b": 2})
        return await toolset.call_tool("add", arguments, context, tool)

    return call


async def langchain() -> Call:
    from langchain_core.tools import tool

    made: Any = tool(add)
    return lambda: made.ainvoke({"a": 1, "b": 2})


async def fastmcp() -> Call:
    from fastmcp import Client, FastMCP

    server: Any = FastMCP("bench")
    server.tool(add)
    client: Any = Client(server)
    await client.__aenter__()
    return lambda: client.call_tool("add", {"a": 1, "b": 2})


PEERS: dict[str, Callable[[], Awaitable[Call]]] = {
    "openai-agents on_invoke_tool": openai_agents,
    "pydantic-ai FunctionToolset.call_tool": pydantic_ai,
    "langchain ainvoke": langchain,
    "fastmcp in-memory client": fastmcp,
}

LEAVES_OUT = {
    EVERYTHING: "nothing: validation, rules, limit, leak scan, audit, time-out",
    PLAIN: "rules, limit and audit, which nobody asked for",
    "openai-agents on_invoke_tool": "rules, limits, leak scan, audit, time-out",
    "pydantic-ai FunctionToolset.call_tool": "rules, limits, leak scan, audit, time-out",
    "langchain ainvoke": "rules, limits, leak scan, audit, time-out",
    "fastmcp in-memory client": "rules, limits, leak scan, audit; speaks MCP",
}

if __name__ == "__main__":
    for name, figure in asyncio.run(guarded_call()).items():
        print(f"{name:45} {figure:9.1f} us")
