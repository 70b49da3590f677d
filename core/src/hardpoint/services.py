"""The core as tools, toolsets, domains and approvers reach it: `context.services`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hardpoint._core import Core
from hardpoint.calls import CallOutcome, ToolCall
from hardpoint.context import JobContext
from hardpoint.errors import HardpointError, NotAuthorized, RateLimited, ToolError
from hardpoint.interfaces.limits import LimitRequest
from hardpoint.limits import ToolRateLimitConfig
from hardpoint.parts import ToolOutput

if TYPE_CHECKING:
    from hardpoint.net import Binding, HttpRequest, PinnedClient

logger = logging.getLogger(__name__)

RunRoot = Callable[[Core, ToolCall, JobContext], Awaitable[CallOutcome]]
RunNested = Callable[[str, Mapping[str, Any]], Awaitable[CallOutcome]]


class CoreServices:
    """The services outside a call, for what a runtime holds: toolsets, domains, workers."""

    def __init__(
        self,
        core: Core,
        *,
        store: Any,
        results: Any,
        audit: Any,
        secrets: Any,
        run_root: RunRoot,
        make_jobs: Callable[[], Any],
        client: PinnedClient | None = None,
    ) -> None:
        self._core = core
        self._run_root = run_root
        self._store = store
        self.results = results
        self.audit = audit
        self.secrets = secrets
        self.client = client
        self.loop: asyncio.AbstractEventLoop | None = None
        self._make_jobs = make_jobs
        self._jobs: Any = None

    @property
    def registry(self) -> Any:
        return self._core.registry

    @property
    def leaks(self) -> Any:
        return self._core.leaks

    @property
    def approvals(self) -> Any:
        return self._core.grants

    @property
    def clock(self) -> Any:
        return self._core.clock

    @property
    def config(self) -> Any:
        return self._core.config

    @property
    def workspace(self) -> Any:
        """The memory workspace that a plugin registered, or None."""
        return next(iter(self.extensions("workspace").values()), None)

    def store(
        self, namespace: str, migrations: Sequence[str] = (), *, durable: bool = False
    ) -> Any:
        return self._store.namespace(namespace, migrations, durable=durable)

    def may_see(self, tool: str) -> bool:
        """Whether models may see a tool: it is switched on, and not denied as a whole."""
        return self._core.is_visible(tool)

    def is_visible_to(self, tool: str, caller: JobContext) -> bool:
        """Whether a caller may see a tool."""
        return self._core.is_visible(tool, caller)

    def quarantined(self, tool: str) -> str | None:
        """Why a registered tool differs from the lock file in force; None when it may be called."""
        guard, entry = self._core.lock, self.registry.entry(tool)
        return None if guard is None or entry is None else guard.reason(entry)

    @property
    def jobs(self) -> Any:
        """Background jobs, made when they are first asked for."""
        if self._jobs is None:
            self._jobs = self._make_jobs()
        return self._jobs

    async def end_jobs(self) -> None:
        """Stop the jobs that run here."""
        if self._jobs is not None:
            await self._jobs.stop()

    @property
    def open_store(self) -> Any:
        """The store of this runtime, for what the core builds on it."""
        return self._store

    @property
    def keeps_state(self) -> bool:
        """Whether the store outlives the runtime, so that other processes may share it."""
        return bool(self._store.location != ":memory:")

    def extensions(self, kind: str) -> Mapping[str, Any]:
        return self._core.plugins.extension(kind)

    async def count(
        self, name: str, limit: ToolRateLimitConfig, *, user_id: str
    ) -> timedelta | None:
        """Count one use of something that is not a whole call, where calls are counted.

        Args:
            name: What is counted; `TOOL:WHAT` keeps it apart from the calls of a tool.

        Returns:
            None when it was counted, else the time until it would fit.

        Raises:
            ToolError: The limiter cannot count, so it must not happen.
        """
        try:
            return await self._core.limiter.acquire([LimitRequest(user_id, name, limit)])
        except ToolError:
            raise
        except Exception as error:  # a backend is foreign code
            logger.exception("the rate limiter failed for %s", name)
            raise RateLimited(None, f"the limit of {name!r} cannot be counted: {error}") from error

    def http(
        self, bindings: Sequence[Binding] = (), *, user_id: str | None = None, **options: Any
    ) -> PinnedClient:
        """The guarded client; bound secrets are resolved for this user with each request.

        All clients of one runtime share their connections.
        """

        async def reveal(name: str) -> str | None:
            value: str = await self.secrets.resolve(name, user_id)
            return value

        options.setdefault("before_send", self._refuse_leaks)
        return self._client().bound(bindings, reveal, **options)

    def _client(self) -> PinnedClient:
        if self.client is None:
            from hardpoint.net import PinnedClient, UrlGuard

            network = self._core.config.network
            guard = UrlGuard(allow_http=network.allow_http, allow_private=network.allow_private)
            verify = None if network.ca_file is None else str(network.ca_file)
            self.client = PinnedClient(guard=guard, verify=verify)
        return self.client

    def _refuse_leaks(self, request: HttpRequest) -> None:
        """Scan a request before credentials are put in; a secret in it stops it."""
        head = "\n".join([str(request.url), *(f"{name}: {text}" for name, text in request.headers)])
        findings = [*self.leaks.scan(head), *self.leaks.scan(request.body or b"")]
        blocked = sorted({finding.kind for finding in findings if finding.action == "block"})
        if blocked:
            raise NotAuthorized(
                f"the request holds what looks like a secret ({', '.join(blocked)})",
                hint="bind the secret to the host instead of writing it into the call",
            )

    def close_files(self) -> None:
        """Write what the audit holds back, and give back the connections of the store."""
        if self.audit is not None:
            self.audit.close()
        self._store.close()

    async def aclose(self) -> None:
        """Close the connections."""
        if self.client is not None:
            await self.client.aclose()
        self._store.close()

    async def run(
        self, tool: str, params: Mapping[str, Any], *, parent: JobContext | None = None
    ) -> CallOutcome:
        """Run a tool with the rights of the call that `parent` belongs to."""
        if parent is None:
            raise HardpointError(
                "a call needs its caller",
                hint="pass parent=context, the context that you were given",
            )
        if parent.handle is not None:
            return await parent.handle.services.run(tool, params)
        return await self._run_root(self._core, ToolCall(tool, dict(params)), parent)

    async def call(
        self, tool: str, params: Mapping[str, Any], *, parent: JobContext | None = None
    ) -> ToolOutput:
        return (await self.run(tool, params, parent=parent)).unwrap()

    def call_sync(self, tool: str, params: Mapping[str, Any]) -> ToolOutput:
        raise HardpointError("call_sync works only inside a call; use context.services")


class CallServices:
    """The services of one running call. What it calls has its caller's rights and no more."""

    def __init__(self, services: CoreServices, caller: JobContext, run_nested: RunNested) -> None:
        self._services = services
        self._caller = caller
        self._run_nested = run_nested
        # A synchronous body runs on a thread of its own; this is where its calls must go.
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._services, name)

    def may_see(self, tool: str) -> bool:
        """Whether the caller may see a tool: it is on, and not denied to it as a whole."""
        visible: bool = self._services.is_visible_to(tool, self._caller)
        return visible

    @property
    def approvals(self) -> Any:
        """The caller's requests, to look at: no call answers its own."""
        return self._services.approvals.of(self._caller.user_id)

    @property
    def secrets(self) -> Any:
        """The caller's secrets, and nobody else's."""
        return self._services.secrets.of(self._caller.user_id)

    def http(self, bindings: Sequence[Binding] = (), **options: Any) -> PinnedClient:
        options["user_id"] = self._caller.user_id
        return self._services.http(bindings, **options)

    async def count(
        self, name: str, limit: ToolRateLimitConfig, *, user_id: str | None = None
    ) -> timedelta | None:
        """Count one use for the caller, whatever user is named."""
        return await self._services.count(name, limit, user_id=self._caller.user_id)

    async def run(
        self, tool: str, params: Mapping[str, Any], *, parent: JobContext | None = None
    ) -> CallOutcome:
        # The running call decides whose rights count, whatever context was handed in.
        return await self._run_nested(tool, params)

    async def call(
        self, tool: str, params: Mapping[str, Any], *, parent: JobContext | None = None
    ) -> ToolOutput:
        return (await self.run(tool, params)).unwrap()

    def call_sync(self, tool: str, params: Mapping[str, Any]) -> ToolOutput:
        """`call` from a synchronous tool, which runs on a thread."""
        return asyncio.run_coroutine_threadsafe(self.call(tool, params), self._loop).result()
