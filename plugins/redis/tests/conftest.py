"""A Redis server of our own, on a socket in a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from hardpoint_redis import RedisConfig


@attrs.define
class Server:
    """A running redis-server."""

    socket: Path
    process: subprocess.Popen[str] | None = None

    @property
    def config(self) -> RedisConfig:
        return RedisConfig(url=f"unix://{self.socket}", timeout=5.0)

    def start(self, *options: str) -> None:
        program = shutil.which("redis-server")
        assert program is not None
        self.process = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", str(self.socket), "--save", "",
             "--appendonly", "no", "--dir", str(self.socket.parent), *options],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "ready to accept connections at" in line:
                return
        raise AssertionError("redis-server did not start")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def command(self, *words: str | int) -> object:
        import redis

        with redis.Redis(unix_socket_path=str(self.socket), decode_responses=True) as client:
            return client.execute_command(*words)


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    # Not pytest's folder: the path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="hp-redis-"))
    server = Server(folder / "redis.sock")
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def server(shared_server: Server) -> Server:
    """An empty server that is running."""
    shared_server.command("FLUSHALL")
    return shared_server


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server for a test that stops it."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    folder = Path(tempfile.mkdtemp(prefix="hp-redis-"))
    server = Server(folder / "redis.sock")
    yield server
    server.stop()
    shutil.rmtree(folder)
