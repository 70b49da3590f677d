"""Find, block, import, check and register plugins; keep what they registered."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, Literal, Protocol

import attrs
import pluggy

from hardpoint.config import Config
from hardpoint.config.model import LOAD_VARIABLE
from hardpoint.errors import (
    ConfigError,
    HardpointError,
    MissingPlugin,
    PluginApiError,
    PluginLoadError,
)
from hardpoint.hookspecs import API_VERSION, PROJECT, SPECS
from hardpoint.interfaces import Approver, ExecutionDomain, RateLimiterBackend
from hardpoint.protected import install_hint
from hardpoint.registrars import (
    CORE_DOMAINS,
    EXTENSION_KINDS,
    ApproverRegistrar,
    CommandRef,
    CommandRegistrar,
    DomainRegistrar,
    ExtensionRegistrar,
    NamedRegistrar,
    Owned,
    RateLimiterRegistrar,
    ToolRegistrar,
)
from hardpoint.registry import ToolRegistry, goes_on

logger = logging.getLogger(__name__)

Status = Literal["found", "blocked", "failed", "active"]
STRICT_VARIABLE: Final = "HARDPOINT_STRICT_PLUGINS"
CORE_LIMITERS: Final = frozenset({"memory", "sqlite"})


class Loadable(Protocol):
    """What is needed of an entry point."""

    name: str
    dist: Any

    def load(self) -> Any: ...


@attrs.frozen
class PluginRecord:
    """What became of one plugin."""

    name: str
    status: Status = "found"
    distribution: str | None = None
    version: str | None = None
    reason: str | None = None
    """Why it is blocked or failed."""
    hooks: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    from_entry_point: bool = False

    @property
    def owner(self) -> str:
        return self.distribution or self.name


@attrs.frozen
class HookFunction:
    """One plugin's implementation of one hook."""

    owner: str
    plugin: str
    function: Any
    argnames: tuple[str, ...]

    def __call__(self, **given: Any) -> Any:
        return self.function(*[given[name] for name in self.argnames])


class PluginManager:
    """The plugins of one runtime, and everything that they registered."""

    def __init__(
        self, config: Config, registry: ToolRegistry, *, running: ToolRegistry | None = None
    ) -> None:
        """Args:
        config: Which plugins are on, and their settings.
        registry: Where their tools are registered.
        running: The registry that this one will be exchanged into, where it is a copy.
        """
        self.config = config
        self.registry = registry
        self._running = running
        self.records: dict[str, PluginRecord] = {}
        self.errors: dict[str, HardpointError] = {}
        self.configs: dict[str, Any] = {}
        self.domains: dict[str, Owned[ExecutionDomain]] = {}
        self.approvers: dict[str, Owned[Approver]] = {}
        self.limiters: dict[str, Owned[RateLimiterBackend]] = {}
        self.extensions: dict[str, dict[str, Owned[Any]]] = {}
        self.commands: dict[str, Owned[CommandRef]] = {}
        self._pm = pluggy.PluginManager(PROJECT)
        for specs in SPECS:
            self._pm.add_hookspecs(specs)
        self._impls: dict[str, tuple[HookFunction, ...]] = {}
        self._added: dict[str, tuple[Any, str | None]] = {}
        """The modules of the host program, with their distributions."""

    # loading -----------------------------------------------------------------------------------

    def load(
        self,
        entry_points: Sequence[Loadable] | None = None,
        *,
        strict: bool | None = None,
        beside: Collection[str] = (),
    ) -> None:
        """Load every installed plugin that is not switched off, in the order of their names.

        Args:
            entry_points: What to load instead of what is installed.
            strict: Whether any failure stops the start; None: as configuration and variable say.
            beside: Names of plugins that the host program adds next, so that they are not missing.

        Raises:
            ConfigError: A plugin is both required and switched off, or the configuration names a
                plugin that is not installed.
            MissingPlugin: A required plugin is not active.
            PluginError: Any failure, in strict mode.
        """
        found = find_entry_points() if entry_points is None else entry_points
        by_name: dict[str, list[Loadable]] = {}
        for entry_point in found:
            by_name.setdefault(entry_point.name, []).append(entry_point)
        for name in sorted(by_name):
            self._load_one(name, by_name[name])
        self._check_requirements(beside)
        if strict is None:
            strict = self.config.plugins.strict or os.environ.get(STRICT_VARIABLE) == "1"
        if strict:
            for error in self.errors.values():
                raise error

    def add(self, name: str, module: Any, *, distribution: str | None = None) -> None:
        """Register a module, or any object with hook functions, as a plugin of the host program.

        Raises:
            PluginError: It cannot be used; nothing of it stays.
        """
        self._added[name] = (module, distribution)
        record = PluginRecord(name, distribution=distribution)
        reason = self.blocked_reason(name)
        if reason is not None:
            self.records[name] = attrs.evolve(record, status="blocked", reason=reason)
            return
        self._register(record, module)
        self._impls.clear()

    def changed(self, config: Config, *, load_installed: bool) -> PluginManager:
        """The plugins under another configuration. Nothing of this manager or its registry changes.

        Plugins whose settings are the same are taken over with all that they registered; the others
        are registered anew, in a copy of the registry. `ToolRegistry.exchange` puts it in force.

        Raises:
            ConfigError: As for `load`.
            PluginError: As for `load`.
        """
        stay = self._untouched(config)
        owners = {
            record.owner
            for name, record in self.records.items()
            if record.status == "active" and name not in stay
        }
        made = PluginManager(config, self.registry.without(owners), running=self.registry)
        for name in stay:
            made._carry(self, name)
        for name, (module, distribution) in self._added.items():
            if name not in stay:
                made.add(name, module, distribution=distribution)
        if load_installed:
            made.load([e for e in find_entry_points() if e.name not in made.records])
        return made

    def _untouched(self, config: Config) -> Collection[str]:
        """The active plugins that another configuration neither changes nor switches off."""
        next_time = PluginManager(config, self.registry)
        stay = {
            name
            for name, record in self.records.items()
            if record.status == "active"
            and next_time.blocked_reason(name) is None
            and self.config.plugin.get(name) == config.plugin.get(name)
        }
        # What is registered says of whom it is, not of which plugin: a distribution changes whole.
        active = {n: r for n, r in self.records.items() if r.status == "active"}
        owners = {record.owner for name, record in active.items() if name not in stay}
        return {name for name in stay if self.records[name].owner not in owners}

    def _carry(self, other: PluginManager, name: str) -> None:
        """Take an active plugin over from another manager, with everything that it registered."""
        record = other.records[name]
        self._pm.register(other._pm.get_plugin(name), name=name)
        self.records[name] = record
        self.configs[name] = other.configs.get(name)
        if name in other._added:
            self._added[name] = other._added[name]
        for theirs, ours in zip(other.tables(), self.tables(), strict=True):
            ours.update({k: owned for k, owned in theirs.items() if owned.owner == record.owner})

    def tables(self) -> Sequence[dict[str, Owned[Any]]]:
        """Everything that is registered by name, table by table; always in the same order."""
        named: list[Any] = [self.domains, self.approvers, self.limiters, self.commands]
        return [*named, *(self.extensions.setdefault(kind, {}) for kind in EXTENSION_KINDS)]

    def keep_equal(self, former: PluginManager) -> None:
        """Where something equals what runs already under the same name, go on with that."""
        for theirs, ours in zip(former.tables(), self.tables(), strict=True):
            for name, owned in list(ours.items()):
                running = theirs.get(name)
                if (
                    running is not None
                    and running.owner == owned.owner
                    and goes_on(running.value, owned.value)
                ):
                    ours[name] = running

    def blocked_reason(self, name: str) -> str | None:
        """Why a plugin is switched off, or None."""
        if name in self.config.blocked:
            return self.config.blocked[name]
        if self.config.load_only is not None and name not in self.config.load_only:
            return "not named in HARDPOINT_LOAD_PLUGINS"
        if name in self.config.plugins.disabled:
            source = self.config.sources.get("plugins.disabled")
            return "disabled" + (f" in {source}" if source else " by [plugins] disabled")
        return None

    def _load_one(self, name: str, entry_points: list[Loadable]) -> None:
        record = _record(name, entry_points[0])
        reason = self.blocked_reason(name)
        if reason is not None:
            self._pm.set_blocked(name)
            self.records[name] = attrs.evolve(record, status="blocked", reason=reason)
            return
        try:
            if len(entry_points) > 1:
                both = " and ".join(sorted(_record(name, e).owner for e in entry_points))
                raise PluginLoadError(name, f"provided by {both}; uninstall one of them")
            self._register(record, _import(record, entry_points[0]))
        except HardpointError as error:
            logger.warning("%s", error)
            self.errors[name] = error
            self.records[name] = attrs.evolve(record, status="failed", reason=error.message)

    def _register(self, record: PluginRecord, module: Any) -> None:
        _check_api(record, module)
        _check_unmarked(record, module)
        try:
            self._pm.register(module, name=record.name)
            _check_hooks(record, self._pm, module)
            self._pm.check_pending()
        except (pluggy.PluginValidationError, ValueError, PluginLoadError) as error:
            self._withdraw(module)
            if isinstance(error, PluginLoadError):
                raise
            raise PluginLoadError(
                record.name, _one_line(error), distribution=record.distribution
            ) from error
        try:
            tools = self._run_registration(record, module)
        except HardpointError:
            self._withdraw(module)
            raise
        hooks = tuple(sorted(caller.name for caller in self._pm.get_hookcallers(module) or ()))
        self.records[record.name] = attrs.evolve(record, status="active", hooks=hooks, tools=tools)

    def _run_registration(self, record: PluginRecord, module: Any) -> tuple[str, ...]:
        owner = record.owner
        config = self._structure_config(record, module)
        tools = ToolRegistrar(self.registry, owner, running=self._running)
        domains: DomainRegistrar = NamedRegistrar(
            "domain", ExecutionDomain, self.domains, owner, reserved=CORE_DOMAINS
        )
        approvers: ApproverRegistrar = NamedRegistrar("approver", Approver, self.approvers, owner)
        limiters: RateLimiterRegistrar = NamedRegistrar(
            "rate limiter", RateLimiterBackend, self.limiters, owner, reserved=CORE_LIMITERS
        )
        extensions = ExtensionRegistrar(self.extensions, owner)
        commands = CommandRegistrar(self.commands, owner)
        registrars: Mapping[str, Any] = {
            "hardpoint_register_domains": domains,
            "hardpoint_register_approvers": approvers,
            "hardpoint_register_rate_limiters": limiters,
            "hardpoint_register_extensions": extensions,
            "hardpoint_register_commands": commands,
            "hardpoint_register_tools": tools,
        }
        committed: list[Any] = []
        before = set(self.registry)
        try:
            for hook, registrar in registrars.items():
                function = self._own(module, record, hook)
                if function is not None:
                    function(registry=registrar, config=config)
            for registrar in registrars.values():
                registrar.commit()
                committed.append(registrar)
        except (Exception, SystemExit) as error:  # foreign code runs here
            for registrar in reversed(committed):
                registrar.rollback()
            hint = error.hint if isinstance(error, HardpointError) else None
            raise PluginLoadError(
                record.name, _one_line(error), distribution=record.distribution, hint=hint
            ) from error
        self.configs[record.name] = config
        return tuple(sorted(set(self.registry) - before))

    def _structure_config(self, record: PluginRecord, module: Any) -> Any:
        table = self.config.plugin.get(record.name)
        function = self._own(module, record, "hardpoint_config_type")
        try:
            config_type = function() if function is not None else None
        except (Exception, SystemExit) as error:  # foreign code runs here
            raise PluginLoadError(
                record.name, _one_line(error), distribution=record.distribution
            ) from error
        if config_type is None:
            if table:
                raise ConfigError(
                    f"plugin {record.name!r} takes no settings", hint="remove its table"
                )
            return None
        from hardpoint.serde import structure

        return structure(dict(table or {}), config_type, f"plugin.{record.name}")

    def _own(self, module: Any, record: PluginRecord, hook: str) -> HookFunction | None:
        for impl in getattr(self._pm.hook, hook).get_hookimpls():
            if impl.plugin is module:
                return HookFunction(record.owner, record.name, impl.function, tuple(impl.argnames))
        return None

    def _withdraw(self, module: Any) -> None:
        if self._pm.is_registered(module):
            self._pm.unregister(module)
        # A mistyped hook leaves a caller without a spec behind; later plugins must not trip on it.
        for name, caller in list(vars(self._pm.hook).items()):
            if not name.startswith("_") and not caller.has_spec() and not caller.get_hookimpls():
                delattr(self._pm.hook, name)

    def _check_requirements(self, beside: Collection[str]) -> None:
        for name in sorted(self.config.plugins.required - {*beside}):
            source = self.config.sources.get("plugins.required")
            wanted_by = f"required by {source}" if source else "required by [plugins] required"
            record = self.records.get(name)
            if record is None:
                raise MissingPlugin(
                    name, f"not installed, {wanted_by}", hint=install_hint(name, self.records)
                )
            if record.status != "active":
                raise MissingPlugin(name, f"{record.status} ({record.reason}), {wanted_by}")
        for name in sorted(self.config.load_only or ()):
            if name not in self.records and name not in beside:
                raise ConfigError(
                    f"{LOAD_VARIABLE} names {name!r}, but no such plugin is installed",
                    hint=install_hint(name, self.records),
                )
        for name in sorted(self.config.plugin):
            if name not in self.records and name not in beside:
                source = self.config.sources.get(f"plugin.{name}")
                raise ConfigError(
                    f"{source or 'the configuration'}: [plugin.{name}] is set"
                    f" but no plugin {name!r} is installed",
                    hint=install_hint(name, self.records),
                )

    # calling -----------------------------------------------------------------------------------

    def hook_functions(self, hook: str) -> tuple[HookFunction, ...]:
        """The implementations of a hook, in the order of the plugins' names."""
        known = self._impls.get(hook)
        if known is None:
            caller = getattr(self._pm.hook, hook)
            by_plugin = {impl.plugin_name: impl for impl in caller.get_hookimpls()}
            known = tuple(
                HookFunction(
                    self.records[name].owner,
                    name,
                    by_plugin[name].function,
                    tuple(by_plugin[name].argnames),
                )
                for name in sorted(by_plugin)
            )
            self._impls[hook] = known
        return known

    def each(self, hook: str, **given: Any) -> Iterator[tuple[HookFunction, Any]]:
        """Call a hook plugin by plugin; an exception is the answer of the plugin that raised it."""
        for function in self.hook_functions(hook):
            try:
                yield function, function(**given)
            except Exception as error:  # foreign code runs here; the caller decides what it means
                yield function, error

    def tools_elsewhere(self) -> Mapping[str, str]:
        """Globs over tools that are not registered now but may be later, each with the reason."""
        found: dict[str, str] = {}
        for record in self.records.values():
            if record.status in ("blocked", "failed"):
                found[f"{record.name}_*"] = f"plugin {record.name!r} is {record.status}"
        for toolset in self.registry.toolsets().values():
            found[f"{toolset.name}__*"] = f"{toolset.name!r} has not told its tools yet"
        for table, settings in self.config.plugin.items():
            for server in settings.get("servers", ()) if isinstance(settings, Mapping) else ():
                found[f"{server}__*"] = f"server {server!r} of [{table}] has not told its tools yet"
        return found

    def extension(self, kind: str) -> Mapping[str, Any]:
        """The extensions of one kind by name."""
        return {name: owned.value for name, owned in sorted(self.extensions.get(kind, {}).items())}


# finding ---------------------------------------------------------------------------------------


def find_entry_points() -> Sequence[Loadable]:
    """The installed plugins: one scan over the metadata of all distributions."""
    from importlib_metadata import entry_points

    return list(entry_points(group=PROJECT))


def _record(name: str, entry_point: Loadable) -> PluginRecord:
    distribution = getattr(entry_point, "dist", None)
    if distribution is None:
        return PluginRecord(name, from_entry_point=True)
    return PluginRecord(
        name,
        distribution=distribution.name,
        version=distribution.version,
        from_entry_point=True,
    )


def _import(record: PluginRecord, entry_point: Loadable) -> Any:
    try:
        return entry_point.load()
    except (Exception, SystemExit) as error:  # foreign code runs here
        raise PluginLoadError(
            record.name,
            f"cannot be imported: {_one_line(error)}",
            distribution=record.distribution,
        ) from error


# checks ----------------------------------------------------------------------------------------


def _check_api(record: PluginRecord, module: Any) -> None:
    number = getattr(module, "HARDPOINT_API", None)
    if number != API_VERSION:
        said = "does not say HARDPOINT_API" if number is None else f"says HARDPOINT_API = {number}"
        raise PluginApiError(
            record.name,
            f"{said}, this hardpoint has {API_VERSION}",
            distribution=record.distribution,
            hint=f"upgrade {record.owner}, or put HARDPOINT_API = {API_VERSION} in its module",
        )


def _check_unmarked(record: PluginRecord, module: Any) -> None:
    """A hook function without its marker would be ignored without a word."""
    known = {name for specs in SPECS for name in vars(specs) if name.startswith("hardpoint_")}
    for name in sorted(known):
        function = getattr(module, name, None)
        if inspect.isfunction(function) and not hasattr(function, f"{PROJECT}_impl"):
            raise PluginLoadError(
                record.name,
                f"{name} is not marked with @hardpoint.hookimpl",
                distribution=record.distribution,
            )


def _check_hooks(record: PluginRecord, pm: pluggy.PluginManager, module: Any) -> None:
    for caller in pm.get_hookcallers(module) or ():
        for impl in caller.get_hookimpls():
            if impl.plugin is not module:
                continue
            reason = None
            if impl.hookwrapper or impl.wrapper:
                reason = f"{caller.name} is a wrapper; it could replace every other plugin's answer"
            elif inspect.iscoroutinefunction(impl.function):
                reason = (
                    f"{caller.name} is a coroutine; hooks are synchronous,"
                    " what waits is a method of an object that a hook registers"
                )
            if reason is not None:
                raise PluginLoadError(record.name, reason, distribution=record.distribution)


def _one_line(error: BaseException) -> str:
    if isinstance(error, HardpointError):
        return error.message
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def module_name(module: ModuleType | Any) -> str:
    """The name of a plugin object for messages."""
    return getattr(module, "__name__", type(module).__name__)
