"""Put a runtime together from its configuration, and run calls through it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs

from hardpoint import _build, _reload
from hardpoint._call import run_call
from hardpoint._core import Core
from hardpoint._state import Watch
from hardpoint.calls import CallOutcome, ToolCall
from hardpoint.config import Config, PolicyConfig
from hardpoint.context import JobContext, Origin
from hardpoint.errors import HardpointError
from hardpoint.interfaces import Approver, Clock, SystemClock
from hardpoint.parts import Part, ToolOutput
from hardpoint.plugins import PluginRecord
from hardpoint.policy.verdict import PolicyVerdict
from hardpoint.registry import ToolRegistry
from hardpoint.tools import Tool, ToolDefinition

if TYPE_CHECKING:
    from hardpoint.jobs.service import Jobs
    from hardpoint.lockfile import Surface
    from hardpoint.net import PinnedClient


logger = logging.getLogger(__name__)


@attrs.frozen
class Progress:
    """How far a streamed call is."""

    done: float
    total: float | None = None
    message: str | None = None


@attrs.frozen
class Usage:
    """What one user called of one tool."""

    this_minute: int = 0
    this_hour: int = 0


class Runtime:
    """The tools, plugins, policy and state that calls go through.

    Example:
        async with Runtime.from_config() as rt:
            context = JobContext(user_id="ana")
            output = await rt.call("echo", {"message": "hi"}, context)

    `Runtime()` by hand starts with nothing: no installed plugins, no files. `from_config` takes
    everything from the configuration.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        plugins: Mapping[str, Any] | None = None,
        installed_plugins: bool = False,
        approver: Approver | Callable[..., Any] | Sequence[Approver] | None = None,
        clock: Clock | None = None,
        origin: Origin = "library",
        in_memory: bool = True,
        http_client: PinnedClient | None = None,
    ) -> None:
        """Build a runtime.

        Args:
            config: The settings; all defaults when absent.
            tools: Tools and functions to register at once.
            plugins: Modules with hook functions, by plugin name, beside the installed ones.
            installed_plugins: Load the plugins that pip installed.
            approver: Who is asked: an approver, several in order, or a function of request and
                context that gives a `Decision`. None: whoever the configuration names.
            clock: The time; for tests.
            origin: Where calls come from; part of every record and of rule conditions.
            in_memory: Keep state and audit in memory only.
            http_client: What `context.services.http` sends requests with; one of the configuration
                when absent.

        Raises:
            ConfigError: The settings cannot be used.
            PluginError: A required plugin is missing, or any failed in strict mode.
        """
        self._parts = _build.Parts(
            config=config or Config(),
            plugins=dict(plugins or {}),
            installed_plugins=installed_plugins,
            approvers=_build.as_approvers(approver),
            clock=clock or SystemClock(),
            origin=origin,
            in_memory=in_memory,
            http_client=http_client,
        )
        self._source: _build.ConfigSource | None = None
        self._core: Core = _build.build(self._parts)
        for each in tools:
            self.registry.register(each)
        if installed_plugins:
            _build.check_settings(self._core, strict=origin in ("cli", "gateway"))

    @classmethod
    def from_config(
        cls,
        path: Path | str | None = None,
        *,
        project: Path | str | None = None,
        overrides: Mapping[str, Any] | None = None,
        adjust: Callable[[Config], Config] = lambda config: config,
        **options: Any,
    ) -> Self:
        """A runtime as the configuration says: managed file, variables, project, user.

        Args:
            path: Read this file in place of the user's and the project's.
            project: Where to look for a project's configuration; the current folder when absent.
            overrides: Settings that win over files, as nested tables.
            adjust: Changes what was read, each time that it is read.
            **options: As for `Runtime`.

        Raises:
            ConfigError: A file cannot be used; every problem is named with file and line.
        """
        source = _build.ConfigSource(path, project, overrides, adjust)
        options = {"installed_plugins": True, "in_memory": False, **options}
        runtime = cls(source.read(), **options)
        runtime._source = source
        return runtime

    # the parts ---------------------------------------------------------------------------------

    @property
    def registry(self) -> ToolRegistry:
        return self._core.registry

    @property
    def config(self) -> Config:
        return self._core.config

    @property
    def services(self) -> Any:
        """The services outside a call, for what the host program builds itself."""
        return self._core.services

    @property
    def approvals(self) -> Any:
        """Pending requests and remembered answers."""
        return self._core.grants

    @property
    def jobs(self) -> Jobs:
        """Background jobs: who works on them, which there are."""
        jobs: Jobs = self._core.services.jobs
        return jobs

    def plugins(self) -> Sequence[PluginRecord]:
        """What became of each plugin, by name."""
        records = self._core.plugins.records
        return [records[name] for name in sorted(records)]

    def plugin_settings(self) -> Mapping[str, Any]:
        """The settings of the active plugins, by name; None for a plugin without any."""
        return dict(self._core.plugins.configs)

    # life --------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._core.services.loop = asyncio.get_running_loop()
        try:
            await _build.start(self._core)
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave toolsets and domains, write what is buffered, close files."""
        await _build.stop(self._core)

    async def reload(self, config: Config | None = None) -> None:
        """Put another configuration in force; the one of the files, read again, unless given.

        Tools, servers, domains and extensions that are new are started, those that are gone are
        closed when the last call that began before has ended, those that stay as they were run on.
        Running calls keep what they started with.

        Raises:
            HardpointError: The new configuration cannot be used, or names what cannot change while
                the program runs; the old one stays in force.
        """
        if config is None:
            config = self._source.read() if self._source is not None else self._core.config
        parts = attrs.evolve(self._parts, config=config)
        await _reload.reload(self._core, parts)
        self._parts = parts

    async def follow_config(self, *, every: float = 1.0) -> None:
        """Reload whenever a file of the configuration changes; until it is cancelled.

        One that cannot be used is logged, and the settings in force stay.

        Args:
            every: Seconds between two looks at the files.
        """
        source = self._source
        if source is None:
            return
        seen = source.stamp()
        while True:
            await asyncio.sleep(every)
            now = await asyncio.to_thread(source.stamp)
            if now == seen:
                continue
            seen = now
            try:
                await self.reload()
            except Exception as error:  # what plugins start is foreign code
                logger.error("the former settings stay in force: %s", error)
            else:
                logger.info("the changed settings are in force")

    # calls -------------------------------------------------------------------------------------

    async def run(
        self,
        tool: str | ToolCall,
        params: Any = None,
        context: JobContext | None = None,
        *,
        progress: Callable[[Progress], None] | None = None,
    ) -> CallOutcome:
        """One call through all steps. Never raises for what goes wrong with the call.

        Args:
            tool: The name, or a whole `ToolCall`.
            params: The arguments: a mapping, or the JSON text of one.
            context: Who calls.
            progress: Called with each report of the tool.
        """
        watch = None
        if progress is not None:
            watch = Watch(progress=lambda *report: progress(Progress(*report)))
        return await self._run(tool, params, context, watch)

    async def call(
        self,
        tool: str | ToolCall,
        params: Any = None,
        context: JobContext | None = None,
        *,
        progress: Callable[[Progress], None] | None = None,
    ) -> ToolOutput:
        """Like `run`; the output, or an exception.

        Raises:
            ToolError: The kind says what went wrong.
        """
        return (await self.run(tool, params, context, progress=progress)).unwrap()

    async def stream(
        self, tool: str | ToolCall, params: Any = None, context: JobContext | None = None
    ) -> AsyncGenerator[Progress | Part | CallOutcome, None]:
        """The reports and parts of a call as they come, then its outcome.

        Leaving the iteration early cancels the call.
        """
        events: asyncio.Queue[Progress | Part | CallOutcome] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def put(event: Progress | Part | CallOutcome) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        watch = Watch(progress=lambda *report: put(Progress(*report)), emitted=put)

        async def work() -> None:
            put(await self._run(tool, params, context, watch))

        task = asyncio.ensure_future(work())
        try:
            while True:
                event = await events.get()
                yield event
                if isinstance(event, CallOutcome):
                    return
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(
        self, tool: str | ToolCall, params: Any, context: JobContext | None, watch: Watch | None
    ) -> CallOutcome:
        request = (
            tool if isinstance(tool, ToolCall) else ToolCall(tool, {} if params is None else params)
        )
        if isinstance(params, JobContext):
            raise HardpointError(
                "the context is the third argument: rt.call(name, params, context)"
            )
        context = self._caller(context)
        if context.handle is not None:
            # A tool that calls back with its own context is a nested call, whatever it calls on.
            outcome: CallOutcome = await self._core.services.run(
                request.tool, request.params, parent=context
            )
            return outcome
        return await run_call(self._core, request, context, watch=watch)

    def _caller(self, context: Any) -> JobContext:
        """The caller, with the workspace of the settings where it has none of its own."""
        if not isinstance(context, JobContext):
            raise HardpointError(
                f"a call needs a JobContext, not {context!r}",
                hint='JobContext(user_id="…") says who is calling',
            )
        if self._core.closed:
            raise HardpointError(
                "this runtime is closed", hint="make calls inside `async with Runtime…`"
            )
        if context.workspace is None and self._core.config.workspace is not None:
            return context.within(self._core.config.workspace)
        return context

    async def check(self, tool: str, params: Any, context: JobContext) -> PolicyVerdict:
        """What would be decided about a call. Nothing runs, nothing is counted, nobody is asked.

        Raises:
            ToolError: The call would fail before the policy is asked.
        """
        from hardpoint._call import preview

        return await preview(self._core, ToolCall(tool, params), self._caller(context))

    async def explain(self, tool: str, params: Any, context: JobContext) -> dict[str, Any]:
        """Everything that a call would meet: rule, file and line, plugin, domain, limit, secret.

        Raises:
            ToolError: The call would fail before the policy is asked.
        """
        from hardpoint._explain import explain

        return await explain(self._core, ToolCall(tool, params), self._caller(context))

    def under_policy(self, policy: PolicyConfig) -> Runtime:
        """Another view of the same tools under another policy, for `check`; it runs nothing.

        Raises:
            ConfigError: A rule cannot be read.
        """
        view = Runtime.__new__(Runtime)
        view._parts, view._source = self._parts, None
        view._core = _build.under_policy(self._core, policy)
        return view

    async def surface(self, *, ask: bool = False) -> tuple[Surface, Sequence[str]]:
        """Everything that can be called and what it is made of, for the lock file.

        Args:
            ask: Have servers tell their tools again.

        Returns:
            The surface, and what could not be asked.
        """
        from hardpoint.lockfile.survey import ask_again, survey

        plugins = self._core.plugins
        failures = await ask_again(plugins) if ask else ()
        surface, silent = await survey(self.registry, plugins)
        return surface, [*failures, *silent]

    # definitions -------------------------------------------------------------------------------

    def visible(self, context: JobContext | None = None) -> Sequence[ToolDefinition]:
        """The definitions that a model may see: switched on, and not denied as a whole."""
        return self._core.visible(context)

    def definitions(
        self,
        provider: str = "mcp",
        context: JobContext | None = None,
        *,
        search: bool | Collection[str] = False,
    ) -> list[Any]:
        """The visible definitions in a provider's shape.

        Args:
            provider: `openai`, `openai-strict`, `openai-responses`, `anthropic`, `gemini` or `mcp`.
            context: For whom; it can hide more.
            search: Give only a few, and `tool_search`, `tool_info` and `tool_call` for the rest:
                true for the usual few, or the names of others.

        Raises:
            HardpointError: Search mode without these three tools.
        """
        from hardpoint.providers import definitions_for

        shown = self.visible(context)
        if search is not False:
            from hardpoint.search import choose_few

            shown = choose_few(shown, None if search is True else search)
        return definitions_for(provider, shown)

    async def handle(self, provider: str, tool_calls: Any, context: JobContext) -> list[Any]:
        """A provider's tool calls in, the messages to append out, in the same order.

        Args:
            provider: As for `definitions`.
            tool_calls: The reply's tool calls, or the whole message that holds them.
            context: Who calls.

        Raises:
            HardpointError: It is neither.
        """
        from hardpoint.providers import parse_calls, result_messages

        if tool_calls is None or isinstance(tool_calls, str | bytes | int | float):
            raise HardpointError(
                f"these are no tool calls: {tool_calls!r}",
                hint="hand over the reply's list of tool calls, or the whole message",
            )
        names = [definition.name for definition in self.visible(context)]
        calls = parse_calls(provider, tool_calls, names)
        outcomes = await asyncio.gather(
            *(self._run(ToolCall(c.name, c.params, c.id), None, context, None) for c in calls)
        )
        return result_messages(provider, list(zip(calls, outcomes, strict=True)))

    # without a loop ----------------------------------------------------------------------------

    @classmethod
    def sync(cls, *args: Any, **options: Any) -> Any:
        """A runtime for code without a loop: `with Runtime.sync() as rt: rt.call(…)`."""
        from hardpoint.blocking import SyncRuntime

        return SyncRuntime(lambda: cls.from_config(*args, **options))

    def usage(self, tool: str, user_id: str | None = None) -> Usage:
        """What was counted for a tool; of one user, or of all together."""
        rows = [row for row in self.counted() if row[1] == tool and user_id in (None, row[0])]
        return Usage(sum(row[2] for row in rows), sum(row[3] for row in rows))

    def counted(self) -> Sequence[tuple[str, str, int, int]]:
        """User, tool, calls of the last minute and of the last hour, as the backend tells them."""
        usage = getattr(self._core.limiter, "usage", None)
        return list(usage()) if usage is not None else []

    def clear_limit(self, user_id: str, tool: str) -> bool:
        """Forget what was counted for a pair; False where the backend cannot."""
        clear = getattr(self._core.limiter, "clear", None)
        if clear is None:
            return False
        clear(user_id, tool)
        return True

    def budgets(self, context: JobContext) -> Sequence[Any]:
        """The accounts that a caller's calls are booked in; none without budgets."""
        return [] if self._core.budget is None else list(self._core.budget.list(context))
