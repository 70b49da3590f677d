"""What the tests share: fake servers as commands and over HTTP, and clients to be closed again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from hardpoint import JobContext
from hardpoint_mcp.client import McpClient

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes what belongs to the person who runs it."""
    monkeypatch.setenv("HARDPOINT_HOME", str(tmp_path / "hardpoint"))
    monkeypatch.setenv("HARDPOINT_LOAD_PLUGINS", "mcp")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    (tmp_path / "home").mkdir()


@pytest.fixture
def fake() -> Callable[..., list[str]]:
    """The command of a server that behaves as told."""

    def command(*behaviours: str) -> list[str]:
        return [sys.executable, "-I", "-S", str(HERE / "fake_server.py"), *behaviours]

    return command


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., Awaitable[McpClient]]]:
    """`McpClient.connect` with short times; everything is closed at the end."""
    clients: list[McpClient] = []

    async def make(server: Any, **options: Any) -> McpClient:
        options = {"startup_timeout": 20, "timeout": 10, **options}
        client = McpClient.of(server, name="fake", **options)
        clients.append(client)
        await client.__aenter__()
        return client

    yield make
    for client in clients:
        await client.aclose()


@pytest.fixture
def context() -> JobContext:
    return JobContext(user_id="ana", session_id="s1")


# HTTP ------------------------------------------------------------------------------------------


@attrs.define
class Reply:
    """What a fake HTTP server answers."""

    status: int = 200
    body: Any = b""
    """Bytes, a JSON value, or an async iterator of bytes."""
    headers: dict[str, str] = attrs.field(factory=dict)
    drop: bool = False
    """Close the connection without a word."""


@attrs.define
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = Callable[[Seen], Reply | Awaitable[Reply]]


class FakeHttp:
    """A server on loopback that answers as its function says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.answer: Answer = lambda request: Reply(404)
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, answer: Answer, port: int = 0) -> str:
        self.answer = answer
        self._server = await asyncio.start_server(self._client, "127.0.0.1", port)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/mcp"
        return self.url

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {
            name.lower(): value
            for name, _, value in (line.partition(": ") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Seen(method, path, headers, body)
        self.seen.append(request)
        answer = self.answer(request)
        reply = await answer if isinstance(answer, Awaitable) else answer
        if reply.drop:
            return
        await self._write(writer, reply)

    async def _write(self, writer: asyncio.StreamWriter, reply: Reply) -> None:
        body, headers = reply.body, dict(reply.headers)
        streamed = not isinstance(body, bytes) and hasattr(body, "__aiter__")
        if not streamed and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("content-type", "application/json")
        if not streamed:
            headers["content-length"] = str(len(body))
        lines = [f"HTTP/1.1 {reply.status} Status", "connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        if streamed:
            await writer.drain()
            async for piece in body:
                writer.write(piece)
                await writer.drain()
        else:
            writer.write(body)
            await writer.drain()


@pytest.fixture
async def http() -> AsyncIterator[FakeHttp]:
    server = FakeHttp()
    yield server
    await server.stop()


def event(message: Any, **fields: Any) -> bytes:
    """One server-sent event."""
    lines = [f"{name}: {value}" for name, value in fields.items()]
    data = message if isinstance(message, str) else json.dumps(message)
    return ("\n".join([*lines, f"data: {data}"]) + "\n\n").encode()


@pytest.fixture
def sse() -> Callable[..., Reply]:
    """A stream of events; an awaitable among them is awaited."""

    def make(*events: Any) -> Reply:
        async def stream() -> AsyncIterator[bytes]:
            for one in events:
                if isinstance(one, bytes):
                    yield one
                else:
                    await one

        return Reply(200, stream(), {"content-type": "text/event-stream"})

    return make


def old_server(request: Seen, **tools: Any) -> Reply:
    """A well-behaved server of the handshake era, with a session; a tool is a function."""
    if request.method == "DELETE":
        return Reply(200)
    if request.method != "POST":
        return Reply(405)
    message = request.json
    head = {"jsonrpc": "2.0", "id": message.get("id")}
    match message.get("method"):
        case "initialize":
            result: Any = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"},
            }
            return Reply(200, head | {"result": result}, {"mcp-session-id": "session-1"})
        case "tools/list":
            listed = [{"name": name, "inputSchema": {"type": "object"}} for name in tools]
            return Reply(200, head | {"result": {"tools": listed}})
        case "tools/call":
            made = tools[message["params"]["name"]](request, head)
            return made if isinstance(made, Reply) else Reply(200, head | {"result": made})
        case method if "id" not in message:
            assert method is None or method.startswith("notifications/") or "result" in message
            return Reply(202)
    return Reply(200, head | {"error": {"code": -32601, "message": "Method not found"}})


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


@pytest.fixture
def kit() -> Any:
    """The helpers of this file, for test modules."""

    class Kit:
        Reply = Reply
        Seen = Seen
        event = staticmethod(event)
        old_server = staticmethod(old_server)
        text = staticmethod(text)

    return Kit


# processes -------------------------------------------------------------------------------------


def processes_with(mark: str) -> list[int]:
    """The processes whose environment holds a mark: everything a marked server started."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                data = Path(f"/proc/{name}/environ").read_bytes()
                if mark.encode() in data and not _is_zombie(name):
                    found.append(int(name))
    return found


def _is_zombie(pid: str) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text("latin-1")
    return stat.rpartition(")")[2].split()[0] == "Z"


@pytest.fixture
def mark() -> Iterator[str]:
    """A text to put into a server's environment, so that all its processes can be found."""
    name = f"hardpoint-test-{os.urandom(6).hex()}"
    yield name
    for pid in processes_with(name):
        with contextlib.suppress(OSError):
            os.kill(pid, 9)


@pytest.fixture
def alive() -> Callable[[str], list[int]]:
    return processes_with


async def eventually(check: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait until something is true; what it was in the end."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (value := check()) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.02)
    return value


@pytest.fixture
def wait_until() -> Callable[..., Awaitable[Any]]:
    return eventually


# the gateway -----------------------------------------------------------------------------------


@attrs.define(eq=False)
class Front:
    """A gateway under test, and the way to connect to it."""

    runtime: Any
    gateway: Any
    ran: list[Any]
    """What the `pay` tool was called with."""

    def client(self, era: str = "modern", **options: Any) -> Any:
        """The SDK's client, speaking as an era does."""
        from mcp import Client

        mode = "auto" if era == "modern" else "legacy"
        return Client(self.gateway.server, mode=mode, cache=None, **options)


@pytest.fixture
async def front() -> AsyncIterator[Callable[..., Awaitable[Front]]]:
    """Make a gateway in front of a few tools and the given servers."""
    import hardpoint
    from hardpoint_mcp import plugin
    from hardpoint_mcp.gateway.run import make_gateway, make_runtime

    async with contextlib.AsyncExitStack() as stack:

        async def make(
            servers: dict[str, Any] | None = None,
            *,
            deny: Sequence[str] = (),
            serve: dict[str, Any] | None = None,
            **mcp: Any,
        ) -> Front:
            ran: list[Any] = []

            def pay(amount: int, to: str = "nobody") -> str:
                """Pay somebody."""
                ran.append((amount, to))
                return f"paid {amount} to {to}"

            def greet(name: str) -> dict[str, str]:
                """Greet somebody."""
                return {"greeting": f"Hello {name}."}

            async def count(to: int, context: JobContext) -> str:
                """Count."""
                for number in range(1, to + 1):
                    context.report(number, to, f"at {number}")
                    await asyncio.sleep(0)
                return f"counted to {to}"

            settings = {"servers": servers or {}, "serve": serve or {}, **mcp}
            config = hardpoint.structure(
                {
                    "plugin": {"mcp": settings},
                    "policy": {"rules": [{"decision": "deny", "spec": rule} for rule in deny]},
                },
                hardpoint.Config,
                "test",
            )
            runtime = make_runtime(
                config,
                plugins={"mcp": plugin},
                installed_plugins=False,
                in_memory=True,
                tools=[hardpoint.tool(pay, approval="unless_auto_approved"), greet, count],
            )
            await stack.enter_async_context(runtime)
            gateway = make_gateway(runtime)
            gateway.start()
            stack.callback(gateway.stop)
            return Front(runtime, gateway, ran)

        yield make


# other people's servers ------------------------------------------------------------------------


@pytest.fixture(scope="session")
def assets() -> Any:
    """What `assets` installs."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("hardpoint_mcp_test_assets", HERE / "assets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def a_free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture
def free_port() -> Callable[[], int]:
    return a_free_port


@pytest.fixture
def run_program() -> Iterator[Callable[..., int]]:
    """Start a program that listens on a port of this machine, and end it with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(command: Callable[[int], list[str]], **options: Any) -> int:
        port = a_free_port()
        process = subprocess.Popen(command(port), **options)
        started.append(process)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert process.poll() is None, "the program ended at once"
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    return port
            time.sleep(0.05)
        raise AssertionError("the program does not listen")

    yield run
    for process in started:
        process.terminate()
    for process in started:
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def write_config(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """A configuration file with the given `[mcp]` table, and nothing that asks or limits."""

    def write(mcp: dict[str, Any], **tables: Any) -> Path:
        from hardpoint import with_toml_value

        path = tmp_path / "config.toml"
        text = ""
        for table, values in _tables({"mcp": mcp, **tables}):
            for key, value in reversed(list(values.items())):
                text = with_toml_value(text, table, key, value)
        path.write_text(text, "utf-8")
        return path

    return write


def _tables(
    tree: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    plain = {key: value for key, value in tree.items() if not isinstance(value, dict)}
    if plain and path:
        yield path, plain
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _tables(value, (*path, key))


@pytest.fixture
def wait_for_line() -> Callable[[Any, bytes], bytes]:
    """Read a program's output until a line holds something."""

    def wait(stream: Any, wanted: bytes) -> bytes:
        for line in stream:
            if wanted in line:
                return bytes(line)
        raise AssertionError(f"it ended without saying {wanted!r}")

    return wait
