"""Build the parts of a runtime from its configuration, start them, stop them."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from hardpoint._call import run_call
from hardpoint._clean import Cleaner
from hardpoint._core import Core
from hardpoint._leaks import Leaks
from hardpoint._record import Labels, Recorder
from hardpoint.config import Config, PolicyConfig
from hardpoint.config.merge import located
from hardpoint.context import JobContext, Origin
from hardpoint.errors import ConfigError, HardpointError
from hardpoint.folders import folder
from hardpoint.interfaces import ApprovalRequest, Approver, Clock, Decision, Pending
from hardpoint.interfaces.limits import RateLimiterBackend
from hardpoint.plugins import PluginManager
from hardpoint.policy.grants import StoredGrants
from hardpoint.policy.lint import lint_rules, unknown_names
from hardpoint.policy.rules import Rule, parse_rule
from hardpoint.protected import install_hint
from hardpoint.registry import ToolRegistry
from hardpoint.secrets import Secrets, references_in
from hardpoint.services import CoreServices
from hardpoint.store import Store

logger = logging.getLogger(__name__)


@attrs.frozen
class Parts:
    """What a runtime is built from."""

    config: Config
    plugins: Mapping[str, Any]
    installed_plugins: bool
    approvers: Sequence[tuple[str, Approver]]
    clock: Clock
    origin: Origin
    in_memory: bool
    http_client: Any = None


@attrs.frozen
class ConfigSource:
    """Where a configuration is read from, so that it can be read again."""

    path: Path | str | None = None
    project: Path | str | None = None
    overrides: Mapping[str, Any] | None = None
    adjust: Callable[[Config], Config] = lambda config: config

    def read(self) -> Config:
        from hardpoint.config.files import load_config

        return self.adjust(
            load_config(path=self.path, project=self.project, overrides=self.overrides)
        )

    def stamp(self) -> Mapping[str, tuple[int, ...]]:
        """What is another one after any of the files has changed."""
        from hardpoint.config.files import places, stamp

        return stamp(places(self.path, self.project))


class CallbackApprover(Approver):
    """A function of the host program as an approver."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def decide(
        self, request: ApprovalRequest, context: JobContext
    ) -> Decision | Pending | None:
        answer = self._function(request, context)
        if inspect.isawaitable(answer):
            answer = await answer
        return answer  # type: ignore[no-any-return]  # `ask` refuses what is not a decision


def as_approvers(given: Any) -> Sequence[tuple[str, Approver]]:
    """Approvers with names from what a caller handed in."""
    if given is None:
        return ()
    several = given if isinstance(given, list | tuple) else [given]
    named: list[tuple[str, Approver]] = []
    for each in several:
        if isinstance(each, Approver):
            named.append((type(each).__name__, each))
        elif callable(each):
            named.append((getattr(each, "__name__", "callback"), CallbackApprover(each)))
        else:
            raise HardpointError(f"{each!r} is neither an Approver nor a function")
    return named


# building --------------------------------------------------------------------------------------


def build(parts: Parts) -> Core:
    """Everything that a runtime needs; nothing that waits is started yet."""
    config = parts.config
    registry = ToolRegistry(protect=True)
    plugins = PluginManager(config, registry)
    if parts.installed_plugins:
        plugins.load(beside=parts.plugins.keys())
    for name, module in parts.plugins.items():
        plugins.add(name, module)
    telemetry = _telemetry(config, plugins)
    store = Store(store_location(config, in_memory=parts.in_memory))
    audit = _audit(parts, store)
    leaks = Leaks()
    secrets = Secrets.from_config(config, plugins.extension("secret_store"), audit, leaks.learn)
    if audit is not None:
        audit.scanner = leaks
    results = _results(parts, store)
    results.scanner = leaks
    rules = read_rules(config)
    core = Core(
        config=config,
        registry=registry,
        plugins=plugins,
        rules=rules,
        limiter=limiter_of(parts, plugins, store),
        grants=StoredGrants(store, parts.clock, valid_seconds=config.approval.expires),
        approvers=approvers_of(parts, plugins),
        leaks=leaks,
        cleaner=cleaner_of(config, plugins, leaks, results),
        recorder=recorder_of(plugins, audit),
        labels=Labels(store, active=needs_labels(config, rules)),
        budget=budget_of(parts, store),
        clock=parts.clock,
        origin=parts.origin,
    )
    core.around = None if telemetry is None else telemetry.around
    core.services = CoreServices(
        core,
        store=store,
        results=results,
        audit=audit,
        secrets=secrets,
        run_root=run_call,
        make_jobs=lambda: _jobs(core),
        client=parts.http_client,
    )
    _register_own_tools(registry, results, config)
    core.lock = lock_of(config, registry, plugins)
    return core


def check_settings(core: Core, *, strict: bool) -> None:
    """Hold the settings against what is installed.

    Where the host program may still register tools of its own, what names an unknown tool is only
    logged; where nothing can come any more it is an error.

    Raises:
        ConfigError: The table of a plugin cannot be used, or, in strict mode, a rule can never
            match, an example of it does not hold, or a setting names what is not there.
    """
    problems = [
        problem
        for error in core.plugins.errors.values()
        if isinstance(error, ConfigError)
        for problem in located(error.problems, core.config.sources)
    ]
    if problems:
        raise ConfigError(problems)
    config, elsewhere = core.config, core.plugins.tools_elsewhere()
    findings = lint_rules(
        core.rules,
        core.registry,
        elsewhere=elsewhere,
        declared=config.policy.application_tools,
        domains=core.plugins.domains,
    )
    names = unknown_names(config, core.registry, core.plugins.records, elsewhere)
    told = [*((str(f), f.fatal) for f in findings), *names]
    fatal = [text for text, is_fatal in told if is_fatal]
    for text, is_fatal in told:
        if not (strict and is_fatal):
            logger.warning("%s", text)
    if strict and fatal:
        raise ConfigError(fatal)


def needs_labels(config: Config, rules: Sequence[Rule]) -> bool:
    """Whether any decision depends on what a session has read."""
    conditional = any("provenance" in {*rule.when, *rule.unless} for rule in rules)
    return conditional or bool(config.policy.egress_after)


def read_rules(config: Config) -> Sequence[Rule]:
    """The rules of the configuration.

    Raises:
        ConfigError: All that cannot be read, with file and line.
    """
    rules: list[Rule] = []
    problems: list[str] = []
    for entry in config.policy.rules:
        try:
            rules.append(parse_rule(entry))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return rules


def store_location(config: Config, *, in_memory: bool = False) -> str | Path:
    """Where the state of this configuration is kept."""
    if config.store.url is not None:
        return config.store.url
    if config.store.path is not None:
        return config.store.path
    return ":memory:" if in_memory else folder("data") / "state.db"


def _telemetry(config: Config, plugins: PluginManager) -> Any:
    if not config.telemetry.otel:
        return None
    from hardpoint.telemetry import Telemetry

    telemetry = Telemetry()
    plugins.add("otel", telemetry, distribution="hardpoint")
    return telemetry


def _audit(parts: Parts, store: Store) -> Any:
    audit = parts.config.audit
    if not audit.enabled or (parts.in_memory and audit.path is None):
        return None
    from hardpoint.audit import AuditLog

    return AuditLog(
        audit.path or folder("state") / "audit",
        fsync=audit.fsync,
        max_bytes=audit.max_bytes,
        clock=parts.clock.now,
    )


def _results(parts: Parts, store: Store) -> Any:
    from hardpoint.output.results import Results
    from hardpoint.output.shelf import MIGRATIONS

    output = parts.config.output
    # Beside SQLite, long contents are better off as files; a database that machines share has all.
    shared = store.dialect == "postgresql"
    place = store.namespace("results", MIGRATIONS) if shared else store.folder
    return Results(
        place / "results" if isinstance(place, Path) else place,
        keep_bytes=output.keep_bytes,
        keep_seconds=output.keep_seconds,
    )


def limiter_of(parts: Parts, plugins: PluginManager, store: Store) -> RateLimiterBackend:
    from hardpoint.policy import rate_limit
    from hardpoint.rate_limiter import RateLimiter

    limits = parts.config.limits
    shared = parts.origin in ("cli", "gateway", "job") and not parts.in_memory
    name = limits.backend or ("sqlite" if shared else "memory")
    if name == "memory":
        counted = RateLimiter(clock=parts.clock.monotonic, max_keys=limits.max_keys)
        return rate_limit.MemoryRateLimiter(counted)
    if name == "sqlite":
        namespace = store.namespace("limits", rate_limit.MIGRATIONS)
        return rate_limit.SqliteRateLimiter(namespace, clock=parts.clock.now)
    if name not in plugins.limiters:
        raise ConfigError(
            f"[limits] backend = {name!r}: no plugin provides it;"
            f" there are {', '.join(sorted({'memory', 'sqlite', *plugins.limiters}))}",
            hint=install_hint(name, plugins.limiters),
        )
    return plugins.limiters[name].value


def approvers_of(parts: Parts, plugins: PluginManager) -> Sequence[tuple[str, Approver]]:
    if parts.approvers:
        return parts.approvers
    named: list[tuple[str, Approver]] = []
    for name in parts.config.approval.approvers:
        if name in plugins.approvers:
            named.append((name, plugins.approvers[name].value))
        elif name == "terminal":
            from hardpoint.policy.terminal import TerminalApprover

            named.append((name, TerminalApprover()))
        elif name == "queue":
            from hardpoint.policy.approval import QueueApprover

            named.append((name, QueueApprover()))
        else:
            raise ConfigError(
                f"[approval] approvers names {name!r}, which no plugin provides;"
                f" there are {', '.join(sorted({'terminal', 'queue', *plugins.approvers}))}"
            )
    return named


def cleaner_of(config: Config, plugins: PluginManager, leaks: Any, results: Any) -> Cleaner:
    return Cleaner(
        leaks,
        results,
        tuple(plugins.extension("output_filter").items()),
        max_bytes=config.output.max_bytes,
        scan=config.output.leak_scan,
    )


def _jobs(core: Core) -> Any:
    from hardpoint.jobs.service import Jobs

    # A command ends too soon to work for others; a worker does nothing else.
    here = core.config.jobs.run_here and core.origin not in ("cli", "builder")
    return Jobs(core, shared=core.services.keeps_state, runs_here=here or core.origin == "job")


def recorder_of(plugins: PluginManager, audit: Any) -> Recorder:
    return Recorder(audit, tuple(plugins.extension("audit_sink").values()))


def budget_of(parts: Parts, store: Store) -> Any:
    from hardpoint.config import Budget

    budget = parts.config.budget
    if all(scope == Budget() for scope in (budget.session, budget.user, budget.day)):
        return None
    from hardpoint.policy.budget import Budgets

    return Budgets(budget, store, parts.clock)


def lock_of(config: Config, registry: ToolRegistry, plugins: PluginManager) -> Any:
    if config.plugins.lock is None:
        return None
    from hardpoint.lockfile.guard import Guard

    return Guard(config.plugins.lock.expanduser(), registry, plugins)


def _register_own_tools(registry: ToolRegistry, results: Any, config: Config) -> None:
    from hardpoint.output.result_read import PAGE_BYTES, ResultReadTool

    # A page has to fit the cap itself, quotes and line breaks escaped.
    page = min(PAGE_BYTES, config.output.max_bytes // 2)
    registry.register(ResultReadTool(results, page=page), owner="hardpoint")


# life ------------------------------------------------------------------------------------------


async def start(core: Core) -> None:
    """Let what plugins registered meet the running core.

    Raises:
        ConfigError: A secret of the system that the settings refer to is not set.
    """
    await core.services.secrets.learn_all()
    await check_secrets(core)
    for value in extensions_of(core.plugins):
        await start_one(core, value)
    if core.origin != "cli" and core.services.keeps_state:
        await core.services.jobs.start()


async def check_secrets(core: Core) -> None:
    """Raise `ConfigError` where plugins' settings refer to secrets that are not set."""
    references = references_in(list(core.plugins.configs.values()))
    missing = await core.services.secrets.missing(references)
    if missing:
        names = ", ".join(missing)
        raise ConfigError(
            f"the settings refer to secrets that are not set: {names}",
            hint=f"run `hardpoint secrets set {missing[0].removeprefix('system:')} --system`",
        )


def extensions_of(plugins: PluginManager) -> Sequence[Any]:
    """What plugins registered as extensions and is started here; jobs start their executors."""
    return [
        owned.value
        for kind, table in plugins.extensions.items()
        if kind != "job_executor"
        for owned in table.values()
    ]


async def start_one(core: Core, value: Any) -> None:
    begin = getattr(value, "start", None)
    if inspect.iscoroutinefunction(begin):
        await begin(core.services)


async def stop_one(value: Any) -> None:
    end = getattr(value, "stop", None)
    if inspect.iscoroutinefunction(end):
        await end()


async def stop(core: Core) -> None:
    """End everything, the youngest first; one failure does not stop the rest."""
    failures: list[Exception] = []
    await core.services.end_jobs()
    await core.close_retiring()
    for value in reversed(extensions_of(core.plugins)):
        try:
            await stop_one(value)
        except Exception as error:  # foreign code; the others must still end
            failures.append(error)
    try:
        await core.close()
    except Exception as error:  # foreign code; files must still be closed
        failures.append(error)
    await core.services.aclose()
    await core.limiter.aclose()
    core.services.close_files()
    if failures:
        raise ExceptionGroup("the runtime did not close cleanly", failures)


def under_policy(core: Core, policy: PolicyConfig) -> Core:
    """A core that shares everything but the rules, for questions of what would be decided."""
    view = copy.copy(core)
    view.config = attrs.evolve(core.config, policy=policy)
    view.rules = read_rules(view.config)
    view.mode = policy.mode
    view.fresh_plans()
    return view
