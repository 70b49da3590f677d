"""A server as a process: lines of JSON on its stdin and stdout. Not what the lines mean."""

from __future__ import annotations

import asyncio
import collections
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardpoint_mcp.wire.channel import DEFAULT_MAX_MESSAGE, Message
from hardpoint_mcp.wire.duplex import DuplexChannel
from hardpoint_mcp.wire.errors import BadAnswer, ConnectionLost, plain

logger = logging.getLogger(__name__)

_KEEPER = Path(__file__).with_name("keeper.py")
_ID = re.compile(rb'"id"\s*:\s*"?(\d{1,15})')
_STDERR_KEPT = 16 * 1024


class StdioChannel(DuplexChannel):
    """One server process under a keeper, see `keeper`."""

    def __init__(
        self,
        command: list[str],
        env: Mapping[str, str],
        cwd: str | None = None,
        *,
        grace: float = 2.0,
        max_message: int = DEFAULT_MAX_MESSAGE,
        log: Path | None = None,
    ) -> None:
        super().__init__()
        self._command = command
        self._env = dict(env)
        self._cwd = cwd
        self._grace = grace
        self._lines = _Lines(self, max_message)
        self._stderr = _Tail(log)
        self._flow = _Flow()
        self._process: subprocess.Popen[bytes] | None = None
        self._life: int | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._burying = False

    @property
    def pid(self) -> int | None:
        """The keeper's process id."""
        return self._process.pid if self._process else None

    @property
    def last_words(self) -> str:
        return self._stderr.text()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        life_read, life_write = os.pipe()
        keeper = [sys.executable, "-I", "-S", str(_KEEPER), str(life_read), str(self._grace)]
        try:
            # Blocks as long as a fork takes; the loop's own way costs a thread for each process.
            self._process = process = subprocess.Popen(  # noqa: ASYNC220
                keeper + self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                cwd=self._cwd,
                pass_fds=(life_read,),
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            os.close(life_write)
            what = f"cannot start {self._command[0]!r}: {getattr(error, 'strerror', None) or error}"
            raise ConnectionLost(what, sent=False) from error
        finally:
            os.close(life_read)
        self._life = life_write
        try:
            for pipe, reader in ((process.stdout, self._lines), (process.stderr, self._stderr)):
                transport, _ = await loop.connect_read_pipe(_always(reader), pipe)
                self._transports.append(transport)
            self._writer, _ = await loop.connect_write_pipe(_always(self._flow), process.stdin)
            self._transports.append(self._writer)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        self._end_tasks()
        for transport in self._transports:
            transport.close()
        life, self._life = self._life, None
        if life is not None:
            os.close(life)
        try:
            # The keeper ends within two graces.
            if await self._exit_code(3 * self._grace + 2) is None and self._process is not None:
                logger.warning("the keeper %s did not end in time", self._process.pid)
                self._process.kill()
                await self._exit_code(1)
        finally:
            self._stderr.close()
            if self._writer is not None and self._writer.get_write_buffer_size():
                self._writer.abort()  # nobody reads it any more
            # Transports close their pipes in the loop's next round, which may be its last.
            await asyncio.sleep(0)

    async def _send(self, message: Message) -> None:
        if self._gone is not None or self._writer is None:
            raise ConnectionLost(self._gone or "the server was not started", sent=False)
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._flow.drained()

    # what the streams tell ---------------------------------------------------------------------

    def ended(self) -> None:
        """The server's stdout reached its end."""
        if self._gone is None and not self._burying:
            self._burying = True
            self._keep_task(self._bury())

    async def _bury(self) -> None:
        # The keeper leaves right after the server; a moment makes the message say how it ended.
        code = await self._exit_code(0.5)
        how = "closed its output" if code is None else f"ended with exit code {code}"
        words = self.last_words
        self._lost(f"the server {how}" + (f"; its last words: {words}" if words else ""))

    def too_long(self, head: bytes, tail: bytes, limit: int) -> None:
        """A line was longer than allowed; only the call that it answers is lost."""
        self.noise += 1
        found = _ID.search(head) or _ID.search(tail)
        owners = [int(found[1])] if found else list(self._waiting)
        future = self._waiting.get(owners[0]) if len(owners) == 1 else None
        if future is not None and not future.done():
            what = f"the server sent a message of more than {limit} bytes"
            future.set_exception(BadAnswer(what))

    def _lost(self, reason: str) -> None:
        super()._lost(reason)
        self._flow.release()

    async def _exit_code(self, patience: float) -> int | None:
        """Polled: asyncio's child watchers cost a thread for each process, or outlive the loop."""
        pause, process = 0.001, self._process
        while process is not None and process.poll() is None and patience > 0:
            await asyncio.sleep(pause)
            patience -= pause
            pause = min(2 * pause, 0.05)
        return None if process is None else process.returncode


def _always(protocol: Any) -> Any:
    return lambda: protocol


class _Lines(asyncio.Protocol):
    """Cuts the stream into lines. Each byte is looked at once, however long the line."""

    def __init__(self, channel: StdioChannel, limit: int) -> None:
        self._channel = channel
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._dropped: bytes | None = None  # the head of a line that is too long
        self._tail = b""

    def data_received(self, data: bytes) -> None:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._piece(data[start:end])
            self._finish()
            start = end + 1
        if start < len(data):
            self._piece(data[start:] if start else data)

    def _piece(self, data: bytes) -> None:
        self._size += len(data)
        if self._dropped is None:
            self._pieces.append(data)
            if self._size <= self._limit:
                return
            self._dropped = b"".join(self._pieces)[:512]
            self._pieces.clear()
        self._tail = (self._tail + data)[-512:]

    def _finish(self) -> None:
        if self._dropped is not None:
            self._channel.too_long(self._dropped, self._tail, self._limit)
        else:
            line = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._channel.received(line)
        self._pieces.clear()
        self._size, self._dropped, self._tail = 0, None, b""

    def eof_received(self) -> None:
        self._channel.ended()

    def connection_lost(self, exc: Exception | None) -> None:
        self._channel.ended()


class _Tail(asyncio.Protocol):
    """Drains stderr always, keeps its end, and writes a log file that does not grow for ever."""

    def __init__(self, log: Path | None, limit: int = 1_000_000) -> None:
        self._kept: collections.deque[bytes] = collections.deque()
        self._size = 0
        self._log = log
        self._file: Any = None
        self._limit = limit

    def data_received(self, data: bytes) -> None:
        self._kept.append(data)
        self._size += len(data)
        while len(self._kept) > 1 and self._size - len(self._kept[0]) > _STDERR_KEPT:
            self._size -= len(self._kept.popleft())
        if self._log is not None:
            self._write(self._log, data)

    def _write(self, log: Path, data: bytes) -> None:
        try:
            if self._file is None:
                log.parent.mkdir(parents=True, exist_ok=True)
                self._file = log.open("ab", buffering=0)
            if self._file.tell() > self._limit:
                self._file.close()
                os.replace(log, log.with_suffix(".old"))
                self._file = log.open("ab", buffering=0)
            self._file.write(data[-self._limit :])
        except OSError as error:
            logger.warning("no server log in %s: %s", log, error)
            self._log = None

    def text(self) -> str:
        data = b"".join(self._kept)[-_STDERR_KEPT:]
        lines = [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
        return plain(" | ".join(lines[-4:]), 400)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._log = None


class _Flow(asyncio.BaseProtocol):
    """Waits while the server does not read."""

    def __init__(self) -> None:
        self._paused: asyncio.Event | None = None

    def pause_writing(self) -> None:
        self._paused = asyncio.Event()

    def resume_writing(self) -> None:
        self.release()

    def connection_lost(self, exc: Exception | None) -> None:
        self.release()

    def release(self) -> None:
        if self._paused is not None:
            self._paused.set()
            self._paused = None

    async def drained(self) -> None:
        if self._paused is not None:
            await self._paused.wait()
