"""Speak with the runner inside a sandbox over the pipes of the process that holds it.

How that process is started, and what is run in the sandbox, is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Literal, Self, cast

from hardpoint.errors import DomainUnavailable, SandboxError
from hardpoint_container.engine import Launch
from hardpoint_container.execution import Execution, FileRefused, StartFailed

LENGTHS: Final = struct.Struct(">II")
LARGEST_FRAME: Final = 64 * 1024 * 1024
PATIENCE: Final = 5.0
"""Seconds past its own deadline that the runner may be silent before the sandbox counts as lost."""
KEPT_TAIL: Final = 64 * 1024

StreamName = Literal["stdout", "stderr"]
OnOutput = Callable[[StreamName, bytes], None]


class _Waiting:
    """One request whose answer is not complete."""

    def __init__(self, future: asyncio.Future[tuple[dict[str, Any], bytes]]) -> None:
        self.future = future
        self.on_output: OnOutput | None = None
        self.gather = True
        self.chunks: dict[int, list[bytes]] = {1: [], 2: []}
        self.tails: dict[int, bytes] = {}


class RunnerClient(asyncio.SubprocessProtocol):
    """One running sandbox."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._errors = bytearray()
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._ready: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._oom_seen = 0
        self._exited = False
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self.facts: Mapping[str, Any] = {}

    @classmethod
    async def start(cls, launch: Launch, *, timeout: float) -> Self:
        """Start the process that holds the sandbox and wait until its runner answers.

        Raises:
            StartFailed: With what the process said.
        """
        loop = asyncio.get_running_loop()
        try:
            transport, client = await loop.subprocess_exec(
                cls,
                *launch.command,
                env=launch.environment,
                cwd=launch.folder,
                pass_fds=launch.fds,
                start_new_session=True,
            )
        except OSError as error:
            raise StartFailed(f"{launch.command[0]}: {error.strerror or error}") from error
        finally:
            for fd in launch.fds:
                os.close(fd)
        client._transport = transport
        client._stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
        try:
            first = (client._ready, client._gone)
            await asyncio.wait(first, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not client._ready.done():
                silent = client.alive
                await asyncio.shield(client.kill())
        if not client._ready.done():
            waited = f"no answer within {timeout:g} s; " if silent else ""
            raise StartFailed(waited + client.said)
        client.facts = client._ready.result()
        return client

    @property
    def said(self) -> str:
        """The last thing that the process wrote to its standard error."""
        return self._errors.decode(errors="replace").strip() or "it ended without a word"

    @property
    def alive(self) -> bool:
        return not self._exited and not self._gone.done()

    async def gone(self) -> None:
        """Wait until the process has ended."""
        await asyncio.wait((self._gone,))

    # asyncio's side

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        assert isinstance(data, bytes)
        if fd == 2:
            self._errors += data
            del self._errors[:-4096]
            return
        self._buffer += data
        while len(self._buffer) >= LENGTHS.size:
            head, body = LENGTHS.unpack_from(self._buffer)
            whole = LENGTHS.size + head + body
            if whole > LARGEST_FRAME:
                self._lose()
                return
            if len(self._buffer) < whole:
                return
            frame = bytes(self._buffer[LENGTHS.size : whole])
            del self._buffer[:whole]
            try:
                self._on_frame(json.loads(frame[:head]), frame[head:])
            except (ValueError, KeyError, TypeError):
                self._lose()
                return

    def _lose(self) -> None:
        # Only something that took over PID 1 breaks the protocol; nothing it says counts.
        self._buffer.clear()
        if self._transport is not None:
            self._transport.kill()

    def _on_frame(self, header: dict[str, Any], body: bytes) -> None:
        if "ready" in header:
            if not self._ready.done():
                self._ready.set_result(header["ready"])
            return
        waiting = self._waiting.get(header["id"])
        if waiting is None:
            return  # the caller was cancelled
        if "s" not in header:
            if not waiting.future.done():
                waiting.future.set_result((header, body))
        elif header.get("tail"):
            waiting.tails[header["s"]] = body
        else:
            if waiting.gather:
                waiting.chunks[header["s"]].append(body)
            if waiting.on_output is not None:
                waiting.on_output("stdout" if header["s"] == 1 else "stderr", body)

    def process_exited(self) -> None:
        # What it wrote last may still be on its way; connection_lost comes after that, unless
        # somebody else holds the pipes.
        self._exited = True
        asyncio.get_running_loop().call_later(0.5, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if self._gone.done():
            return
        self._gone.set_result(None)
        for waiting in self._waiting.values():
            if not waiting.future.done():
                waiting.future.set_exception(
                    SandboxError(
                        "the sandbox ended during the call; what it had done is unknown,"
                        " and it was not tried again",
                        hint=self.said,
                    )
                )

    # requests

    def _send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        assert self._stdin is not None
        head = json.dumps(header).encode()
        self._stdin.write(LENGTHS.pack(len(head), len(body)) + head + body)

    def _register(self) -> tuple[int, _Waiting]:
        if not self.alive:
            raise DomainUnavailable("the sandbox is gone; nothing was started")
        number = next(self._ids)
        waiting = self._waiting[number] = _Waiting(asyncio.get_running_loop().create_future())
        return number, waiting

    async def _answer(self, waiting: _Waiting, timeout: float) -> tuple[dict[str, Any], bytes]:
        try:
            async with asyncio.timeout(timeout):
                return await waiting.future
        except TimeoutError:
            await self.kill()
            raise SandboxError(
                "the sandbox stopped answering and was removed; the next call gets a new one"
            ) from None

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes = b"",
        timeout: timedelta,
        keep: int,
        most: int,
        on_output: OnOutput | None = None,
        gather: bool = True,
    ) -> Execution:
        """Run one command to its end.

        Args:
            argv: The program and its arguments; no shell is involved.
            cwd: An absolute folder inside.
            env: Added to the sandbox's own environment.
            stdin: Everything that the command may read.
            timeout: After this the command's process group is ended.
            keep: How many bytes of each stream are kept from its start; of what follows the last
                64 KiB are kept too.
            most: A command that writes more than this many bytes is killed.
            on_output: Told each piece of output as it arrives.
            gather: Whether the result holds the output too.

        Raises:
            DomainUnavailable: The sandbox is gone; nothing was started.
            SandboxError: It was lost during the call.
        """
        number, waiting = self._register()
        waiting.on_output, waiting.gather = on_output, gather
        seconds = timeout.total_seconds()
        try:
            self._send(
                {
                    "op": "exec",
                    "id": number,
                    "argv": list(argv),
                    "cwd": cwd,
                    "env": dict(env),
                    "timeout": seconds,
                    "keep": keep,
                    "most": most,
                },
                stdin,
            )
            header, _ = await self._answer(waiting, seconds + PATIENCE)
        except asyncio.CancelledError:
            if self.alive:
                self._send({"op": "stop", "id": number})
            raise
        finally:
            del self._waiting[number]
        made = Execution.of(header["end"], waiting.chunks, waiting.tails, self._oom_seen)
        self._oom_seen = header["end"].get("oom", self._oom_seen)
        return made

    async def file(
        self, call: str, *, body: bytes = b"", timeout: float = 30.0, **arguments: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Do one file operation beneath the workspace; see `inside.files`.

        Raises:
            FileRefused: It was not done.
            DomainUnavailable: The sandbox is gone.
        """
        number, waiting = self._register()
        try:
            self._send({"op": "file", "id": number, "call": call, **arguments}, body)
            header, data = await self._answer(waiting, timeout)
        finally:
            del self._waiting[number]
        if "refused" in header:
            raise FileRefused(header["refused"], header["message"])
        return header["ok"], data

    # ending

    def stop_all(self) -> None:
        """Have every command ended; each says how by its own result."""
        if self.alive:
            for number in self._waiting:
                self._send({"op": "stop", "id": number})

    async def close(self, patience: float = 3.0) -> None:
        """Let the runner end everything and wait for it; killed when it does not."""
        if self.alive and self._stdin is not None:
            self._stdin.close()
            await asyncio.wait((self._gone,), timeout=patience)
        await self.kill()

    async def kill(self) -> None:
        if self._transport is None:
            return
        if self.alive:
            self._transport.kill()
        await asyncio.wait((self._gone,), timeout=5)
        self._transport.close()
