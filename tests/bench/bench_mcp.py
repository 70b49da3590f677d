"""A call through MCP, direct, through us and through others: `python -m tests.bench.bench_mcp`.

One run measures every path, the paths take turns, and of each the best round counts, so that other
programs on the machine disturb little. Every path ends at the same server, an SDK program with one
`echo`, over stdio and over HTTP. FastMCP's proxy takes part where `fastmcp` is installed.

The file is also the programs that take part: `bench_mcp.py ROLE …`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Call = Callable[[], Awaitable[Any]]

ROUNDS, CALLS = 12, 60
SERVERS, TOOLS = 50, 20
TEXT = "hello"

DIRECT = "SDK client, direct"
CALL = "rt.call"
BARE = "SDK client, bare forwarder"
SERVE = "SDK client, hardpoint serve"
LIMITED = "… with rate limits in SQLite"
FASTMCP = "SDK client, FastMCP proxy"


# the programs ----------------------------------------------------------------------------------


def role(name: str, *arguments: str) -> list[str]:
    return [sys.executable, __file__, name, *arguments]


def upstream(port: str = "") -> None:
    """The server at the end."""
    import mcp.types as types
    from mcp.server.lowlevel import Server

    async def list_tools(ctx: Any, params: Any) -> Any:
        schema = {"type": "object", "properties": {"message": {"type": "string"}}}
        return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema=schema)])

    async def call_tool(ctx: Any, params: Any) -> Any:
        text = types.TextContent(type="text", text=params.arguments["message"])
        return types.CallToolResult(content=[text])

    run(Server("upstream", on_list_tools=list_tools, on_call_tool=call_tool), port)


def forwarder(target: str, port: str = "") -> None:
    """The least that can stand between: the SDK on both sides, and nothing done on the way."""
    from mcp.server.lowlevel import Server

    async def main() -> None:
        async with client_of(target) as client:

            async def list_tools(ctx: Any, params: Any) -> Any:
                return await client.list_tools()

            async def call_tool(ctx: Any, params: Any) -> Any:
                return await client.call_tool(params.name, params.arguments)

            server = Server("forwarder", on_list_tools=list_tools, on_call_tool=call_tool)
            await arun(server, port)

    asyncio.run(main())


def fastmcp(target: str, port: str = "") -> None:
    """FastMCP's proxy with a client that stays connected, which is its quickest form."""
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport
    from fastmcp.server import create_proxy

    async def main() -> None:
        transport = target
        if not target.startswith("http"):
            transport = StdioTransport(sys.executable, role("upstream")[1:])
        async with Client(transport) as client:
            proxy = create_proxy(client)
            if port:
                await proxy.run_async(
                    "http", show_banner=False, port=int(port), log_level="warning"
                )
            else:
                await proxy.run_async("stdio", show_banner=False, log_level="warning")

    asyncio.run(main())


def run(server: Any, port: str) -> None:
    asyncio.run(arun(server, port))


async def arun(server: Any, port: str) -> None:
    if port:
        import uvicorn

        app = server.streamable_http_app()
        config = uvicorn.Config(app, port=int(port), log_level="warning", access_log=False)
        await uvicorn.Server(config).serve()
        return
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def tiny(number: str, count: str) -> None:
    """One of many servers, which starts at once because it uses no library."""
    properties = {name: {"type": "string", "description": f"The {name}."} for name in "abcde"}
    tools = [
        {
            "name": f"tool_{at}",
            "description": f"Does thing {at} of server {number} as well as can be expected.",
            "inputSchema": {"type": "object", "properties": properties, "required": ["a"]},
        }
        for at in range(int(count))
    ]
    for line in sys.stdin:
        message = json.loads(line)
        answer = {"jsonrpc": "2.0", "id": message.get("id")}
        match message.get("method"):
            case "initialize":
                answer["result"] = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "tiny", "version": "1"},
                }
            case "tools/list":
                answer["result"] = {"tools": tools}
            case _:
                answer["error"] = {"code": -32601, "message": "Method not found"}
        if "id" in message:
            print(json.dumps(answer), flush=True)


# the paths -------------------------------------------------------------------------------------


def client_of(target: str | list[str]) -> Any:
    """The SDK's client of an address or a command; `upstream` stands for its command."""
    from mcp import Client, StdioServerParameters

    if target == "upstream":
        target = role("upstream")
    if isinstance(target, str):
        return Client(target, cache=None)
    command, *arguments = target
    environment = dict(os.environ)
    return Client(
        StdioServerParameters(command=command, args=arguments, env=environment), cache=None
    )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def config_of(folder: Path, servers: dict[str, Any], *, limited: bool = False, **mcp: Any) -> Path:
    """A configuration as a user has it, with a rule and audit records; nothing switched off.

    Args:
        limited: Calls are counted, across processes, against limits that are never reached.
    """
    tables: dict[str, dict[str, Any]] = {"policy": {"allow": ["s__*"]}}
    tables |= {f"mcp.{name}": values for name, values in mcp.items()}
    for name, settings in servers.items():
        tables[f"mcp.servers.{name}"] = settings
        if limited:
            limits = {"requests_per_minute": 10**6, "requests_per_hour": 10**6}
            tables[f"mcp.servers.{name}.rate_limit"] = limits
    lines = []
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    path = folder / f"{'limited' if limited else 'config'}.toml"
    path.write_text("\n".join(lines), "utf-8")
    return path


def serve(config: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "hardpoint", "--config", str(config), "serve", *options]


class Paths(contextlib.AsyncExitStack):
    """Opens paths; closes all of them at the end."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def program(self, command: list[str], port: int) -> str:
        """Start a program that listens; its address."""
        process = subprocess.Popen(command)
        self.callback(process.wait, 20)
        self.callback(process.terminate)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    return f"http://127.0.0.1:{port}/mcp"
            time.sleep(0.05)
        raise RuntimeError(f"it does not listen: {command}")

    async def client(self, target: str | list[str]) -> Call:
        client = await self.enter_async_context(client_of(target))
        names = {tool.name for tool in (await client.list_tools()).tools}
        name = "s__echo" if "s__echo" in names else "echo"

        async def call() -> None:
            result = await client.call_tool(name, {"message": TEXT})
            assert result.content[0].text == TEXT, result

        return call

    async def runtime(self, config: Path) -> Call:
        from hardpoint import JobContext, Runtime

        runtime = await self.enter_async_context(Runtime.from_config(config))
        context = JobContext(user_id="bench", session_id="bench")

        async def call() -> None:
            output = await runtime.call("s__echo", {"message": TEXT}, context)
            assert output.result == TEXT, output

        return call


def has_fastmcp() -> bool:
    from importlib.util import find_spec

    return find_spec("fastmcp") is not None


async def over_stdio(paths: Paths) -> dict[str, Call]:
    command, *arguments = role("upstream")
    servers = {"s": {"command": command, "args": arguments}}
    config, limited = (config_of(paths.folder, servers, limited=some) for some in (False, True))
    calls = {
        DIRECT: await paths.client("upstream"),
        CALL: await paths.runtime(config),
        BARE: await paths.client(role("forwarder", "upstream")),
        SERVE: await paths.client(serve(config)),
        LIMITED: await paths.client(serve(limited)),
    }
    if has_fastmcp():
        calls[FASTMCP] = await paths.client(role("fastmcp", "upstream"))
    return calls


async def over_http(paths: Paths) -> dict[str, Call]:
    def start(*words: str) -> str:
        port = free_port()
        return paths.program(role(*words, str(port)), port)

    target = start("upstream")
    config = config_of(paths.folder, {"s": {"url": target}})
    port = free_port()
    calls = {
        DIRECT: await paths.client(target),
        CALL: await paths.runtime(config),
        BARE: await paths.client(start("forwarder", target)),
        SERVE: await paths.client(
            paths.program(serve(config, "--http", f"127.0.0.1:{port}"), port)
        ),
    }
    if has_fastmcp():
        calls[FASTMCP] = await paths.client(start("fastmcp", target))
    return calls


async def measure(calls: dict[str, Call]) -> dict[str, float]:
    """Milliseconds of a call: the median of the best round."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        for _ in range(20):
            await call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times = []
            for _ in range(CALLS):
                began = time.perf_counter()
                await call()
                times.append(time.perf_counter() - began)
            best[name] = min(best[name], statistics.median(times) * 1e3)
    return best


# many servers ----------------------------------------------------------------------------------


async def many(folder: Path) -> dict[str, float]:
    """Milliseconds to start with many servers and to list their tools: unknown, remembered."""
    from hardpoint import Runtime

    servers = {
        f"s{number}": {
            "command": sys.executable,
            "args": ["-I", "-S", __file__, "tiny", str(number), str(TOOLS)],
        }
        for number in range(SERVERS)
    }
    config = config_of(folder, servers, serve={"search": False})
    figures: dict[str, float] = {}

    def took(name: str, began: float) -> None:
        figures[name] = (time.perf_counter() - began) * 1e3

    for name in ("first start: every server is met", "later starts: none is"):
        began = time.perf_counter()
        async with Runtime.from_config(config) as runtime:
            while len(tools := runtime.definitions("mcp")) < SERVERS * TOOLS:
                await asyncio.sleep(0.05)
            took(name, began)
            began = time.perf_counter()
            tools = runtime.definitions("mcp")
            took("rt.definitions", began)
            assert len(tools) >= SERVERS * TOOLS, len(tools)
    began = time.perf_counter()
    async with client_of(serve(config)) as client:
        took("hardpoint serve, until it answers", began)
        for name in ("tools/list, first time", "tools/list, again"):
            began = time.perf_counter()
            listed, cursor = 0, None
            while True:
                page = await client.list_tools(cursor=cursor)
                listed += len(page.tools)
                cursor = page.next_cursor
                if cursor is None:
                    break
            took(name, began)
    figures["tools listed by serve"] = listed
    return figures


# all -------------------------------------------------------------------------------------------


def own_home(folder: Path) -> None:
    """Settings and state of the person who runs this play no part."""
    os.environ["HARDPOINT_HOME"] = str(folder / "home")
    os.environ["HARDPOINT_LOAD_PLUGINS"] = "mcp"


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for transport, make in (("stdio", over_stdio), ("HTTP", over_http)):
            folder = Path(name, transport)
            folder.mkdir()
            own_home(folder)
            async with Paths(folder) as paths:
                figures = await measure(await make(paths))
            print(f"\n{transport}:")
            for path, figure in figures.items():
                over = DIRECT if path in (DIRECT, CALL) else BARE
                print(f"  {path:34} {figure:7.2f} ms  {figure / figures[over]:5.2f} x {over}")
        folder = Path(name, "many")
        folder.mkdir()
        own_home(folder)
        print(f"\n{SERVERS} servers, {SERVERS * TOOLS} tools:")
        for what, figure in (await many(folder)).items():
            print(f"  {what:34} {figure:9.1f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        globals()[sys.argv[1]](*sys.argv[2:])
    else:
        asyncio.run(main())
