"""One configured server: its connections, its tools, its calls. Not who may call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
from collections.abc import Awaitable, Callable, Mapping, Set
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from hardpoint.errors import ExternalService, HardpointError
from hardpoint_mcp.catalogue import Catalogue, build
from hardpoint_mcp.config import PrefixMode, ServerConfig
from hardpoint_mcp.connection import Connection, Memory
from hardpoint_mcp.environment import find_command, server_environment
from hardpoint_mcp.expand import expand
from hardpoint_mcp.wire.channel import Channel, Message
from hardpoint_mcp.wire.errors import AuthRequired
from hardpoint_mcp.wire.headers import Path
from hardpoint_mcp.wire.session import Asker, Call, Page, Session

if TYPE_CHECKING:
    import httpx2

CLIENT: Final = {"name": "hardpoint", "version": "0.1.0"}
LIST_TIMEOUT: Final = 60.0

SecretReader = Callable[[str], Awaitable[str]]
"""The value of a stored secret by name; raises when there is none."""
T = TypeVar("T")
Auth = Callable[[str, ServerConfig], "httpx2.Auth | None"]


async def _no_secrets(name: str) -> str:
    raise ExternalService(f"the secret {name!r} is not available here")


@attrs.define(eq=False)
class Surroundings:
    """What an upstream needs from whoever uses it."""

    secrets: SecretReader = _no_secrets
    auth: Auth = lambda name, config: None
    """Makes the login of an HTTP server."""
    log_folder: pathlib.Path | None = None
    variables: Mapping[str, str] | None = None
    """What `${NAME}` stands for; the environment when not given."""


class Upstream:
    """One server, in use by any number of callers."""

    def __init__(
        self,
        name: str,
        config: ServerConfig,
        *,
        prefix: PrefixMode = "server",
        surroundings: Surroundings | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.name = name
        self.config = config
        self.prefix = prefix
        self.memory = memory or Memory()
        self.catalogue = Catalogue()
        self.listed = False
        """Whether the catalogue was fetched from the server by this object."""
        self.on_change: Callable[[str], None] = lambda method: None
        """Told the method of every notification that something changed."""
        self.on_notification: Callable[[str, Message], None] = lambda method, params: None
        self.surroundings = surroundings or Surroundings()
        self._headers: dict[str, Mapping[Path, str]] = {}
        self._shared: Connection | None = None
        self._own: dict[object, Connection] = {}
        self._subscribed: set[str] = set()
        self._slots: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # connections -------------------------------------------------------------------------------

    def connection(self, asker: Asker | None = None) -> Connection:
        """The connection for a caller.

        A stateless server is told with each request what the client in front can answer, so one
        connection serves all clients that speak that way too. A server that asks only once would
        mix the answers of several clients: a client that can be asked gets a connection of its own.
        """
        alike = asker is not None and asker.era == "modern" and self.memory.era == "modern"
        if alike and asker is not None and self._shared is None and asker.owner in self._own:
            # Opened for one client before it was known that it can serve all.
            self._shared = self._own.pop(asker.owner)
        if asker is None or not asker.capabilities or alike:
            if self._shared is None:
                self._shared = self._connect(None)
            return self._shared
        if asker.owner not in self._own:
            gone = [owner for owner, one in self._own.items() if not one.connected]
            for owner in gone:
                del self._own[owner]
            self._own[asker.owner] = self._connect(asker)
        return self._own[asker.owner]

    async def release(self, owner: object) -> None:
        """Close the connection that a client had for itself."""
        connection = self._own.pop(owner, None)
        if connection is not None:
            await connection.aclose()

    async def aclose(self) -> None:
        connections = [c for c in (self._shared, *self._own.values()) if c is not None]
        self._own.clear()
        await asyncio.gather(*(connection.aclose() for connection in connections))

    @property
    def connected(self) -> bool:
        return self._shared is not None and self._shared.connected

    def _connect(self, asker: Asker | None) -> Connection:
        memory = self.memory
        if asker is not None and asker.era == "handshake":
            # Spoken to as the client speaks: questions then take the way they would without us.
            memory = Memory("handshake", self.memory.kind)
        return Connection(
            self.name,
            self._make_channel,
            memory=memory,
            client=CLIENT,
            capabilities=None if asker is None else asker.capabilities,
            asker=asker,
            startup_timeout=self.config.startup_timeout,
            idle_timeout=self.config.idle_timeout,
            on_notification=self._notified,
            on_session=self._prepare,
            subscriptions=self._subscribed,
        )

    def _prepare(self, session: Session) -> None:
        async def relist() -> None:
            page = await session.collect("tools/list", "tools", Call(LIST_TIMEOUT))
            self._learn(build(self.name, self.config, self.prefix, page.items))

        session.param_headers = lambda tool: self._headers.get(tool, {})
        session.relist = relist

    def _learn(self, catalogue: Catalogue) -> None:
        self._headers |= {one.original: one.headers for one in catalogue.tools.values()}

    def _notified(self, method: str, params: Message) -> None:
        if method.endswith("/list_changed"):
            self.on_change(method)
        self.on_notification(method, params)

    async def _make_channel(self, kind: str | None) -> tuple[Channel, str]:
        config = expand(
            attrs.asdict(self.config, recurse=False),
            os.environ if self.surroundings.variables is None else self.surroundings.variables,
            f"server {self.name!r}",
        )
        if config["command"] is not None:
            return await self._make_process(config), "stdio"
        headers = {name: await self._reveal(text) for name, text in config["headers"].items()}
        return self._make_http(config["url"], headers, kind or self.config.transport or "http")

    async def _make_process(self, config: Mapping[str, Any]) -> Channel:
        from hardpoint_mcp.wire.stdio import StdioChannel

        given = {name: await self._reveal(text) for name, text in config["env"].items()}
        env = server_environment(given)
        cwd = os.path.expanduser(config["cwd"]) if config["cwd"] else None
        program = find_command(os.path.expanduser(config["command"]), env, cwd)
        folder = self.surroundings.log_folder
        return StdioChannel(
            [program, *config["args"]],
            env,
            cwd,
            max_message=self.config.max_result,
            log=None if folder is None else folder / f"{self.name}.log",
        )

    def _make_http(self, url: str, headers: dict[str, str], kind: str) -> tuple[Channel, str]:
        from hardpoint_mcp.config import check_url
        from hardpoint_mcp.http_client import make_client
        from hardpoint_mcp.wire.http import HttpChannel
        from hardpoint_mcp.wire.sse import SseChannel

        try:
            check_url(url)
        except ValueError as error:
            raise ExternalService(f"server {self.name!r}: {error}") from None
        auth = self.surroundings.auth(url, self.config)

        def client() -> httpx2.AsyncClient:
            return make_client(url, auth=auth)

        chosen = SseChannel if kind == "sse" else HttpChannel
        return chosen(url, client, headers, max_message=self.config.max_result), kind

    async def _reveal(self, text: str) -> str:
        """`secret:NAME`, alone or after a word like `Bearer`, as the stored value."""
        before, mark, name = text.rpartition("secret:")
        if not mark or (before and not before.endswith(" ")):
            return text
        return before + (await self.surroundings.secrets(name.strip())).strip()

    # tools -------------------------------------------------------------------------------------

    async def refresh(self, asker: Asker | None = None) -> Catalogue:
        """Fetch the list of tools."""

        async def work(session: Session) -> Catalogue:
            if "tools" not in session.capabilities:
                return Catalogue()
            page = await session.collect("tools/list", "tools", Call(LIST_TIMEOUT, asker))
            made = build(self.name, self.config, self.prefix, page.items)
            return attrs.evolve(made, warnings=(*page.warnings, *made.warnings))

        connection = self.connection(asker)
        catalogue: Catalogue = await self._told(connection.use(work))
        self._learn(catalogue)
        if asker is None or connection is self._shared:
            self.catalogue, self.listed = catalogue, True
        return catalogue

    async def collect(self, method: str, key: str, timeout: float) -> tuple[Message, ...]:
        """Everything that a list method gives."""

        async def work(session: Session) -> Page:
            return await session.collect(method, key, Call(timeout))

        page: Page = await self._told(self.connection().use(work))
        return page.items

    async def request(self, method: str, params: Message, call: Call) -> Message:
        """One request, with its failures in words that name the server."""
        async with self._slot():
            return await self._told(self.connection(call.asker).request(method, params, call))

    async def subscribe(self, uri: str) -> None:
        """Have the server say when a resource changes; also after it was started anew."""
        self._subscribed.add(uri)
        await self._resubscribe(await self.session(), {uri})

    async def unsubscribe(self, uri: str) -> None:
        self._subscribed.discard(uri)
        session = await self.session()
        if not session.modern:
            await self.request("resources/unsubscribe", {"uri": uri}, Call(self.config.timeout))
        else:
            self.connection().listen_again()

    async def _resubscribe(self, session: Session, uris: Set[str]) -> None:
        if session.modern:
            self.connection().listen_again()
            return
        for uri in uris:
            await session.request("resources/subscribe", {"uri": uri}, Call(self.config.timeout))

    async def set_log_level(self, level: str) -> None:
        """Pass on from which level on the server shall log; a server that cannot is left alone."""
        session = await self.session()
        if not session.modern and "logging" in session.capabilities:
            with contextlib.suppress(ExternalService, TimeoutError):
                await self.request("logging/setLevel", {"level": level}, Call(self.config.timeout))

    async def session(self, asker: Asker | None = None) -> Session:
        return await self._told(self.connection(asker).session())

    async def _told(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except ExternalService as error:
            if isinstance(error, AuthRequired) and error.hint is None:
                error.hint = f"log in with: hardpoint mcp auth {self.name}"
            if not getattr(error, "named", False):
                error.args = (f"{self.name}: {error.message}",)
                error.named = True  # type: ignore[attr-defined]
            raise
        except (HardpointError, TimeoutError):
            raise
        except OSError as error:
            raise ExternalService(f"{self.name}: {error}") from error

    @contextlib.asynccontextmanager
    async def _slot(self) -> Any:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._slots = loop, asyncio.Semaphore(self.config.max_concurrent)
        assert self._slots is not None
        async with self._slots:
            yield
