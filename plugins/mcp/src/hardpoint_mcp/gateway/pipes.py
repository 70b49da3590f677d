"""Standard input and output for the gateway, without a thread for each line.

The SDK's streams wake a worker thread for every message in and twice for every message out. Where
both ends are pipes or sockets, the loop can do the same. Meanwhile descriptor 0 is the null device
and descriptor 1 is standard error, so that stray output of tools never gets into the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from typing import Any, Final

_LONGEST_LINE: Final = 64 * 1024 * 1024


class Lines:
    """Lines of standard input as they come."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[str]:
        with contextlib.suppress(ConnectionError, ValueError):  # gone, or a line without end
            while line := await self._reader.readline():
                yield line.decode("utf-8", "replace")


class Output:
    """Standard output."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        await self._writer.drain()


@contextlib.asynccontextmanager
async def standard_pipes() -> AsyncIterator[tuple[Any, Any]]:
    """Standard input and output, or None twice where the loop cannot wait for them."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    wires = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1)]
    blocking = [os.get_blocking(wire) for wire in wires]
    with contextlib.ExitStack() as stack:
        given, taken = (
            stack.enter_context(os.fdopen(wire, mode, 0))
            for wire, mode in zip(wires, ("rb", "wb"), strict=True)
        )
        try:
            incoming, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), given
            )
            stack.callback(incoming.close)
            outgoing, flow = await loop.connect_write_pipe(
                lambda: asyncio.streams.FlowControlMixin(loop=loop), taken
            )
            stack.callback(outgoing.close)
        except (ValueError, OSError):  # a file, which is never waited for
            yield None, None
            return
        _divert()
        try:
            yield Lines(reader), Output(asyncio.StreamWriter(outgoing, flow, None, loop))
        finally:
            for number, wire in enumerate(wires):
                with contextlib.suppress(OSError):
                    os.set_blocking(wire, blocking[number])
                    os.dup2(wire, number)


def _divert() -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
