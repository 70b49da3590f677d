"""Put another configuration in force in a running core, as a whole or not at all.

Everything is made before anything changes; then all of it changes at once; then what is new
starts. When it cannot start, all of it changes back. What is gone is closed when the last call that
began under the old configuration has ended. What stays as it was runs on untouched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from hardpoint import _build
from hardpoint._build import Parts
from hardpoint._core import Core
from hardpoint._record import Labels
from hardpoint.config import Config
from hardpoint.errors import ConfigError
from hardpoint.interfaces import ExecutionDomain
from hardpoint.plugins import PluginManager
from hardpoint.policy.grants import StoredGrants
from hardpoint.policy.loops import LoopGuard
from hardpoint.registry import ToolRegistry
from hardpoint.secrets import Secrets

logger = logging.getLogger(__name__)

_FIXED: Final = ("store", "audit", "network", "jobs", "telemetry")
"""Tables that the parts of a runtime are built on, so that only a start puts them in force."""
_FIXED_OUTPUT: Final = ("keep_bytes", "keep_seconds")
_OF_THE_CORE: Final = "hardpoint"


async def reload(core: Core, parts: Parts) -> None:
    """Put another configuration in force.

    Raises:
        ConfigError: It cannot be used; the old one stays in force.
        PluginError: As before, and the old one stays in force.
        Exception: What a new extension raised when it started; the old one stays in force.
    """
    async with core.reloading:
        refuse_fixed(core.config, parts.config)
        change = _Change(core, parts)
        change.commit()
        try:
            await change.start()
        except BaseException:
            await change.undo()
            raise
        change.retire()


def refuse_fixed(old: Config, new: Config) -> None:
    """Raise `ConfigError` for settings that cannot change while the runtime runs."""
    changed = [f"[{name}]" for name in _FIXED if getattr(old, name) != getattr(new, name)]
    changed += [
        f"[output] {name}"
        for name in _FIXED_OUTPUT
        if getattr(old.output, name) != getattr(new.output, name)
    ]
    if changed:
        raise ConfigError(
            f"{', '.join(changed)} cannot change while the program runs; the former settings stay"
            " in force",
            hint="start it again to put them in force",
        )


class _Change:
    """The way from what is in force to what another configuration asks for, and back."""

    def __init__(self, core: Core, parts: Parts) -> None:
        self._core = core
        self._former_plugins = core.plugins
        self._plugins = core.plugins.changed(parts.config, load_installed=parts.installed_plugins)
        self._staged = self._plugins.registry
        self._plugins.keep_equal(core.plugins)
        self._refuse_failures()
        self._refuse_fixed_executor(parts.config)
        self._parts = parts
        self._former_registry: ToolRegistry | None = None
        self._former: dict[str, Any] = {}
        self._owners = _owners_that_change(core.plugins, self._plugins)
        self._fields = self._make_fields()
        self._former_secrets = core.services.secrets
        self._started: list[Any] = []

    def _refuse_failures(self) -> None:
        """A plugin that worked before does not end because its new settings cannot be used."""
        for name, error in self._plugins.errors.items():
            before = self._former_plugins.records.get(name)
            if before is not None and before.status == "active":
                raise error

    def _refuse_fixed_executor(self, config: Config) -> None:
        name = config.jobs.executor
        if name is None:
            return
        known = [m.extension("job_executor").get(name) for m in (self._core.plugins, self._plugins)]
        if known[0] is not known[1]:
            raise ConfigError(
                f"the job executor {name!r} cannot change while the program runs",
                hint="start it again to put the new settings in force",
            )

    def _make_fields(self) -> Mapping[str, Any]:
        """The parts of the core that change; those whose settings are the same do not."""
        core, parts, plugins = self._core, self._parts, self._plugins
        old, new, services = core.config, parts.config, core.services
        store, audit = services.open_store, services.audit
        rules = _build.read_rules(new)
        fields: dict[str, Any] = {
            "config": new,
            "plugins": plugins,
            "rules": rules,
            "mode": new.policy.mode,
            "approvers": _build.approvers_of(parts, plugins),
            "cleaner": _build.cleaner_of(new, plugins, core.leaks, services.results),
            "recorder": _build.recorder_of(plugins, audit),
            "lock": _build.lock_of(new, core.registry, plugins),
        }
        if _build.needs_labels(old, core.rules) != _build.needs_labels(new, rules):
            fields["labels"] = Labels(store, active=_build.needs_labels(new, rules))
        if old.policy.loop_guard != new.policy.loop_guard:
            fields["loops"] = LoopGuard(new.policy.loop_guard, core.clock.monotonic)
        if old.approval.expires != new.approval.expires:
            fields["grants"] = StoredGrants(store, core.clock, valid_seconds=new.approval.expires)
        if old.budget != new.budget:
            fields["budget"] = _build.budget_of(parts, store)
        if self._limiter_changes(old, new):
            fields["limiter"] = _build.limiter_of(parts, plugins, store)
        return fields

    def _limiter_changes(self, old: Config, new: Config) -> bool:
        kept = ("backend", "max_keys")
        if any(getattr(old.limits, name) != getattr(new.limits, name) for name in kept):
            return True
        backend = new.limits.backend
        return backend in self._plugins.limiters and (
            self._plugins.limiters[backend].value is not self._core.limiter
        )

    # there and back ----------------------------------------------------------------------------

    def commit(self) -> None:
        """Make the new configuration the one in force."""
        core = self._core
        self._former = {name: getattr(core, name) for name in self._fields}
        for name, value in self._fields.items():
            setattr(core, name, value)
        self._plugins.registry = core.registry
        self._former_registry = core.registry.exchange(self._owners, self._staged)
        self._settled()

    async def undo(self) -> None:
        """Make the old configuration the one in force, and stop what was started for the new."""
        core = self._core
        for name, value in self._former.items():
            setattr(core, name, value)
        core.services.secrets = self._former_secrets
        assert self._former_registry is not None
        newer = core.registry.exchange(self._owners, self._former_registry)
        self._settled()
        running = core.registry.toolsets().values()
        for value in reversed(self._started):
            await _quietly(_build.stop_one, value)
        for toolset in newer.toolsets().values():
            if not any(toolset is each for each in running):
                await _quietly(core.leave, toolset)

    def _settled(self) -> None:
        core = self._core
        core.generation += 1
        core.forget_plans()
        core.change_gates()
        core.registry.touch()

    async def start(self) -> None:
        """Let what is new meet the core."""
        core = self._core
        _build.check_settings(core, strict=core.origin in ("cli", "gateway"))
        await self._change_secrets()
        await _build.check_secrets(core)
        running = _build.extensions_of(self._former_plugins)
        for value in _build.extensions_of(self._plugins):
            if not any(value is each for each in running):
                self._started.append(value)
                await _build.start_one(core, value)

    async def _change_secrets(self) -> None:
        core, new = self._core, self._parts.config
        stores = [m.extension("secret_store") for m in (self._former_plugins, self._plugins)]
        used = [[known.get(name) for name in new.secrets.stores] for known in stores]
        same = all(one is other for one, other in zip(*used, strict=True))
        if same and self._former["config"].secrets == new.secrets:
            return
        services = core.services
        services.secrets = Secrets.from_config(new, stores[1], services.audit, core.leaks.learn)
        await services.secrets.learn_all()

    # what is gone ------------------------------------------------------------------------------

    def retire(self) -> None:
        """Close what is gone when the last call that may use it has ended."""
        core = self._core
        assert self._former_registry is not None
        stays = [*core.registry.toolsets().values(), *_domains(self._plugins)]
        stays += _build.extensions_of(self._plugins)
        gone: list[tuple[Callable[[Any], Awaitable[Any]], Any]] = []
        for value in _build.extensions_of(self._former_plugins):
            gone.append((_build.stop_one, value))
        for thing in (*self._former_registry.toolsets().values(), *_domains(self._former_plugins)):
            gone.append((core.leave, thing))
        gone = [each for each in gone if not any(each[1] is one for one in stays)]
        if "limiter" in self._fields:
            limiter = self._former["limiter"]
            gone.append((lambda _: limiter.aclose(), limiter))
        if not gone:
            return
        task = asyncio.ensure_future(_close_later(core, core.generation - 1, gone))
        core.retiring.add(task)
        task.add_done_callback(core.retiring.discard)


async def _close_later(
    core: Core, generation: int, gone: Sequence[tuple[Callable[[Any], Awaitable[Any]], Any]]
) -> None:
    await core.calls_ended(generation)
    for close, thing in reversed(gone):
        await _quietly(close, thing)


async def _quietly(close: Callable[[Any], Awaitable[Any]], thing: Any) -> None:
    try:
        await close(thing)
    except Exception:  # foreign code; the others must still end
        logger.exception("%s did not close cleanly", type(thing).__name__)


def _domains(plugins: PluginManager) -> Sequence[ExecutionDomain]:
    return [owned.value for owned in plugins.domains.values()]


def _owners_that_change(former: PluginManager, new: PluginManager) -> frozenset[str]:
    """Whose tools and toolsets are exchanged: those of plugins that were not taken over."""
    names = {*former.records, *new.records}
    touched = {n for n in names if former.records.get(n) is not new.records.get(n)}
    records = [m.records[n] for m in (former, new) for n in touched if n in m.records]
    return frozenset(record.owner for record in records) - {_OF_THE_CORE}
