"""A real HTTPS server on the loopback interface, and a call context that may reach it."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest
import trustme

from hardpoint import Config, JobContext, Runtime
from hardpoint.config import PolicyConfig, StoreConfig
from hardpoint.interfaces import CallHandle
from hardpoint.net import PinnedClient, UrlGuard

HOST = "api.example.com"


@attrs.frozen
class Received:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    sni: str | None
    connection: int
    """Counts connections, from 1."""


Reply = tuple[int, Sequence[tuple[str, str]], bytes]
"""Status, headers, body."""
Handler = Callable[[Received, asyncio.StreamWriter], Awaitable[Reply | None]]
"""Writes the answer itself, or returns it."""


@attrs.define
class Server:
    """Answers requests by their path; `received` holds them all."""

    port: int = 0
    routes: dict[str, Handler | Reply] = attrs.field(factory=dict)
    received: list[Received] = attrs.field(factory=list)
    connections: int = 0
    sni: str | None = None

    def url(self, path: str = "/", host: str = HOST, scheme: str = "https") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number, sni = self.connections, self.sni
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").split("\r\n")[:-2]
                method, target, _ = first.split(" ")
                headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Received(method, target, headers, body, sni, number)
                self.received.append(request)
                path = target.partition("?")[0]
                route = self.routes.get(path, (404, (), b""))
                reply = await route(request, writer) if callable(route) else route
                if reply is not None:
                    writer.write(as_bytes(reply))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass  # the client went away, which many tests are about
        finally:
            writer.close()


def as_bytes(reply: Reply) -> bytes:
    status, headers, body = reply
    lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Loopback:
    """Finds every name at home."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]


class FakeServices:
    """What a tool is given in a call, as far as these tools use it."""

    def __init__(self, client: PinnedClient) -> None:
        self._client = client
        self.secrets = {"key": "synthetic-value/1"}
        self.saved: dict[str, bytes] = {}
        self.results = self

    def http(self, bindings: Sequence[Any] = ()) -> PinnedClient:
        async def reveal(name: str) -> str | None:
            return self.secrets.get(name)

        return self._client.bound(bindings, reveal)

    async def save(self, data: bytes, *, name: str, media_type: str, context: JobContext) -> str:
        self.saved[name] = data
        return f"ref-{name}"

    async def read(self, ref: str, *, max_bytes: int, user: str) -> dict[str, Any]:
        return {"size": len(self.saved[ref.removeprefix("ref-")])}


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
async def serve(authority: trustme.CA) -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """Start servers; `names` stand in the certificate, `tls=False` speaks plain http."""
    async with AsyncExitStack() as stack:

        async def start(
            routes: dict[str, Handler | Reply] | None = None,
            *,
            names: Sequence[str] = ("api.example.com", "*.example.com", "other.example.net"),
            address: str = "127.0.0.1",
            port: int = 0,
            tls: bool = True,
        ) -> Server:
            server = Server(routes=routes or {})
            context = None
            if tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                authority.issue_cert(*names).configure_cert(context)

                def note(_: Any, name: str | None, __: Any) -> None:
                    server.sni = name

                context.sni_callback = note
            listening = await asyncio.start_server(server.serve, address, port, ssl=context)
            server.port = listening.sockets[0].getsockname()[1]
            stack.callback(listening.close)
            return server

        yield start


@pytest.fixture
async def services(trusting: ssl.SSLContext) -> AsyncIterator[FakeServices]:
    guard = UrlGuard(allow_private=["127.0.0.0/8"])
    async with PinnedClient(guard=guard, resolver=Loopback(), verify=trusting) as client:
        yield FakeServices(client)


@pytest.fixture
def context(services: FakeServices) -> JobContext:
    return JobContext(user_id="ana").bound(CallHandle("call-1", services))  # type: ignore[arg-type]


# where state is kept ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a server that listens on a socket in its own folder only."""
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg")
    initdb, pg_ctl = shutil.which("initdb"), shutil.which("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("PostgreSQL's server programs are not installed")
    # The server refuses to run as root, and a socket's path must be short.
    as_user = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if as_user:
        shutil.chown(folder, **as_user)
    data = str(folder / "data")
    options: dict[str, Any] = {**as_user, "cwd": folder, "capture_output": True, "timeout": 60}
    subprocess.run([initdb, "-D", data, "-U", "tests", "-A", "trust", "-N"], check=True, **options)
    settings = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    # Its standard streams would keep ours open.
    start = [pg_ctl, "-D", data, "-w", "-l", str(folder / "log"), "-o", settings, "start"]
    subprocess.run(start, check=True, **options)
    yield f"postgresql+psycopg://tests@/postgres?host={folder}"
    subprocess.run([pg_ctl, "-D", data, "-w", "-m", "immediate", "stop"], check=True, **options)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store of each kind, empty: a folder, or a database."""
    if request.param == "sqlite":
        yield str(tmp_path / "state")
        return
    url: str = request.getfixturevalue("postgresql")
    yield url
    import sqlalchemy

    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    engine.dispose()


@pytest.fixture
def runtime_at(place: str) -> Callable[..., Runtime]:
    """Make runtimes of this plugin that share one store."""

    def make(**options: Any) -> Runtime:
        where: dict[str, Any] = {"url": place} if "://" in place else {"path": Path(place)}
        config = Config(
            store=StoreConfig(**where),
            plugin={"builtin": options.pop("settings", {})},
            policy=options.pop("policy", PolicyConfig()),
            load_only=frozenset({"builtin", *options.get("plugins", {})}),
        )
        return Runtime(config, installed_plugins=True, **options)

    return make
