"""The gateway over streamable HTTP: which hosts, origins and tokens are let in."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hardpoint.errors import ConfigError, ExternalService
from hardpoint_mcp.config import ServeConfig
from hardpoint_mcp.gateway.server import Gateway

logger = logging.getLogger(__name__)

PATH: Final = "/mcp"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_MAX_BODY: Final = 16 * 1024 * 1024
_RETRY_MS: Final = 1000


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_reachable(config: ServeConfig, host: str) -> None:
    """Refuse to offer everything to everybody.

    Raises:
        ConfigError: The address can be reached from elsewhere, and nobody has to say who they are.
    """
    if is_loopback(host) or config.clients or config.oauth is not None:
        return
    raise ConfigError(
        f"serving on {host!r} would let anybody in who can reach it",
        hint="configure tokens in [mcp.serve.clients], or [mcp.serve.oauth]; or serve on 127.0.0.1",
    )


def security(config: ServeConfig, host: str, port: int) -> TransportSecuritySettings:
    """Host and Origin are always checked: a page in a browser can reach what its person can."""
    hosts = [f"{name}:*" for name in _LOOPBACK] + list(config.allowed_hosts)
    if not is_loopback(host) and host not in ("0.0.0.0", "::"):  # noqa: S104  # never bound here
        hosts.append(f"{host}:{port}")
    origins = [f"http://{name}:*" for name in _LOOPBACK] + list(config.allowed_origins)
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=origins
    )


class Sessions(StreamableHTTPSessionManager):
    """Remembers what it sent for each session apart: nobody reads on in another's stream."""

    @property
    def event_store(self) -> EventStore:
        """One for each session: the manager asks whenever it opens one."""
        return Events()

    @event_store.setter
    def event_store(self, value: Any) -> None:
        pass


class Events(EventStore):
    """What was sent lately, so that a client whose connection broke can read on. Bounded."""

    def __init__(self, kept: int = 500) -> None:
        self._kept: deque[tuple[int, str, Any]] = deque(maxlen=kept)
        self._numbers = itertools.count(1)

    async def store_event(self, stream_id: str, message: Any) -> str:
        number = next(self._numbers)
        self._kept.append((number, stream_id, message))
        return str(number)

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        if not last_event_id.isdecimal():
            return None
        last = int(last_event_id)
        stream = next((of for number, of, _ in self._kept if number == last), None)
        if stream is None:
            return None
        for number, of, message in list(self._kept):
            if number > last and of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Entrance:
    """The ASGI application of a gateway: lets in whom the settings in force let in.

    Tokens, hosts and origins change with the settings, for requests that come after the change.
    Settings that would open an address to everybody close it.
    """

    def __init__(self, gateway: Gateway, host: str, port: int) -> None:
        """Raises:
        ConfigError: The address can be reached from elsewhere, and nobody has to say who they are.
        """
        check_reachable(gateway.config, host)
        self._gateway = gateway
        self._address = (host, port)
        self._sessions = Sessions(
            gateway.server,
            retry_interval=_RETRY_MS,
            max_request_body_size=_MAX_BODY,
            security_settings=security(gateway.config, host, port),
        )
        self._life = Starlette(lifespan=lambda app: self._sessions.run())
        self._config = gateway.config
        self._app = self._doors()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._life(scope, receive, send)
            return
        if self._config != self._gateway.config:
            self._config = self._gateway.config
            self._sessions.security_settings = security(self._config, *self._address)
            self._app = self._doors()
        await self._app(scope, receive, send)

    def _doors(self) -> ASGIApp:
        config = self._config
        try:
            check_reachable(config, self._address[0])
        except ConfigError as error:
            logger.error("nobody is let in any more: %s", error)
            return Response("closed by its settings", 503)
        routes = [Route(PATH, endpoint=StreamableHTTPASGIApp(self._sessions))]
        if config.oauth is not None:
            from hardpoint_mcp.gateway.tokens import metadata_routes

            routes += metadata_routes(config.oauth)
        app: ASGIApp = Starlette(routes=routes)
        if config.clients or config.oauth is not None:
            from hardpoint_mcp.gateway.tokens import protect

            app = protect(app, config, self._gateway.runtime.services.secrets)
        return app


async def serve_http(
    gateway: Gateway, host: str, port: int, ready: Callable[[str], None] = lambda url: None
) -> None:
    """Serve until the process is told to stop, or this is cancelled.

    Args:
        port: 0 takes a free one.
        ready: Told the address once clients can connect.

    Raises:
        ExternalService: The address cannot be served on.
    """
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            ready(f"http://{_shown(host)}:{bound.getsockname()[1]}{PATH}")

    bound = _bind(host, port)
    server = Server(
        uvicorn.Config(
            Entrance(gateway, host, bound.getsockname()[1]),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=2,
            lifespan="on",
        )
    )
    gateway.start()
    serving = asyncio.ensure_future(server.serve([bound]))
    try:
        await asyncio.shield(serving)
    finally:
        # Cancelled itself, it would leave its sockets open.
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
        gateway.stop()


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # Only where the protocol is named does asyncio switch off Nagle's waiting, of 40 ms a call.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ExternalService(
            f"{_shown(host)}:{port} cannot be served on: {error.strerror or error}",
            hint="choose another port; 0 takes a free one",
        ) from error
    return listener


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def serve_stdio(gateway: Gateway) -> None:
    """Serve the one client at stdin and stdout until it leaves."""
    from mcp.server.stdio import stdio_server

    from hardpoint_mcp.gateway.pipes import standard_pipes

    gateway.start()
    try:
        async with standard_pipes() as pipes, stdio_server(*pipes) as (read, write):
            await gateway.server.run(read, write, gateway.server.create_initialization_options())
    finally:
        with contextlib.suppress(Exception):
            gateway.stop()
