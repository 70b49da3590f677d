"""What each MCP request means at the gateway. The SDK's server below carries it."""

from __future__ import annotations

import asyncio
import logging
import secrets as random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import mcp.types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import methods as specified

from hardpoint import JobContext, Runtime, ToolCall, ToolNotFound
from hardpoint.errors import ApprovalRequired, ExternalService, HardpointError, ToolTimeout
from hardpoint_mcp.config import McpConfig, ServeConfig
from hardpoint_mcp.content import as_text
from hardpoint_mcp.front import Front, current_front
from hardpoint_mcp.gateway import questions
from hardpoint_mcp.gateway import tools as shown
from hardpoint_mcp.gateway.approver import QUESTION, can_fill_in_a_form
from hardpoint_mcp.gateway.clients import Client, Context, HandshakeAsker, declared, identify
from hardpoint_mcp.gateway.library import PROMPTS, RESOURCES, TEMPLATES, Kind, Library
from hardpoint_mcp.gateway.parking import ParkedCall, Parking, ParkingAsker, Questions
from hardpoint_mcp.gateway.relay import LEVELS, Relay
from hardpoint_mcp.servers import Servers
from hardpoint_mcp.toolset import McpToolset
from hardpoint_mcp.wire import versions
from hardpoint_mcp.wire.channel import Message
from hardpoint_mcp.wire.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from hardpoint_mcp.wire.session import Asker, Call

logger = logging.getLogger(__name__)

_OF_ONE_HOP: Final = versions.ENVELOPE | {versions.SERVER_KEY}
_MODERN_ONLY: Final = ("resultType", "ttlMs", "cacheScope")
_DEBOUNCE: Final = 0.1
_CHANGES: Final[Mapping[str, tuple[ServerEvent, Any]]] = {
    "tools": (ToolsListChanged(), types.ToolListChangedNotification()),
    "prompts": (PromptsListChanged(), types.PromptListChangedNotification()),
    "resources": (ResourcesListChanged(), types.ResourceListChangedNotification()),
}
"""How clients are told: on a stream that they listen to, or in a session."""


@attrs.define(eq=False)
class Request:
    """One request of a client."""

    ctx: Context
    params: Mapping[str, Any]
    modern: bool
    client: Client
    owner: object
    """Equal for the requests of one connection."""
    capabilities: Mapping[str, Any]
    relay: Relay

    @property
    def place(self) -> str:
        """What stays the same when a client speaks to another process of this gateway."""
        return "stdio" if self.ctx.request is None else self.client.session

    @property
    def first_answers(self) -> Any:
        """The answers that it sent for a server."""
        given = self.params.get("inputResponses")
        if not isinstance(given, Mapping):
            return given
        return {key: value for key, value in given.items() if key != QUESTION} or None

    @property
    def meta(self) -> dict[str, Any]:
        """What the client sent along for whoever answers in the end."""
        given = self.params.get("_meta")
        given = given if isinstance(given, Mapping) else {}
        passed = {key: value for key, value in given.items() if key not in _OF_ONE_HOP}
        if self.relay.log_level is not None:
            passed[versions.LOG_LEVEL_KEY] = self.relay.log_level
        return passed


Handler = Callable[[Request], Awaitable[Message]]


def settings_of(runtime: Runtime) -> McpConfig:
    """The `[mcp]` table in force."""
    settings = runtime.plugin_settings().get("mcp")
    return settings if isinstance(settings, McpConfig) else McpConfig()


class Gateway:
    """A runtime as an MCP server. Settings and servers are always those in force."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.bus = InMemorySubscriptionBus()
        self.parking = Parking()
        self.tools = shown.ToolShelf(runtime, lambda: self.config)
        self.library = Library(lambda: self.toolsets, lambda: settings_of(runtime))
        self.server = GatewayServer(self)
        self._stdio_session = f"stdio-{random.token_hex(4)}"
        self._heard: list[McpToolset] = []
        self._levels: dict[object, str] = {}
        self._sessions: dict[object, Any] = {}
        self._changes: dict[str, asyncio.TimerHandle] = {}
        self._subscriptions: dict[str, set[object]] = {}
        self._background: set[asyncio.Future[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self.handlers: dict[str, Handler] = {
            "tools/list": self.list_tools,
            "tools/call": self.call_tool,
            "resources/list": lambda request: self.list_things(request, RESOURCES, "uri"),
            "resources/templates/list": lambda request: self.list_things(
                request, TEMPLATES, "uriTemplate"
            ),
            "resources/read": self.read_resource,
            "resources/subscribe": self.subscribe,
            "resources/unsubscribe": self.unsubscribe,
            "prompts/list": lambda request: self.list_things(request, PROMPTS, "name"),
            "prompts/get": self.get_prompt,
            "completion/complete": self.complete,
            "logging/setLevel": self.set_level,
        }

    @property
    def config(self) -> ServeConfig:
        return settings_of(self.runtime).serve

    @property
    def servers(self) -> Servers | None:
        installer = self.runtime.services.extensions("installer").get("mcp_server")
        return None if installer is None else installer.servers

    @property
    def toolsets(self) -> Mapping[str, McpToolset]:
        servers = self.servers
        return {} if servers is None else servers.toolsets

    # life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to tell clients what changes."""
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = self.runtime.registry.subscribe(
            lambda change: self._changed_soon("tools")
        )
        self._listen_to_servers()

    def _listen_to_servers(self) -> bool:
        """Hear what servers say, those too that came later; whether any came or went."""
        in_force = list(self.toolsets.values())
        known = {id(toolset) for toolset in self._heard}
        changed = known != {id(toolset) for toolset in in_force}
        self._heard = in_force
        for toolset in in_force:
            if id(toolset) not in known:
                toolset.on_change = self._server_changed
                toolset.upstream.on_notification = self._server_said(toolset.name)
                self.library.forget(toolset.name)
        return changed

    def stop(self) -> None:
        self._unsubscribe()
        self._unsubscribe = lambda: None
        self.parking.close()
        for handle in self._changes.values():
            handle.cancel()
        for task in self._background:
            task.cancel()

    # the way in --------------------------------------------------------------------------------

    async def middleware(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer what is the gateway's to answer; leave the rest to the SDK."""
        handler = self.handlers.get(ctx.method)
        if handler is None or ctx.request_id is None:
            if ctx.method == "subscriptions/listen":
                await self._listen_upstream(ctx)
            return await call_next(ctx)
        modern = ctx.protocol_version in versions.MODERN
        _check(ctx, modern)
        self._check_offered(ctx.method)
        request = self._request(ctx, modern)
        try:
            result = await handler(request)
        except MCPError:
            raise
        except RpcError as error:
            raise MCPError(error.code, error.said, error.data) from error
        except ToolNotFound as error:
            raise MCPError(INVALID_PARAMS, error.message) from error
        except (ExternalService, ToolTimeout) as error:
            raise MCPError(INTERNAL_ERROR, error.message) from error
        except HardpointError as error:
            raise MCPError(INVALID_PARAMS, error.message) from error
        except TimeoutError as error:
            raise MCPError(INTERNAL_ERROR, "the server did not answer in time") from error
        except Exception as error:  # nothing of ours reaches the wire by accident
            logger.exception("%s failed", ctx.method)
            raise MCPError(INTERNAL_ERROR, "Internal error") from error
        await request.relay.flush()
        return self._finished(ctx, result, modern)

    def _check_offered(self, method: str) -> None:
        capability = {"resources": "resources", "prompts": "prompts", "completion": "completions"}
        needed = capability.get(method.partition("/")[0])
        if needed is not None and not self.library.offers(needed):
            raise MCPError(METHOD_NOT_FOUND, "Method not found", method)

    def _request(self, ctx: Context, modern: bool) -> Request:
        client = identify(ctx, self.config, self._stdio_session, modern)
        owner: object = client
        if not modern:
            owner = (client.user, client.session)
            self._remember(owner, ctx)
        level = None if modern else self._levels.get(owner)
        return Request(
            ctx,
            ctx.params or {},
            modern,
            client,
            owner,
            declared(ctx, modern),
            Relay(ctx.session, ctx.request_id, level),
        )

    def _finished(self, ctx: Context, result: Message, modern: bool) -> Message:
        result = dict(result)
        meta = result.get("_meta")
        meta = (
            {k: v for k, v in meta.items() if k != versions.SERVER_KEY}
            if isinstance(meta, dict)
            else {}
        )
        if not modern:
            for key in _MODERN_ONLY:
                result.pop(key, None)
        else:
            result.setdefault("resultType", "complete")
            meta[versions.SERVER_KEY] = self.server.server_info_stamp
            if ctx.method.endswith("/list") or ctx.method == "resources/read":
                result.setdefault("ttlMs", 0)
                result.setdefault("cacheScope", "private")
        if meta:
            result["_meta"] = meta
        else:
            result.pop("_meta", None)
        return result

    # calls that may ask ------------------------------------------------------------------------

    async def _asking(
        self, request: Request, work: Callable[[Asker | None, Relay], Awaitable[Message]]
    ) -> Message:
        """Run work in which the client may be asked, however its era asks."""
        if not request.modern:
            asker = HandshakeAsker(
                request.ctx.session, request.ctx.request_id, request.capabilities, request.owner
            )
            return await work(asker, request.relay)
        nonce = request.params.get("requestState")
        if questions.read_state(nonce) is not None:
            nonce = None  # the call begins anew, with its answer
        if nonce is None and not request.capabilities:
            return await work(None, request.relay)
        if nonce is None:

            async def run(call: ParkedCall) -> Message:
                asker = ParkingAsker(call, request.capabilities, request.owner)
                return await work(asker, request.relay)

            parked = ParkedCall(run, request.relay)
        else:
            found = self.parking.take(str(nonce), request.owner)
            if found is None:
                raise MCPError(
                    INVALID_PARAMS,
                    "Invalid or expired requestState",
                    {"reason": "invalid_request_state"},
                )
            parked = found
            parked.relay.take_over(request.relay)
            answers = request.params.get("inputResponses")
            parked.answer(dict(answers) if isinstance(answers, Mapping) else {})
        result = await parked.proceed()
        await parked.relay.flush()
        if not isinstance(result, Questions):
            return dict(result)
        return {
            "resultType": "input_required",
            "inputRequests": dict(result),
            "requestState": self.parking.park(parked, request.owner, self.config.answer_timeout),
        }

    # tools -------------------------------------------------------------------------------------

    async def list_tools(self, request: Request) -> Message:
        page = _page(request, self.tools.for_client(request.client), self.config.page_size, "name")
        return _list("tools", page, self.config.list_ttl)

    async def call_tool(self, request: Request) -> Message:
        name = str(request.params.get("name"))
        arguments = request.params.get("arguments") or {}
        if self.tools.searches_for(request.client):
            if name == shown.FIND:
                return self._found(str(arguments.get("query", "")), request)
            if name == shown.CALL:
                name, arguments = str(arguments.get("name")), arguments.get("arguments") or {}
        tool = self.tools.get(name, request.client)
        if tool is None:
            near = [
                n
                for n in self.runtime.registry.close_names(name)
                if self.tools.get(n, request.client) is not None
            ]
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}{hint}")
        approvals = self.runtime.approvals
        user, place = request.client.user, request.place
        state = questions.read_state(request.params.get("requestState"))
        if state is not None:
            again = questions.take_answer(
                approvals, state, user, place, request.params.get("inputResponses")
            )
            if again is not None:
                return again
        context = JobContext(
            user_id=user,
            session_id=request.client.session,
            approval=None if state is None else state.approval_id,
        )

        async def work(asker: Asker | None, relay: Relay) -> Message:
            front = Front(
                asker,
                relay.log,
                request.meta,
                request.first_answers,
                may_approve=self.config.approvals == "ask",
                approvals=approvals,
            )
            current_front.set(front)
            outcome = await self.runtime.run(
                ToolCall(name, dict(arguments)),
                None,
                context,
                progress=lambda report: relay.progress(report.done, report.total, report.message),
            )
            if isinstance(outcome.error, RpcError):
                raise outcome.error
            if isinstance(outcome.error, ApprovalRequired) and self._asks(request):
                asked = questions.State(str(outcome.error.approval_id), user, place)
                put = questions.question(approvals, asked)
                if put is not None:
                    return put
            return shown.to_result(outcome, front, tool, self.runtime.services.leaks)

        return await self._asking(request, work)

    def _asks(self, request: Request) -> bool:
        """Whether a call that waits is put before the client by the result of its request."""
        may = request.modern and self.config.approvals == "ask"
        return may and can_fill_in_a_form(request.capabilities)

    def _found(self, query: str, request: Request) -> Message:
        found = [
            {key: tool[key] for key in ("name", "description", "inputSchema")}
            for tool in self.tools.find(query, request.client)
        ]
        return {
            "content": [{"type": "text", "text": as_text(found)}],
            "structuredContent": {"tools": found},
        }

    # resources and prompts ---------------------------------------------------------------------

    async def list_things(self, request: Request, kind: Kind, field: str) -> Message:
        items = await self.library.listed(kind)
        page = _page(request, items, self.config.page_size, field)
        return _list(kind.key, page, self.config.list_ttl)

    async def read_resource(self, request: Request) -> Message:
        uri = str(request.params.get("uri"))
        upstream, inner = await self.library.find_resource(uri)
        self._record("resource_read", request, upstream.name, inner)
        result = await self._passed_on(request, upstream, "resources/read", {"uri": inner})
        contents = result.get("contents")
        if uri != inner and isinstance(contents, list):
            result["contents"] = [
                item | {"uri": uri} if isinstance(item, dict) and item.get("uri") == inner else item
                for item in contents
            ]
        return result

    async def get_prompt(self, request: Request) -> Message:
        upstream, name = await self.library.find_prompt(str(request.params.get("name")))
        self._record("prompt_read", request, upstream.name, name)
        params: Message = {"name": name}
        if request.params.get("arguments") is not None:
            params["arguments"] = request.params["arguments"]
        return await self._passed_on(request, upstream, "prompts/get", params)

    async def complete(self, request: Request) -> Message:
        params = {key: value for key, value in request.params.items() if key != "_meta"}
        reference = dict(params.get("ref") or {})
        if reference.get("type") == "ref/prompt":
            upstream, name = await self.library.find_prompt(str(reference.get("name")))
            reference["name"] = name
        else:
            upstream, uri = await self.library.find_resource(str(reference.get("uri")))
            reference["uri"] = uri
        params["ref"] = reference
        call = Call(upstream.config.timeout, meta=request.meta)
        return await upstream.request("completion/complete", params, call)

    async def _passed_on(
        self, request: Request, upstream: Any, method: str, params: Message
    ) -> Message:
        async def work(asker: Asker | None, relay: Relay) -> Message:
            call = Call(
                upstream.config.timeout,
                asker=asker,
                on_progress=relay.progress,
                on_log=relay.log,
                meta=request.meta,
                first_answers=request.first_answers,
            )
            result = await upstream.request(method, params, call)
            cleaned, _ = self.runtime.services.leaks.redact_value(result)
            return dict(cleaned)

        return await self._asking(request, work)

    def _record(self, event: str, request: Request, server: str, what: str) -> None:
        audit = self.runtime.services.audit
        if audit is not None:
            who = {"user": request.client.user, "session": request.client.session}
            audit.record(event, **who, server=server, what=what[:500])

    # subscriptions -----------------------------------------------------------------------------

    async def subscribe(self, request: Request) -> Message:
        uri = str(request.params.get("uri"))
        upstream, inner = await self.library.find_resource(uri)
        await upstream.subscribe(inner)
        self._subscriptions.setdefault(uri, set()).add(request.owner)
        return {}

    async def unsubscribe(self, request: Request) -> Message:
        uri = str(request.params.get("uri"))
        owners = self._subscriptions.get(uri, set())
        owners.discard(request.owner)
        if not owners:
            self._subscriptions.pop(uri, None)
            upstream, inner = await self.library.find_resource(uri)
            await upstream.unsubscribe(inner)
        return {}

    async def _listen_upstream(self, ctx: Context) -> None:
        """Subscribe with the servers to what a client of the stateless era listens for."""
        wanted = ((ctx.params or {}).get("notifications") or {}).get("resourceSubscriptions")
        for uri in wanted if isinstance(wanted, list) else ():
            try:
                upstream, inner = await self.library.find_resource(str(uri))
                await upstream.subscribe(inner)
            except (HardpointError, TimeoutError) as error:
                logger.warning("no subscription to %s: %s", uri, error)

    async def set_level(self, request: Request) -> Message:
        level = str(request.params.get("level"))
        if level not in LEVELS:
            raise MCPError(INVALID_PARAMS, f"unknown log level {level!r}")
        self._levels[request.owner] = level
        for toolset in self.toolsets.values():
            if toolset.upstream.connected:
                self._in_background(toolset.upstream.set_log_level(level))
        return {}

    # changes -----------------------------------------------------------------------------------

    def _remember(self, owner: object, ctx: Context) -> None:
        """Keep the latest session of a connection, for what is said outside any request."""
        self._sessions.pop(owner, None)
        self._sessions[owner] = ctx.session
        while len(self._sessions) > 10_000:
            gone = next(iter(self._sessions))
            del self._sessions[gone]
            self._levels.pop(gone, None)

    def _server_changed(self, server: str, method: str) -> None:
        what = method.split("/")[1]
        self.library.forget(server, what)
        self._changed_soon(what)

    def _server_said(self, server: str) -> Callable[[str, Message], None]:
        def said(method: str, params: Message) -> None:
            if method == "notifications/resources/updated" and isinstance(params.get("uri"), str):
                uris = {params["uri"], self.library.outer_uri(server, params["uri"])}
                self._in_background(self._updated(uris))

        return said

    def _changed_soon(self, what: str) -> None:
        if self._loop is not None:
            # The registry may change on any thread.
            self._loop.call_soon_threadsafe(self._debounce, what)

    def _debounce(self, what: str) -> None:
        if what not in self._changes and self._loop is not None:
            self._changes[what] = self._loop.call_later(_DEBOUNCE, self._tell, what)

    def _tell(self, what: str) -> None:
        self._changes.pop(what, None)
        if what == "tools" and self._listen_to_servers():
            for other in ("prompts", "resources"):
                self._debounce(other)
        self._in_background(self._tell_everybody(what))

    async def _tell_everybody(self, what: str) -> None:
        event, notification = _CHANGES[what]
        await self.bus.publish(event)
        for owner, session in list(self._sessions.items()):
            await self._say(owner, session.send_notification, notification)

    async def _updated(self, uris: set[str]) -> None:
        for uri in uris:
            await self.bus.publish(ResourceUpdated(uri))
            for owner in self._subscriptions.get(uri, set()).copy():
                session = self._sessions.get(owner)
                if session is not None:
                    await self._say(owner, session.send_resource_updated, uri)

    async def _say(self, owner: object, send: Callable[..., Awaitable[None]], what: Any) -> None:
        try:
            async with asyncio.timeout(5):
                await send(what)
        except Exception as error:  # the client has gone; it is told nothing any more
            logger.debug("a client is gone: %s", error)
            self._sessions.pop(owner, None)

    def _in_background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _check(ctx: Context, modern: bool) -> None:
    """The checks of the SDK that a middleware comes before."""
    if not modern and ctx.session.client_params is None:
        raise MCPError(INVALID_PARAMS, "Invalid request parameters", "")
    try:
        specified.validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
    except KeyError:
        raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method) from None


def _page(request: Request, items: Any, size: int, field: str) -> shown.Page:
    cursor = request.params.get("cursor")
    try:
        return shown.page_of(items, cursor, size, field)
    except ValueError:
        raise MCPError(INVALID_PARAMS, "Invalid cursor") from None


def _list(key: str, page: shown.Page, ttl: float) -> Message:
    result: Message = {key: list(page.items), "ttlMs": int(ttl * 1000), "cacheScope": "private"}
    if page.next is not None:
        result["nextCursor"] = page.next
    return result


async def _elsewhere(ctx: Any, params: Any) -> Any:
    """A handler that says that a method is served; the middleware answers it."""
    raise MCPError(METHOD_NOT_FOUND, "Method not found")


class GatewayServer(Server[Any]):
    """The SDK's server, with the capabilities of what stands behind the gateway."""

    def __init__(self, gateway: Gateway) -> None:
        import warnings
        from importlib.metadata import version

        self._gateway = gateway
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # logging is deprecated, and still asked for
            super().__init__(
                gateway.config.name,
                version=version("hardpoint-mcp"),
                title="Hardpoint",
                instructions=gateway.config.instructions,
                get_tool_input_schema=self._schema_of,
                on_list_tools=_elsewhere,
                on_call_tool=_elsewhere,
                on_list_resources=_elsewhere,
                on_list_resource_templates=_elsewhere,
                on_read_resource=_elsewhere,
                on_subscribe_resource=_elsewhere,
                on_unsubscribe_resource=_elsewhere,
                on_list_prompts=_elsewhere,
                on_get_prompt=_elsewhere,
                on_completion=_elsewhere,
                on_set_logging_level=_elsewhere,
                on_subscriptions_listen=ListenHandler(gateway.bus),
            )
        security = RequestStateSecurity(
            keys=[questions.sealing_key(gateway.runtime.services)],
            ttl=gateway.config.answer_timeout,
        )
        self.middleware.append(RequestStateBoundary(security, default_audience=self.name))
        self.middleware.append(gateway.middleware)

    def _schema_of(self, tool: str) -> Mapping[str, Any] | None:
        """The schema by which the SDK checks headers that repeat arguments."""
        definition = self._gateway.runtime.registry.entry(tool)
        return None if definition is None else definition.definition.parameters

    def get_capabilities(
        self,
        notification_options: Any = None,
        experimental_capabilities: Any = None,
        extensions: Any = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        offers = self._gateway.library.offers
        return types.ServerCapabilities(
            tools=types.ToolsCapability(list_changed=True),
            resources=types.ResourcesCapability(subscribe=True, list_changed=True)
            if offers("resources")
            else None,
            prompts=types.PromptsCapability(list_changed=True) if offers("prompts") else None,
            completions=types.CompletionsCapability() if offers("completions") else None,
            logging=types.LoggingCapability(),
        )
