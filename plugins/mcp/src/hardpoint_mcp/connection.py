"""One server kept in reach: started when needed, stopped when idle, started again after it broke.

Nothing here knows tools. A failure costs the request that met it and no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Any, Final, TypeVar

import attrs

from hardpoint.errors import ExternalService
from hardpoint_mcp.wire.channel import Channel, Message
from hardpoint_mcp.wire.errors import AuthRequired, ConnectionLost, SessionLost, WireError
from hardpoint_mcp.wire.session import Asker, Call, Era, Session
from hardpoint_mcp.wire.versions import SUBSCRIPTION_KEY

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LONGEST_WAIT: Final = 60.0
_SHORT_WAIT: Final = 2.0
"""What a request waits for a server that is about to be started again."""
_ALIVE_WITHIN: Final = 5.0
_STABLE: Final = 10.0
"""A server that lived this long may be started again at once."""
_LISTED: Final = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}


@attrs.define(eq=False)
class Memory:
    """What is remembered of a server from one conversation to the next."""

    era: Era = "auto"
    kind: str | None = None
    """Which transport answered, where the configuration does not say it."""


class Connection:
    """A conversation that is there when it is needed. Belongs to one event loop at a time."""

    def __init__(
        self,
        name: str,
        make_channel: Callable[[str | None], Awaitable[tuple[Channel, str]]],
        *,
        memory: Memory | None = None,
        client: Mapping[str, str],
        capabilities: Mapping[str, Any] | None = None,
        asker: Asker | None = None,
        startup_timeout: float = 60.0,
        idle_timeout: float = 600.0,
        on_notification: Callable[[str, Message], None] | None = None,
        on_session: Callable[[Session], None] | None = None,
        subscriptions: Set[str] = frozenset(),
    ) -> None:
        """Args:
        name: For messages.
        make_channel: Makes an unopened channel of the given kind, or of the one to try first; gives
            it with its kind, and with "" where no other kind could be tried.
        capabilities: What is declared to a server that asks only once.
        asker: Answers what such a server asks outside a call.
        subscriptions: Resources whose changes are asked for; read again by `listen_again`.
        """
        self.name = name
        self.memory = memory or Memory()
        self.starts = 0
        """How often the server was started."""
        self._make_channel = make_channel
        self._client = dict(client)
        self._capabilities = dict(capabilities or {})
        self._asker = asker
        self._startup_timeout = startup_timeout
        self._idle_timeout = idle_timeout
        self._on_notification = on_notification or (lambda method, params: None)
        self._on_session = on_session or (lambda session: None)
        self._subscriptions = subscriptions
        self._watcher: asyncio.Task[Any] | None = None
        self._session: Session | None = None
        self._opened_at = 0.0
        self._failures = 0
        self._not_before = 0.0
        self._last_error = ""
        self._in_use = 0
        self._idle_since = 0.0
        self._opening: asyncio.Lock | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closings: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def connected(self) -> bool:
        return self._session is not None

    # using it ----------------------------------------------------------------------------------

    async def request(self, method: str, params: Message, call: Call) -> Message:
        """One request, tried again once where the server cannot have seen it."""
        return await self.use(lambda session: session.request(method, params, call))

    async def use(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Run some requests in a live session."""
        self._in_use += 1
        try:
            for attempt in (1, 2):
                session = await self.session()
                try:
                    done = await work(session)
                except TimeoutError:
                    self._keep(self._check_alive(session))
                    raise
                except ConnectionLost as error:
                    again = self._forget(session, error)
                    if not again or attempt == 2:
                        raise
                else:
                    self._failures = 0
                    return done
            raise AssertionError("unreachable")
        finally:
            self._in_use -= 1
            if self._in_use == 0:
                self._rest()

    async def session(self) -> Session:
        """The open session; opens one when there is none."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._adopt(loop)
        if self._session is not None:
            return self._session
        assert self._opening is not None
        async with self._opening:
            if self._session is None:
                self._session = await self._open()
            return self._session

    async def aclose(self) -> None:
        """Stop the server. The next request starts it again."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._loop is not asyncio.get_running_loop():
            self._session = None
            return
        assert self._opening is not None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        async with self._opening:
            session, self._session = self._session, None
            if session is not None:
                self._close(session.channel)
        if ending := [*tasks, *self._closings]:
            await asyncio.wait(ending)

    # opening -----------------------------------------------------------------------------------

    async def _open(self) -> Session:
        wait = self._not_before - time.monotonic()
        if 0 < wait <= _SHORT_WAIT:
            await asyncio.sleep(wait)
        elif wait > 0:
            raise ConnectionLost(
                f"server {self.name!r} failed {self._failures} times and is tried again in"
                f" {wait:.0f} s; last: {self._last_error}",
                sent=False,
            )
        try:
            session = await self._try()
        except WireError as error:
            if not isinstance(error, AuthRequired):
                self._failed(error.message)
            raise
        self._opened_at = time.monotonic()
        self._last_error = ""
        self._watcher = self._keep(self._watch(session))
        self._on_session(session)
        return session

    def listen_again(self) -> None:
        """The subscriptions changed."""
        if self._session is not None and self._watcher is not None:
            self._watcher.cancel()
            self._watcher = self._keep(self._watch(self._session))

    async def _try(self) -> Session:
        """Open a session; where it is not known how, in one way after another."""
        era, kind = self.memory.era, self.memory.kind
        channel, used = await self._make_channel(kind)
        try:
            session = await self._converse(channel, era)
            self.memory.kind = used
        except AuthRequired:
            raise
        except WireError as error:
            session = await self._try_otherwise(error, era, used)
        self.memory.era = "modern" if session.modern else "handshake"
        return session

    async def _try_otherwise(self, error: ExternalService, era: Era, used: str) -> Session:
        if used == "stdio":
            # Some servers leave at a first message that they do not know.
            if era == "handshake" or not isinstance(error, ConnectionLost) or not error.sent:
                raise error
            channel, _ = await self._make_channel(used)
            return await self._converse(channel, "handshake")
        if used == "http" and self.memory.kind is None:
            channel, used = await self._make_channel("sse")
            try:
                session = await self._converse(channel, "handshake")
            except WireError:
                raise error from None
            self.memory.kind = used
            return session
        raise error

    async def _converse(self, channel: Channel, era: Era) -> Session:
        self.starts += 1
        session = Session(channel, client=self._client, capabilities=self._capabilities)
        if self._asker is not None:
            asker = self._asker

            async def answer(method: str, params: Message) -> Message:
                answers = await asker.ask({"question": {"method": method, "params": params}})
                return dict(answers["question"])

            channel.answer = answer
        channel.on_notification = self._on_notification
        try:
            await channel.start()
            await session.open(era, self._startup_timeout)
        except BaseException as error:
            words = channel.last_words
            # Also when the start was cancelled: no process may stay behind.
            await asyncio.shield(channel.aclose())
            if words and isinstance(error, ConnectionLost) and words not in error.message:
                raise ConnectionLost(
                    f"{error.message}; it said: {words}", sent=error.sent, hint=error.hint
                ) from error
            raise
        channel.on_closed = lambda reason: self._broke(session, reason)
        return session

    def _adopt(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve another event loop; what lived on the former one ended with it."""
        self._loop = loop
        self._opening = asyncio.Lock()
        self._session = None
        self._idle_timer = None
        self._tasks, self._closings = set(), set()

    # watching ----------------------------------------------------------------------------------

    async def _watch(self, session: Session) -> None:
        """Keep open the stream on which a stateless server says what changed."""
        if not session.modern:
            for uri in self._subscriptions:
                with contextlib.suppress(WireError, TimeoutError):
                    await session.request("resources/subscribe", {"uri": uri}, Call(30))
            return
        wanted: dict[str, Any] = {
            flag: True
            for key, flag in _LISTED.items()
            if isinstance(offer := session.capabilities.get(key), dict) and offer.get("listChanged")
        }
        if self._subscriptions:
            wanted["resourceSubscriptions"] = sorted(self._subscriptions)
        if not wanted:
            return
        pause = 1.0
        while self._session is session:
            started = time.monotonic()
            with contextlib.suppress(WireError, TimeoutError):
                await session.request(
                    "subscriptions/listen", {"notifications": wanted}, Call(86_400)
                )
            # There is no replay: whatever changed meanwhile is only found by asking.
            for method in ("tools", "prompts", "resources"):
                if _LISTED[method] in wanted and time.monotonic() - started > 1:
                    self._on_notification(f"notifications/{method}/list_changed", {})
            pause = 1.0 if time.monotonic() - started > 30 else min(2 * pause, _LONGEST_WAIT)
            await asyncio.sleep(pause)

    async def _check_alive(self, session: Session) -> None:
        """After a call that took too long: a server that does not even answer this is ended."""
        if session.channel.each_request_alone:
            return
        method = "server/discover" if session.modern else "ping"
        try:
            await session.request(method, {}, Call(_ALIVE_WITHIN))
        except TimeoutError:
            # One that works off its calls one by one answers none of them meanwhile; each of those
            # calls ends in its own time and asks here again.
            if self._in_use == 0:
                self._broke(session, f"it did not answer within {_ALIVE_WITHIN:g} s")
        except WireError:
            pass  # it answered, or its end is seen to elsewhere

    def _keep(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _close(self, channel: Channel) -> None:
        task = asyncio.ensure_future(channel.aclose())
        self._closings.add(task)
        task.add_done_callback(self._closings.discard)

    def _broke(self, session: Session, reason: str) -> None:
        """The server went away by itself."""
        if self._session is not session:
            return
        logger.info("server %s: %s", self.name, reason)
        self._session = None
        self._failed(reason)
        self._close(session.channel)

    def _forget(self, session: Session, error: ConnectionLost) -> bool:
        """Drop a session that failed; whether the request may be tried in a new one."""
        lost = isinstance(error, SessionLost)
        safe = lost or (not error.sent and not isinstance(error, AuthRequired))
        alive = session.channel.each_request_alone and not lost
        if self._session is session and not alive:
            self._session = None
            if not lost:
                self._failed(error.message)
            self._close(session.channel)
        return safe and not alive

    def _failed(self, reason: str) -> None:
        now = time.monotonic()
        stable = self._opened_at > 0 and now - self._opened_at >= _STABLE
        self._failures = 1 if stable else self._failures + 1
        self._last_error = reason
        # The first failure may be tried again at once; then 1, 2, 4 … seconds later.
        wait = 0.0 if self._failures <= 1 else min(2.0 ** (self._failures - 2), _LONGEST_WAIT)
        self._not_before = now + wait
        self._opened_at = 0.0

    # resting -----------------------------------------------------------------------------------

    def _rest(self) -> None:
        self._idle_since = time.monotonic()
        if self._idle_timer is None and self._loop is not None and self._session is not None:
            self._idle_timer = self._loop.call_later(self._idle_timeout, self._maybe_stop)

    def _maybe_stop(self) -> None:
        self._idle_timer = None
        if self._session is None or self._in_use or self._loop is None:
            return
        left = self._idle_since + self._idle_timeout - time.monotonic()
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._maybe_stop)
            return
        logger.info("server %s was idle and is stopped", self.name)
        session, self._session = self._session, None
        self._close(session.channel)


def subscription_of(params: Message) -> Any:
    """To which listening stream a notification belongs, or None."""
    meta = params.get("_meta")
    return meta.get(SUBSCRIPTION_KEY) if isinstance(meta, dict) else None
