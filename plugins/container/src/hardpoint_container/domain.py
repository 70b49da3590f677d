"""The container domain: which sandbox a call gets, and when sandboxes start and end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs

from hardpoint import ToolOutput
from hardpoint.errors import DomainUnavailable, SandboxError, ToolTimeout
from hardpoint.interfaces import ExecutionDomain, Invocation, JobContext, LockEntry
from hardpoint_container.background import Background, OwnBackground
from hardpoint_container.config import ContainerConfig
from hardpoint_container.engine import Engine, SandboxSpec
from hardpoint_container.sandbox import ContainerSandbox
from hardpoint_container.session import Session, SessionKey, new_name
from hardpoint_container.workspace import data_folder, survey

if TYPE_CHECKING:
    from hardpoint.net import Binding, PinnedClient
    from hardpoint_container.egress import EgressGate, Exit

logger = logging.getLogger(__name__)

LATE = 3.0
"""Seconds after the end of a call's time in which a command that was ended may still say how."""


class ContainerDomain(ExecutionDomain):
    """Runs tools whose commands and files live in a container."""

    killable: ClassVar[bool] = True

    def __init__(
        self,
        config: ContainerConfig | None = None,
        *,
        engine: Engine | None = None,
        way_out: Callable[[JobContext], Exit] | None = None,
    ) -> None:
        """Describe a domain; nothing is started before the first call.

        Args:
            config: The settings.
            engine: What makes sandboxes; the configured one when absent.
            way_out: What an egress gate sends requests with; the core's services when absent.
        """
        self.config = config or ContainerConfig()
        self._engine = engine
        self._way_out = way_out or exit_of
        self._sessions: dict[SessionKey, Session] = {}
        self._starting: dict[SessionKey, asyncio.Task[Session]] = {}
        self._changed = asyncio.Condition()
        self._background = Background(self.config)
        self._closed = False
        self._sweeper: asyncio.Task[None] | None = None
        self._reaper: asyncio.Task[None] | None = None

    # what runs ----------------------------------------------------------------------------------

    async def run(self, invocation: Invocation) -> ToolOutput:
        started = time.monotonic()
        timeout = invocation.timeout.total_seconds()
        try:
            async with asyncio.timeout(timeout + LATE), self.session(invocation.context) as session:
                env = {**invocation.context.extra_env, **_credentials(invocation, session)}
                others = self._others(invocation.context)
                sandbox = ContainerSandbox(session, started + timeout, env, others)
                output = await invocation.execute(sandbox)
        except TimeoutError:
            raise ToolTimeout(timedelta(seconds=timeout)) from None
        if sandbox.cut_short:
            raise ToolTimeout(timedelta(seconds=timeout), partial=output)
        where = {"engine": self.config.engine, "image": session.image}
        return attrs.evolve(output, meta={**output.meta, "sandbox": where})

    @asynccontextmanager
    async def session(self, context: JobContext) -> AsyncIterator[Session]:
        """The sandbox of a context, running, and not closed before the block ends.

        Raises:
            DomainUnavailable: It cannot be had.
            SandboxError: It would be weaker than the config asks for.
        """
        if self._closed:
            raise DomainUnavailable("the container domain is closed; nothing was started")
        key = SessionKey.of(context)
        session = await self._acquire(key, context)
        try:
            yield session
        finally:
            session.active -= 1
            session.last_used = time.monotonic()
            if not session.alive and not session.active:
                await session.close()
            async with self._changed:
                self._changed.notify_all()

    async def _acquire(self, key: SessionKey, context: JobContext) -> Session:
        while True:
            session = self._sessions.get(key)
            if session is not None and session.alive:
                session.active += 1
                return session
            starting = self._starting.get(key)
            if starting is None:
                if session is not None:
                    # Gone, or spent; who still uses it closes it.
                    del self._sessions[key]
                    if not session.active:
                        await session.close()
                    continue
                starting = self._starting[key] = asyncio.create_task(self._start(key, context))
                starting.add_done_callback(lambda _: self._starting.pop(key, None))
            # Other callers wait for the same start; one of them going away does not end it.
            await asyncio.shield(starting)

    async def _start(self, key: SessionKey, context: JobContext) -> Session:
        await self._make_room()
        session = self._sessions[key] = await self._open(self._spec(key), context)
        self._watch()
        return session

    def _others(self, context: JobContext) -> OwnBackground:
        """The background commands of a context's session."""
        key = SessionKey.of(context)

        async def opened(job_id: str, seconds: float) -> Session:
            spec = self._spec(key)
            config = attrs.evolve(self.config, max_life=seconds)
            labels = {**spec.labels, "hardpoint.background": job_id}
            return await self._open(attrs.evolve(spec, config=config, labels=labels), context)

        return OwnBackground(self._background, key, opened)

    async def _open(self, spec: SandboxSpec, context: JobContext) -> Session:
        gate = None
        try:
            if self.config.network == "proxy":
                gate, spec = await self._open_gate(spec, context)
            return await Session.start(self.engine, spec, gate)
        except BaseException:
            if gate is not None:
                await gate.close()
            raise

    async def _open_gate(
        self, spec: SandboxSpec, context: JobContext
    ) -> tuple[EgressGate, SandboxSpec]:
        from hardpoint_container.egress import EgressGate

        gate = EgressGate(self.config.egress, self._way_out(context))
        if gate.rules.problems:
            raise SandboxError(f"[plugin.container.egress]: {'; '.join(gate.rules.problems)}")
        folder = await gate.open(spec.uid)
        return gate, attrs.evolve(spec, gate=folder, env=gate.standins.environment())

    def _spec(self, key: SessionKey) -> SandboxSpec:
        labels = {"hardpoint.session": key.label}
        if key.workspace is None:
            return SandboxSpec(
                name=new_name(),
                config=self.config,
                workspace=None,
                uid=1000,
                gid=1000,
                labels=labels,
            )
        ground = survey(key.workspace, self.config)
        labels["hardpoint.workspace"] = str(ground.path)
        return SandboxSpec(
            name=new_name(),
            config=self.config,
            workspace=ground.path,
            uid=ground.uid,
            gid=ground.gid,
            labels=labels,
        )

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = make_engine(self.config)
        return self._engine

    # how many, how long -------------------------------------------------------------------------

    async def _make_room(self) -> None:
        """Wait until one more sandbox may start; the longest idle one makes room."""
        async with self._changed:
            while len(self._sessions) + len(self._starting) > self.config.max_sandboxes:
                idle = [key for key, session in self._sessions.items() if not session.active]
                if not idle:
                    await self._changed.wait()
                    continue
                oldest = min(idle, key=lambda key: self._sessions[key].last_used)
                await self._sessions.pop(oldest).close()

    def _watch(self) -> None:
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep())
        if self._reaper is None:
            self._reaper = asyncio.create_task(self._reap())

    async def _sweep(self) -> None:
        """Close sandboxes that nobody has used for a while, and forget dead ones."""
        while True:
            await asyncio.sleep(min(30.0, self.config.idle / 4))
            now = time.monotonic()
            for key, session in list(self._sessions.items()):
                late = now - session.last_used > self.config.idle
                if not session.active and (late or not session.alive):
                    del self._sessions[key]
                    await session.close()

    async def _reap(self) -> None:
        try:
            await self.engine.reap()
        except DomainUnavailable as error:
            logger.warning("could not look for left-over sandboxes: %s", error)

    async def __aenter__(self) -> Self:
        self._closed = False
        self._background.open()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self._closed = True
        await self._background.close()
        for task in (self._sweeper, self._reaper, *self._starting.values()):
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))
        self._sweeper = self._reaper = None
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(session.close() for session in sessions))

    def credential_problem(self, secret: str) -> str | None:
        if self.config.network != "proxy":
            return 'only network = "proxy" puts secrets into requests'
        if secret not in {each.name for each in self.config.egress.secrets}:
            return "[[plugin.container.egress.secrets]] does not name it"
        return None

    async def lock_entries(self) -> Sequence[LockEntry]:
        digest = await self.engine.image_digest()
        return [LockEntry("image", self.config.image, digest)] if digest else []

    def explain(self) -> Mapping[str, Any]:
        config = self.config
        return {
            "engine": config.engine,
            "policy": config.policy,
            "network": config.network,
            "memory": config.memory,
            "cpus": config.cpus,
            "pids": config.pids,
            "contained": "processes, files outside the workspace, network, devices, memory, time",
            "not_contained": "what commands do to the files of the workspace",
        }


def _credentials(invocation: Invocation, session: Session) -> Mapping[str, str]:
    """The stand-ins that the caller's job was given, by variable.

    Raises:
        SandboxError: There is nothing that would exchange them.
        NotAuthorized: One is for a secret that commands may not use.
    """
    wanted = invocation.context.credentials
    if not wanted:
        return {}
    if session.gate is None:
        raise SandboxError("the call's credentials need [plugin.container] network = 'proxy'")
    return session.gate.standins.of(wanted)


def exit_of(context: JobContext) -> Exit:
    """The way out of one user's sandboxes: the core's guarded client, secrets and audit.

    Raises:
        SandboxError: The context belongs to no call.
    """
    from hardpoint_container.egress import Exit

    if context.handle is None or context.handle.services is None:
        raise SandboxError("network = 'proxy' works only in calls made by a Runtime")
    services: Any = context.handle.services
    user, session = context.user_id, context.session_id
    guard = services.http().guard

    def record(fields: Mapping[str, Any]) -> None:
        services.audit.record("egress", user=user, session=session, **fields)

    def client(bindings: Sequence[Binding]) -> PinnedClient:
        # Whether plain http may be used was decided by the rules.
        wider = attrs.evolve(guard, allow_http=True)
        made: PinnedClient = services.http(bindings, guard=wider)
        return made

    return Exit(client=client, record=record, guard=guard)


def make_engine(config: ContainerConfig) -> Engine:
    """The engine that the config names."""
    if config.engine == "bubblewrap":
        from hardpoint_container.bubblewrap import BubblewrapEngine

        return BubblewrapEngine(config)
    from hardpoint_container.podman import PodmanEngine

    return PodmanEngine(config, data_folder())
