"""The one way out of a sandbox: a proxy on a socket that judges, injects and records every request.

It speaks HTTP/1.1 to the sandbox. Requests leave through the core's guarded client, which checks
addresses, connects to exactly those it checked, puts secrets in and takes them out of answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from hardpoint.errors import (
    ExternalService,
    HardpointError,
    InvalidParameters,
    NotAuthorized,
    ToolTimeout,
)
from hardpoint.net import Binding, PinnedClient, SystemResolver, UrlGuard, parse_url
from hardpoint_container.config import EgressConfig, size_in_bytes
from hardpoint_container.egress_rules import EgressRules
from hardpoint_container.http_side import Asked, HttpSide
from hardpoint_container.session_ca import SessionCA
from hardpoint_container.standins import StandIns

logger = logging.getLogger(__name__)

HANDSHAKE: Final = 15.0
ANSWER: Final = 300.0
GOODBYE: Final = 1.0
TUNNEL_IDLE: Final = 600.0
CONNECTIONS: Final = 64

MakeClient = Callable[[Sequence[Binding]], PinnedClient]
Record = Callable[[Mapping[str, Any]], None]

_STATUS: Final = (
    (NotAuthorized, 403),
    (InvalidParameters, 400),
    (ToolTimeout, 504),
    (ExternalService, 502),
)
# Of the connection to the server, not of the answer.
_DROPPED: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade", "content-length", "content-encoding", "alt-svc"),
    }
)


@attrs.frozen
class Exit:
    """What a gate needs of the core."""

    client: MakeClient
    """A guarded client that injects these bindings."""
    record: Record
    """Writes one audit record."""
    guard: UrlGuard = attrs.field(factory=UrlGuard)
    """For tunnels, which the client does not carry."""
    resolver: Any = attrs.field(factory=SystemResolver)


class EgressGate:
    """The gate of one sandbox."""

    def __init__(self, config: EgressConfig, way: Exit) -> None:
        self.rules = EgressRules(config)
        self.standins = StandIns(config.secrets)
        self._config = config
        self._way = way
        self._ca = SessionCA()
        self._server: asyncio.Server | None = None
        self._outer: Path | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, user: int) -> Path:
        """Listen; the folder that the sandbox of this user gets to see.

        The folder's parent keeps other users of this machine away from the socket.
        """
        self._outer = Path(tempfile.mkdtemp(prefix="hp-gate-"))
        if os.geteuid() == 0:
            os.chown(self._outer, user, -1)
        folder = self._outer / "g"
        folder.mkdir(mode=0o755)
        (folder / "ca.pem").write_text(self._bundle(), encoding="ascii")
        (folder / "ca.pem").chmod(0o644)
        socket = folder / "egress.sock"
        self._server = await asyncio.start_unix_server(self._accept, str(socket))
        socket.chmod(0o666)
        return folder

    def _bundle(self) -> str:
        text = self._ca.pem()
        if any(rule.tunnel for rule in self._config.allow):
            # Through a tunnel the sandbox meets the real certificates.
            known = ssl.get_default_verify_paths().cafile
            for path in (known, "/etc/ssl/certs/ca-certificates.crt"):
                if path and os.path.exists(path):
                    return text + Path(path).read_text(encoding="ascii", errors="ignore")
        return text

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2)
        if self._outer is not None:
            shutil.rmtree(self._outer, ignore_errors=True)

    # connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) <= CONNECTIONS:
                await self._serve(HttpSide(reader, writer, size_in_bytes(self._config.max_body)))
        except (OSError, EOFError, TimeoutError, ssl.SSLError) as error:
            logger.debug("a connection to the egress gate ended: %r", error)
        except asyncio.CancelledError:
            pass  # the sandbox is being closed
        finally:
            self._tasks.discard(task)
            await _end(writer)

    async def _serve(self, side: HttpSide) -> None:
        while (asked := await side.next_request()) is not None:
            if asked.method == "CONNECT":
                await self._connect(side, asked)
                return
            if not asked.target.startswith("http://"):
                await side.refuse(400, "ask for a whole http:// address, or CONNECT for https")
                return
            if not await self._answer(side, asked, asked.target):
                return

    async def _connect(self, side: HttpSide, asked: Asked) -> None:
        host, _, port_text = asked.target.rpartition(":")
        host = host.strip("[]").lower().rstrip(".")
        try:
            port = int(port_text)
            if self.rules.is_tunnel(host, port):
                await self._tunnel(side, host, port)
                return
            self.rules.require_host(host, port)
        except (ValueError, HardpointError) as error:
            self._note(asked.method, asked.target, "refused", str(error))
            await side.refuse(403, str(error))
            return
        await side.accept_tunnel()
        await asyncio.wait_for(side.start_tls(self._ca.context(host)), HANDSHAKE)
        authority = asked.target if port != 443 else asked.target.rpartition(":")[0]
        while (inner := await side.next_request()) is not None:
            named = inner.host or authority
            if named.lower().removesuffix(":443") != authority.lower().removesuffix(":443"):
                self._note(inner.method, authority, "refused", "Host header differs")
                await side.refuse(403, f"the Host header {named!r} is not {authority!r}")
                return
            if not inner.target.startswith("/"):
                await side.refuse(400, "the request target must be a path")
                return
            if not await self._answer(side, inner, f"https://{authority}{inner.target}"):
                return

    async def _answer(self, side: HttpSide, asked: Asked, address: str) -> bool:
        """Send one request on and its answer back; whether the connection can go on."""
        try:
            url = parse_url(address)
            allowed = self.rules.require(asked.method, url)
            outgoing = self.standins.replace(address, asked.headers, asked.body)
            client = self._way.client(outgoing.bindings)
            unmatched = len(outgoing.bindings) - len(client.matching(asked.method, outgoing.url))
            if unmatched:
                names = ", ".join(sorted({binding.secret for binding in outgoing.bindings}))
                raise NotAuthorized(f"secret {names} is not for {url.host!r}")
            response = await client.request(
                asked.method,
                outgoing.url,
                headers=outgoing.headers,
                body=asked.body,
                timeout=ANSWER,
                max_bytes=size_in_bytes(self._config.max_body),
            )
        except HardpointError as error:
            status = next((code for kind, code in _STATUS if isinstance(error, kind)), 502)
            self._note(asked.method, _without_query(address), "refused", error.message)
            return await side.refuse(status, error.message)
        verdict = "allowed" if allowed else "would be refused"
        self._note(asked.method, _without_query(address), verdict, status=response.status)
        if response.truncated:
            return await side.refuse(502, f"the answer is larger than {self._config.max_body}")
        headers = [(name, value) for name, value in response.headers if name not in _DROPPED]
        return await side.respond(response.status, headers, response.body, asked)

    async def _tunnel(self, side: HttpSide, host: str, port: int) -> None:
        """Carry bytes unseen, to an address that was checked, for the host that was named."""
        guard = self._way.guard
        found = guard.check_addresses(host, await self._way.resolver.resolve(host, port))
        reader, writer = await asyncio.wait_for(asyncio.open_connection(found[0], port), HANDSHAKE)
        try:
            await side.accept_tunnel()
            hello = await asyncio.wait_for(side.first_record(), HANDSHAKE)
            if server_name(hello) != host:
                self._note("CONNECT", f"{host}:{port}", "refused", "another name inside")
                return
            self._note("CONNECT", f"{host}:{port}", "allowed")
            writer.write(hello)
            await asyncio.gather(_pipe(side.reader, writer), _pipe(reader, side.writer))
        finally:
            await _end(writer)

    def _note(self, method: str, address: str, verdict: str, why: str = "", **more: Any) -> None:
        fields = {"method": method, "address": address[:2000], "verdict": verdict, **more}
        if why:
            fields["why"] = why[:500]
        try:
            self._way.record(fields)
        except Exception:  # an audit that cannot be written is no reason to lose the sandbox
            logger.exception("an egress record could not be written")


def server_name(hello: bytes) -> str | None:
    """The name that a TLS client asks for in its first message."""
    found: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _socket, name, _context: found.append(name)
    incoming = ssl.MemoryBIO()
    incoming.write(hello)
    try:
        context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True).do_handshake()
    except ssl.SSLError:
        pass  # there is no certificate; the name was all that was wanted
    return found[0].lower().rstrip(".") if found and found[0] else None


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await asyncio.wait_for(reader.read(65_536), TUNNEL_IDLE):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _end(writer: asyncio.StreamWriter) -> None:
    """Close a connection; a peer that does not say goodbye is not waited for."""
    writer.close()
    try:
        async with asyncio.timeout(GOODBYE):
            await writer.wait_closed()
    except (OSError, TimeoutError, asyncio.CancelledError):
        writer.transport.abort()


def _without_query(address: str) -> str:
    return address.partition("?")[0]
