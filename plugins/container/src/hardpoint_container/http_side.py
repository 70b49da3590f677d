"""The gate's side of HTTP/1.1 towards a sandbox: requests in, answers out. Judges nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    import h11

REQUEST_WAIT: Final = 120.0
PIECE: Final = 65_536
# What only the next hop reads; the guarded client sets its own.
_HOP: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "content-length", "accept-encoding", "expect", "host"),
    }
)


@attrs.frozen
class Asked:
    """One request of the sandbox."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    """Without those of the connection."""
    host: str | None
    body: bytes | None


class HttpSide:
    """One connection from a sandbox."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_body: int
    ) -> None:
        self.reader, self.writer = reader, writer
        self._max_body = max_body
        self._protocol = self._new_protocol()

    @staticmethod
    def _new_protocol() -> h11.Connection:
        import h11

        return h11.Connection(h11.SERVER)

    async def next_request(self) -> Asked | None:
        """The next whole request; None when the sandbox is done or breaks the protocol."""
        import h11

        try:
            event = await asyncio.wait_for(self._event(), REQUEST_WAIT)
            if not isinstance(event, h11.Request):
                return None
            body = bytearray()
            while isinstance(part := await self._event(), h11.Data):
                body += part.data
                if len(body) > self._max_body:
                    await self.refuse(413, f"the request is larger than {self._max_body} bytes")
                    return None
        except h11.RemoteProtocolError as error:
            await self.refuse(error.error_status_hint, str(error))
            return None
        except TimeoutError:
            return None
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers]
        return Asked(
            method=event.method.decode("ascii"),
            target=event.target.decode("ascii", "surrogateescape"),
            headers=tuple(pair for pair in pairs if pair[0] not in _HOP),
            host=next((value for name, value in pairs if name == "host"), None),
            body=bytes(body) or None,
        )

    async def _event(self) -> Any:
        import h11

        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            if self._protocol.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._protocol.receive_data(await self.reader.read(PIECE))
        return event

    async def _send(self, *events: Any) -> None:
        for event in events:
            data = self._protocol.send(event)
            if data:
                self.writer.write(data)
        await self.writer.drain()

    async def respond(
        self, status: int, headers: Sequence[tuple[str, str]], body: bytes, asked: Asked
    ) -> bool:
        """Send an answer; whether the connection can carry another request."""
        import h11

        bodiless = asked.method == "HEAD" or status in (204, 304)
        lines = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers]
        if not bodiless:
            lines.append((b"content-length", str(len(body)).encode()))
        events: list[Any] = [h11.Response(status_code=status, headers=lines)]
        if body and not bodiless:
            events.append(h11.Data(data=body))
        await self._send(*events, h11.EndOfMessage())
        if self._protocol.our_state is not h11.DONE or self._protocol.their_state is not h11.DONE:
            return False
        self._protocol.start_next_cycle()
        return True

    async def refuse(self, status: int, why: str) -> bool:
        """Say no in a way that the program and its reader understand; the connection ends."""
        import h11

        text = f"hardpoint: {why}\n".encode()
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(text)).encode()),
            (b"x-hardpoint-refused", b"1"),
            (b"connection", b"close"),
        ]
        try:
            await self._send(
                h11.Response(status_code=status, headers=headers),
                h11.Data(data=text),
                h11.EndOfMessage(),
            )
        except h11.LocalProtocolError:
            pass  # an answer has begun already
        return False

    async def accept_tunnel(self) -> None:
        """Agree to a CONNECT; what follows is not HTTP until `start_tls`."""
        self.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self.writer.drain()

    async def first_record(self) -> bytes:
        """The first TLS record that the sandbox sends through a tunnel."""
        head = await self.reader.readexactly(5)
        return head + await self.reader.readexactly(int.from_bytes(head[3:], "big"))

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Be a TLS server from here on, and read HTTP anew."""
        await self.writer.start_tls(context)
        self._protocol = self._new_protocol()
