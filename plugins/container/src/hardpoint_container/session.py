"""One warm sandbox: started once, used by many calls, closed when idle."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs

from hardpoint.errors import DomainUnavailable, SandboxError
from hardpoint.interfaces import JobContext
from hardpoint_container.client import OnOutput, RunnerClient
from hardpoint_container.config import ContainerConfig, size_in_bytes
from hardpoint_container.engine import Engine, SandboxSpec, shortcomings
from hardpoint_container.execution import Execution, StartFailed
from hardpoint_container.runner_source import runner_arguments
from hardpoint_container.workspace import data_folder

if TYPE_CHECKING:
    from hardpoint_container.egress import EgressGate

logger = logging.getLogger(__name__)

NEEDED_MEMORY = 0.25
RETIREMENT = 0.9
"""The share of its life after which a sandbox takes no new calls: none should die with it."""


@attrs.frozen
class SessionKey:
    """Sandboxes are shared by the calls of one user's session in one workspace, by nobody else."""

    user_id: str
    session_id: str
    workspace: Path | None

    @classmethod
    def of(cls, context: JobContext) -> Self:
        workspace = context.workspace and context.workspace.resolve()
        return cls(context.user_id, context.session_id, workspace)

    @property
    def label(self) -> str:
        text = f"{self.user_id}\0{self.session_id}\0{self.workspace}"
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


class Session:
    """A running sandbox and its client."""

    def __init__(
        self,
        engine: Engine,
        spec: SandboxSpec,
        client: RunnerClient,
        gate: EgressGate | None = None,
    ) -> None:
        self.engine = engine
        self.spec = spec
        self.client = client
        self.gate = gate
        self.image = ""
        """What commands see as their system, as the engine names it."""
        self.active = 0
        self.full = False
        """The workspace is over its size."""
        self.spent = False
        """What commands left in memory lets no other one run; the next call gets a new sandbox."""
        self.last_used = time.monotonic()
        self.retires = self.last_used + RETIREMENT * spec.config.max_life
        self.closed = False

    @classmethod
    async def start(
        cls, engine: Engine, spec: SandboxSpec, gate: EgressGate | None = None
    ) -> Session:
        """Start a sandbox and check by the kernel's account that it is as strong as asked.

        Raises:
            DomainUnavailable: It cannot be started.
            SandboxError: This machine cannot enforce a limit; the hint says how to allow that.
        """
        launch = await engine.launch(spec, runner_arguments(spec.expected()))
        try:
            client = await RunnerClient.start(launch, timeout=spec.config.start_timeout)
        except StartFailed as failed:
            await engine.remove(spec.name)
            raise engine.unavailable(str(failed)) from failed
        except BaseException:
            await asyncio.shield(engine.remove(spec.name))
            raise
        session = cls(engine, spec, client, gate)
        try:
            weak = shortcomings(spec, client.facts, engine.promises)
        except (KeyError, TypeError) as error:
            weak = [f"its runner did not say {error}"]
        if weak:
            await session.close()
            raise SandboxError(
                f"the sandbox is weaker than asked: {'; '.join(weak)}",
                hint="see docs/how-to/run-in-podman.md; limits that this machine cannot enforce can"
                " be allowed with allow_unenforced under [plugin.container]",
            )
        session.image = await engine.image_digest()
        return session

    @property
    def config(self) -> ContainerConfig:
        return self.spec.config

    @property
    def alive(self) -> bool:
        """Whether a new call may still use it."""
        in_time = time.monotonic() < self.retires
        return in_time and not self.closed and not self.spent and self.client.alive

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes,
        timeout: timedelta,
        keep: int,
        most: int,
        on_output: OnOutput | None,
        gather: bool = True,
    ) -> Execution:
        result = await self._guard(
            lambda: self.client.exec(
                argv,
                cwd=cwd,
                env=env,
                stdin=stdin,
                timeout=timeout,
                keep=keep,
                most=most,
                on_output=on_output,
                gather=gather,
            )
        )
        assert isinstance(result, Execution)
        self.spent = result.out_of_memory and result.memory_left < NEEDED_MEMORY
        await self.measure()
        return result

    async def file(self, call: str, **arguments: Any) -> tuple[dict[str, Any], bytes]:
        answer: tuple[dict[str, Any], bytes] = await self._guard(
            lambda: self.client.file(call, **arguments)
        )
        return answer

    async def _guard(self, request: Callable[[], Any]) -> Any:
        try:
            return await request()
        except (SandboxError, DomainUnavailable):
            if not self.client.alive:
                await asyncio.shield(self.engine.remove(self.spec.name))
            raise

    async def measure(self) -> None:
        """See whether the workspace is over its size, if it has one."""
        if self.config.workspace_size is not None:
            usage, _ = await self.client.file("usage")
            self.full = usage["bytes"] > size_in_bytes(self.config.workspace_size)

    async def close(self) -> None:
        """End every process inside and remove the sandbox."""
        if self.closed:
            return
        self.closed = True
        await self.client.close()
        await self.engine.remove(self.spec.name)
        if self.gate is not None:
            await self.gate.close()
            if self.config.egress.mode == "audit":
                from hardpoint_container.egress_rules import proposals_file

                self.gate.rules.keep_proposals(proposals_file(data_folder()))


def new_name() -> str:
    return f"hardpoint-{os.getpid()}-{os.urandom(6).hex()}"
