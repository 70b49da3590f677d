"""The parts of a runtime that a call passes through, put together once. No step is taken here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from hardpoint._clean import Cleaner
from hardpoint._plan import Plan, make_plan
from hardpoint._record import Labels, Recorder
from hardpoint.config import Config
from hardpoint.context import JobContext, Origin
from hardpoint.domains import OrchestratorDomain
from hardpoint.errors import (
    DomainUnavailable,
    ExternalService,
    HardpointError,
    ToolError,
    ToolNotFound,
)
from hardpoint.interfaces import Approver, Clock, ExecutionDomain, RateLimiterBackend, Toolset
from hardpoint.plugins import PluginManager
from hardpoint.policy.conditions import Facts
from hardpoint.policy.loops import LoopGuard
from hardpoint.policy.rules import Rule
from hardpoint.protected import PROTECTED_OWNERS
from hardpoint.registry import ToolRegistry
from hardpoint.tools import ToolDefinition

logger = logging.getLogger(__name__)

_KNOWN_BEFORE: Final = frozenset(("user", "origin", "domain"))
"""The conditions of a rule that do not depend on the call."""


class Core:
    """What `_call` works with."""

    def __init__(
        self,
        *,
        config: Config,
        registry: ToolRegistry,
        plugins: PluginManager,
        rules: Sequence[Rule],
        limiter: RateLimiterBackend,
        grants: Any,
        approvers: Sequence[tuple[str, Approver]],
        leaks: Any,
        cleaner: Cleaner,
        recorder: Recorder,
        labels: Labels,
        budget: Any,
        clock: Clock,
        origin: Origin,
    ) -> None:
        self.config = config
        self.registry = registry
        self.plugins = plugins
        self.rules = rules
        self.limiter = limiter
        self.grants = grants
        self.approvers = approvers
        self.leaks = leaks
        self.cleaner = cleaner
        self.recorder = recorder
        self.labels = labels
        self.budget = budget
        self.clock = clock
        self.around: Callable[[str], AbstractContextManager[None]] | None = None
        """Entered around the body of each call, by its id; for telemetry."""
        self.origin = origin
        self.mode = config.policy.mode
        self.boot_id = secrets.token_hex(4)
        self.loops = LoopGuard(config.policy.loop_guard, clock.monotonic)
        self.orchestrator = OrchestratorDomain()
        self.services: Any = None
        """The `CoreServices`; set by the runtime, which builds them around this object."""
        self.lock: Any = None
        """The `Guard` of the lock file in force; None without one."""
        self._plans: dict[str, tuple[int, Plan]] = {}
        self._places = config.limits.concurrency
        self._gate = asyncio.Semaphore(self._places)
        self._tool_gates: dict[tuple[str, int], asyncio.Semaphore] = {}
        self._opened: dict[int, asyncio.Future[None]] = {}
        self._entered: dict[int, Toolset | ExecutionDomain] = {}
        self.generation = 0
        """Goes up when another configuration is in force."""
        self._running: dict[int, int] = {}
        self._ended: dict[int, asyncio.Event] = {}
        self._in_a_hurry = False
        self.retiring: set[asyncio.Task[None]] = set()
        self.reloading = asyncio.Lock()
        self._lock = threading.Lock()
        self.closed = False

    # plans -------------------------------------------------------------------------------------

    def plan(self, name: str) -> Plan | None:
        """The plan of a registered tool; made anew after every change of the registry."""
        version = self.registry.version
        known = self._plans.get(name)
        if known is not None and known[0] == version:
            return known[1]
        entry = self.registry.entry(name)
        if entry is None:
            self._plans.pop(name, None)
            return None
        if known is not None and known[1].entry is entry:
            plan = known[1]
        else:
            plan = make_plan(entry, self.config, self.plugins, self.rules, self.orchestrator)
            plan.generation = self.generation
        self._plans[name] = (version, plan)
        return plan

    def forget_plans(self) -> None:
        self._plans.clear()

    def fresh_plans(self) -> None:
        """Stop sharing plans with the core that this one is a copy of."""
        self._plans = {}

    def absence(self, name: str) -> tuple[str, str | None]:
        """Why a tool is not there: `disabled` with the reason, or `missing` with a hint."""
        owner = PROTECTED_OWNERS.get(name)
        failed: list[str] = []
        for record in self.plugins.records.values():
            if record.status == "blocked" and owner is not None and record.distribution == owner:
                return "disabled", f"plugin {record.name!r} is switched off ({record.reason})"
            if record.status == "failed" and owner in (None, record.distribution):
                failed.append(record.reason or record.name)
        if failed:
            return "missing", f"a plugin could not be loaded: {'; '.join(failed)}"
        if owner is not None and all(
            r.distribution != owner for r in self.plugins.records.values()
        ):
            return "missing", f"pip install {owner}" if owner != "hardpoint" else None
        return "missing", None

    # opening what opens late --------------------------------------------------------------------

    async def enter(self, plan: Plan, generation: int) -> None:
        """Enter the tool's toolset and domain at their first call.

        Args:
            plan: Of the tool.
            generation: The configuration that the call counts for now. What an older plan names may
                be closed already when that is a newer one.

        Raises:
            ToolNotFound: The tool was taken out while the call waited for a person.
            ExternalService: The toolset cannot be reached.
            DomainUnavailable: The domain cannot be opened.
        """
        if plan.generation < generation and not self._is_in_force(plan):
            raise ToolNotFound(
                plan.entry.name,
                hint="it was taken out or replaced while the call waited; call again",
            )
        if plan.entry.toolset is not None:
            await self._enter_once(plan.entry.toolset, f"toolset {plan.entry.toolset.name!r}")
        if plan.domain is not None and plan.domain is not self.orchestrator:
            await self._enter_once(plan.domain, f"domain {plan.domain_name!r}")

    def _is_in_force(self, plan: Plan) -> bool:
        entry = self.registry.entry(plan.entry.name)
        if entry is None or entry.toolset is not plan.entry.toolset:
            return False
        if plan.domain is None or plan.domain is self.orchestrator:
            return True
        domain = self.plugins.domains.get(plan.domain_name)
        return domain is not None and domain.value is plan.domain

    async def _enter_once(self, thing: Toolset | ExecutionDomain, what: str) -> None:
        opened = self._opened.get(id(thing))
        if opened is None:
            opened = asyncio.get_running_loop().create_future()
            self._opened[id(thing)] = opened
            try:
                await thing.__aenter__()
            except BaseException as error:
                del self._opened[id(thing)]
                opened.set_exception(_cannot_open(thing, what, error))
                opened.exception()  # retrieved even when nobody else waits
                if not isinstance(error, Exception):
                    raise
                raise _cannot_open(thing, what, error) from error
            self._entered[id(thing)] = thing
            opened.set_result(None)
            return
        await asyncio.shield(opened)

    async def leave(self, thing: Toolset | ExecutionDomain) -> None:
        """Leave a toolset or domain for good; nothing where no call has entered it."""
        self._opened.pop(id(thing), None)
        entered = self._entered.pop(id(thing), None)
        if entered is not None:
            await entered.__aexit__(None, None, None)

    async def close(self) -> None:
        """Leave toolsets and domains, last opened first; no call begins any more."""
        self.closed = True
        failures: list[Exception] = []
        for thing in reversed(list(self._entered.values())):
            try:
                await self.leave(thing)
            except Exception as error:  # foreign code; the others must still be left
                failures.append(error)
        self._opened.clear()
        if failures:
            raise ExceptionGroup("not everything could be left", failures)

    # generations -------------------------------------------------------------------------------

    def begin_call(self) -> int:
        """Note that a call runs under the configuration in force; hand it back to `end_call`."""
        generation = self.generation
        self._running[generation] = self._running.get(generation, 0) + 1
        return generation

    def end_call(self, generation: int) -> None:
        left = self._running[generation] - 1
        if left:
            self._running[generation] = left
            return
        del self._running[generation]
        for event in self._ended.values():
            event.set()

    @contextlib.contextmanager
    def outside(self, call: Any) -> Iterator[None]:
        """While a call waits for a person it holds up nothing that is to be closed."""
        self.end_call(call.generation)
        try:
            yield
        finally:
            call.generation = self.begin_call()

    async def calls_ended(self, generation: int) -> None:
        """Wait until no call runs any more that began under this configuration or an older one."""
        event = self._ended.setdefault(generation, asyncio.Event())
        while not self._in_a_hurry and any(each <= generation for each in self._running):
            event.clear()
            await event.wait()
        self._ended.pop(generation, None)

    async def close_retiring(self) -> None:
        """Close now what still waits for its last calls."""
        self._in_a_hurry = True
        for event in self._ended.values():
            event.set()
        await asyncio.gather(*self.retiring, return_exceptions=True)

    def change_gates(self) -> None:
        """Count places as the configuration in force says, and anew where it says another number.

        Calls that run give theirs back where they had them.
        """
        if self._places != self.config.limits.concurrency:
            self._places = self.config.limits.concurrency
            self._gate = asyncio.Semaphore(self._places)

    # places ------------------------------------------------------------------------------------

    async def take_place(self, plan: Plan, ancestors: Sequence[str]) -> Sequence[asyncio.Semaphore]:
        """Wait for a place among the running calls; give it back with `leave_place`.

        A nested call uses the place of its root, and of an ancestor that runs the same tool.
        """
        gates: list[asyncio.Semaphore] = []
        if not ancestors:
            gates.append(self._gate)
        if plan.config.concurrency is not None and plan.entry.name not in ancestors:
            gates.append(self._tool_gate(plan))
        for position, gate in enumerate(gates):
            try:
                await gate.acquire()
            except BaseException:
                self.leave_place(gates[:position])
                raise
        return gates

    def leave_place(self, gates: Sequence[asyncio.Semaphore]) -> None:
        for gate in gates:
            gate.release()

    def _tool_gate(self, plan: Plan) -> asyncio.Semaphore:
        places = plan.config.concurrency or 1
        return self._tool_gates.setdefault((plan.entry.name, places), asyncio.Semaphore(places))

    # what is visible ---------------------------------------------------------------------------

    def visible(self, context: JobContext | None = None) -> Sequence[ToolDefinition]:
        """The definitions that a model may see, sorted by name; for a caller, what it may see."""
        return [d for d in self.registry.schemas() if self.is_visible(d.name, context)]

    def is_visible(self, name: str, context: JobContext | None = None) -> bool:
        """Whether a model may see the tool of this name, and so try to call it."""
        config = self.config.tools.get(name)
        if config is not None and not config.enabled:
            return False
        if self.lock is not None and self.services.quarantined(name) is not None:
            return False
        return not any(
            rule.decision == "deny"
            and rule.is_bare
            and rule.names(name)
            and self._denies_all(rule, name, context)
            for rule in self.rules
        )

    def _denies_all(self, rule: Rule, name: str, context: JobContext | None) -> bool:
        """Whether a rule denies every call of a caller, as far as that is known before a call."""
        if rule.is_unconditional:
            return True
        if context is None or not {*rule.when, *rule.unless} <= _KNOWN_BEFORE:
            return False
        entry = self.registry.entry(name)
        root = "job" if context.origin == "job" else self.origin
        facts = Facts(
            domain="" if entry is None else entry.definition.domain,
            effects=(),
            user=context.user_id,
            origins={root} if context.handle is None else {root, "tool"},
        )
        return rule.applies(facts)


def _cannot_open(thing: Any, what: str, error: BaseException) -> ToolError:
    if isinstance(error, ToolError):
        return error
    text = (
        error.message if isinstance(error, HardpointError) else f"{type(error).__name__}: {error}"
    )
    hint = error.hint if isinstance(error, HardpointError) else None
    if isinstance(thing, Toolset):
        return ExternalService(f"{what} cannot be reached: {text}", hint=hint)
    return DomainUnavailable(f"{what} cannot be opened: {text}", hint=hint)
