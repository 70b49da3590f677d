"""A login that a person makes in a browser: open it, wait for the way back, hand the address over.

What the browser brings is a code, which `oauth` or a protocol's own client exchanges for tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import attrs

from hardpoint.errors import ExternalService

PATIENCE: Final = 300.0
"""Seconds for a person to log in."""
_BEGINS_WITHIN: Final = 30.0
"""Seconds for a server to say where the login is."""

Say = Callable[[str], None]
Ask = Callable[[str], Awaitable[str]]
Show = Callable[[str], bool]
"""Shows an address to a person; whether it could."""


# the way back from the browser -----------------------------------------------------------------


@attrs.define(eq=False)
class Callback:
    """A listener on loopback for the one request that the browser comes back with."""

    port: int = 0
    state: str | None = None
    """What must come back with the answer; anything else is ignored, for any page can send it."""
    _server: asyncio.Server | None = None
    _answer: asyncio.Future[dict[str, str]] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    async def __aenter__(self) -> Callback:
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._server = await asyncio.start_server(
                self._serve, "127.0.0.1", self.port, limit=65536
            )
        except OSError as error:
            raise ExternalService(
                f"the way back from the browser cannot be opened: {error.strerror}",
                hint=f"something else uses port {self.port}; choose another one",
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def wait(self) -> dict[str, str]:
        """What the browser brought."""
        assert self._answer is not None
        return await self._answer

    def give(self, address: str) -> bool:
        """Take an address that a person copied; whether it is one."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        if not {"code", "error"} & query.keys():
            return False
        if self.state is not None and query.get("state") != self.state:
            return False
        assert self._answer is not None
        if not self._answer.done():
            self._answer.set_result(query)
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(10):
                line = (await reader.readline()).decode("latin-1").split(" ")
                while (await reader.readline()).strip():
                    pass
            known = len(line) > 1 and urlsplit(line[1]).path == "/callback" and self.give(line[1])
            text = "You are logged in and may close this page." if known else "Nothing is here."
            body = f"<!doctype html><title>Hardpoint</title><p>{html.escape(text)}</p>".encode()
            status = "200 OK" if known else "404 Not Found"
            writer.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        writer.close()


async def wait_for_answer(
    callback: Callback, say: Say, ask: Ask | None = None
) -> Mapping[str, str]:
    """The browser's answer, or one that is pasted, whichever is first.

    Args:
        ask: Reads a line: on a machine without a browser, the address that another one ended at.

    Raises:
        ExternalService: Nobody came back in time.
    """
    waiting = asyncio.ensure_future(callback.wait())
    pasting = None if ask is None else asyncio.ensure_future(_pasted(callback, ask, say))
    try:
        async with asyncio.timeout(PATIENCE):
            return await waiting
    except TimeoutError:
        raise ExternalService(f"nobody logged in within {PATIENCE:g} s") from None
    finally:
        waiting.cancel()
        if pasting is not None:
            pasting.cancel()


async def _pasted(callback: Callback, ask: Ask, say: Say) -> None:
    while not callback.give((await ask("Or paste the address that it ended at: ")).strip()):
        say("That is not it: the address of this login holds code= or error=.")


@contextlib.asynccontextmanager
async def stdin_lines() -> AsyncIterator[Ask]:
    """Lines that a person types, read on a daemon thread: one that waits never holds up the end."""
    import threading

    loop = asyncio.get_running_loop()

    async def ask(prompt: str) -> str:
        answer: asyncio.Future[str] = loop.create_future()

        def give(line: str) -> None:
            if not answer.done():
                answer.set_result(line)

        def read() -> None:
            with contextlib.suppress(EOFError, OSError, RuntimeError):
                loop.call_soon_threadsafe(give, input(prompt))

        threading.Thread(target=read, daemon=True).start()
        return await answer

    yield ask


def open_browser(url: str) -> bool:
    """Open an address in a browser, where there is one."""
    import webbrowser

    headless = sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    return False if headless else webbrowser.open(url)


# logins that a tool begins ----------------------------------------------------------------------


@attrs.frozen
class _Open:
    work: asyncio.Task[Any]
    address: asyncio.Future[str]


class Handovers:
    """Logins that a tool began and a person ends, one for each name.

    The address is handed over; the listener waits in the background, for some minutes. No token and
    no code passes through the tool's answer.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    async def begin(self, name: str, login: Callable[[Show], Awaitable[Any]]) -> str:
        """The address where a person logs in; the same one while a login is open.

        Args:
            login: The whole login; it shows the address with what it is given.

        Raises:
            ExternalService: The server does not say where.
        """
        known = self._open.get(name)
        if known is None or known.work.done():
            known = self._open[name] = _start(login)
        await asyncio.wait(
            (known.work, known.address),
            timeout=_BEGINS_WITHIN,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if known.address.done():
            return known.address.result()
        if known.work.done():
            known.work.result()  # raises why there is no address
        known.work.cancel()
        raise ExternalService(f"{name} does not say where one logs in")

    async def aclose(self) -> None:
        """Give up every open login."""
        tasks = [each.work for each in self._open.values()]
        self._open.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _start(login: Callable[[Show], Awaitable[Any]]) -> _Open:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def show(url: str) -> bool:
        if not address.done():
            address.set_result(url)
        return True

    work = asyncio.ensure_future(login(show))
    # Looked at when somebody asks again; an error that nobody asks for is none.
    work.add_done_callback(lambda task: task.cancelled() or task.exception())
    return _Open(work, address)
