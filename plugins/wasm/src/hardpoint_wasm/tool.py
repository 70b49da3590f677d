"""`WasmTool`: a module as a tool of the registry. How it runs is decided in `module` and `slot`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs

from hardpoint import ApprovalRequirement, JobContext, Tool, ToolDiscoverySummary, ToolOutput
from hardpoint.errors import (
    ConfigError,
    ExecutionFailed,
    InvalidParameters,
    NotAuthorized,
    RegistrationError,
    SandboxError,
    ToolError,
)
from hardpoint_wasm.capabilities import Capabilities
from hardpoint_wasm.describe import Interface, describe, refuse_constant
from hardpoint_wasm.limits import Limits
from hardpoint_wasm.names import check_name, own_name, tool_name
from hardpoint_wasm.runtime import WasmRuntime, default_runtime

if TYPE_CHECKING:
    from hardpoint_wasm.logins import Renew
    from hardpoint_wasm.module import Module

MAX_GUEST_ERROR = 4096


class WasmTool(Tool):
    """A WebAssembly module as a tool.

    Example:
        tool = await WasmTool.load(wasm_bytes, name="word_count")
        runtime.registry.register(tool)
    """

    def __init__(
        self,
        name: str,
        interface: Interface,
        open_module: Callable[[], Module],
        *,
        capabilities: Capabilities | Callable[[], Capabilities] | None = None,
        runtime: WasmRuntime | None = None,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        renew: Renew | None = None,
    ) -> None:
        self.name = check_name(name)
        self.interface = interface
        self.description = interface.description or f"The WebAssembly tool {name}."
        self._capabilities = capabilities or Capabilities()
        self.limits = limits or (runtime or default_runtime()).limits
        self._runtime = runtime
        self._open = open_module
        self._module: Module | None = None
        self.renew = renew
        """Renews the login behind a secret, before a request carries it."""
        self._env = tuple((env or {}).items())

    @property
    def capabilities(self) -> Capabilities:
        """What the tool may do."""
        if not isinstance(self._capabilities, Capabilities):
            self._capabilities = self._capabilities()
        return self._capabilities

    def containment(self) -> Mapping[str, Any]:
        """What the sandbox holds back, and what it lets through, for `explain`."""
        granted = self.capabilities.permissions
        return {
            "sandbox": "WebAssembly, a fresh instance for each call",
            "contained": "files, network, environment, processes, memory, time",
            "not_contained": ", ".join(granted) or "nothing: no permission is granted",
            "memory": f"{self.limits.memory >> 20} MiB",
            "seconds": self.limits.timeout,
        }

    # loading -----------------------------------------------------------------------------------

    @classmethod
    async def load(
        cls,
        wasm: bytes,
        name: str | None = None,
        capabilities: Capabilities | Mapping[str, Any] | str | None = None,
        *,
        runtime: WasmRuntime | None = None,
        limits: Limits | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Self:
        """Load a module that is one tool.

        Args:
            wasm: The bytes of a component or a WASI command.
            name: The tool's name; taken from the capabilities or the module's own name section when
                it is not given.
            capabilities: What the tool may do: the content of a capabilities file. Everything in it
                is granted; nothing is without it.
            runtime: Whose cache and limits are used.
            limits: What one call may use.
            description: Told to the model instead of what the tool says of itself.
            schema: The arguments' JSON Schema, instead of the tool's own.

        Raises:
            SandboxError: The module is invalid or imports what no tool gets.
            RegistrationError: It has no name, or more than one tool is in it.
            ConfigError: The capabilities cannot be read.
        """
        tools: Sequence[Self] = await load_tools(
            wasm,
            name,
            capabilities,
            runtime=runtime,
            limits=limits,
            description=description,
            schema=schema,
            cls=cls,
        )
        if len(tools) > 1:
            names = ", ".join(tool.name for tool in tools)
            raise RegistrationError(
                name or "", f"the component has {len(tools)} tools: {names}", hint="use load_tools"
            )
        return tools[0]

    @classmethod
    async def from_file(
        cls, path: str | Path, *, runtime: WasmRuntime | None = None, limits: Limits | None = None
    ) -> Self:
        """Load `NAME.wasm` under its own name, with `NAME.capabilities.json` beside it.

        Raises:
            ToolError: As for `load`.
        """
        path = Path(path)
        wasm, capabilities = await asyncio.to_thread(read_files, path)
        return await cls.load(wasm, tool_name(path), capabilities, runtime=runtime, limits=limits)

    # what the registry asks --------------------------------------------------------------------

    def parameters_schema(self) -> dict[str, Any]:
        return dict(self.interface.parameters)

    def discovery_schema(self) -> dict[str, Any]:
        return dict(self.interface.discovery or self.interface.parameters)

    def discovery_summary(self) -> ToolDiscoverySummary | None:
        summary = self.interface.summary
        return None if summary is None else ToolDiscoverySummary(**summary)

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        if self.capabilities.http is not None and self.capabilities.http.allowlist:
            return ApprovalRequirement.UNLESS_AUTO_APPROVED
        return ApprovalRequirement.NEVER

    def execution_timeout(self) -> timedelta:
        # Ours comes first: it stops the guest, the core's can only abandon it.
        return timedelta(seconds=self.limits.timeout + 2)

    def effects(self, params: Mapping[str, Any]) -> Collection[Any]:
        effects: set[str] = set()
        if self.capabilities.workspace is not None:
            effects.add("read")
        if self.capabilities.http is not None and self.capabilities.http.allowlist:
            effects |= {"network", "send"}
        return effects

    # running -----------------------------------------------------------------------------------

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        """Run one call in a fresh instance.

        Raises:
            ToolTimeout: The guest was stopped at its time-out.
            SandboxError: A limit stopped the guest, or it trapped.
            ExecutionFailed: The tool itself reported an error.
        """
        from hardpoint_wasm.execution import Execution
        from hardpoint_wasm.host import Host

        module = await self.module()
        started = time.perf_counter()
        host = Host(self.name, self.capabilities, ctx, self.renew)
        execution = Execution(
            module.limits, host, loop=asyncio.get_running_loop(), deadline=_deadline(ctx)
        )
        host.execution = execution
        request = self._request(module, params, ctx)
        try:
            answer = await module.run(execution, request, self.name, nested=ctx.depth > 0)
        finally:
            host.emit_logs()
        output = self._output(module, execution, answer)
        meta = {"logs": len(host.logs) + host.logs_dropped, "kind": module.shape.kind}
        return attrs.evolve(
            output,
            duration=timedelta(seconds=time.perf_counter() - started),
            meta={"wasm": meta},
        )

    async def module(self) -> Module:
        """The module behind this tool, opened when first needed."""
        if self._module is None:
            self._module = await asyncio.to_thread(self._open)
        return self._module

    def _request(self, module: Module, params: Mapping[str, Any], ctx: JobContext) -> Any:
        from hardpoint_wasm.command import CommandRequest
        from hardpoint_wasm.typed import FunctionCall
        from hardpoint_wasm.world import ToolRequest

        text = json.dumps(params, ensure_ascii=False)
        match module.shape.kind:
            case "world":
                # A stranger's code learns nothing of who calls; the zone is what tools ask for.
                context = json.dumps({"call_id": ctx.call_id, "user_timezone": ctx.user_timezone})
                return ToolRequest(text, context, self._env)
            case "command":
                return CommandRequest(text.encode("utf-8", "replace"), self._env)
        function = self.interface.function
        if function is None:
            raise SandboxError(
                f"{self.name} has several functions, which are listed from now on as tools",
                hint="look at the tools again and call one of those",
            )
        return FunctionCall(function, params, self._env)

    def _output(self, module: Module, execution: Any, answer: Any) -> ToolOutput:
        from hardpoint_wasm.traps import failed_command
        from hardpoint_wasm.typed import FunctionError
        from hardpoint_wasm.world import GuestFailure

        if isinstance(answer, GuestFailure):
            raise self._guest_error(answer.message, answer.kind)
        if isinstance(answer, FunctionError):
            value = answer.value
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            raise self._guest_error(text, "operation-failed")
        if module.shape.kind == "functions":
            return ToolOutput.success(answer)
        if module.shape.kind == "command":
            code, stdout, full = answer
            if full:
                raise _too_long(self.name, module.limits)
            if code != 0:
                raise failed_command(code, execution, self.name)
            answer = stdout.decode("utf-8", "replace")
        if answer is None:
            return ToolOutput.success(None)
        if len(answer.encode("utf-8")) > module.limits.output_bytes:
            raise _too_long(self.name, module.limits)
        try:
            return ToolOutput.success(json.loads(answer, parse_constant=refuse_constant))
        except (ValueError, RecursionError):
            return ToolOutput.text(answer)

    def _guest_error(self, message: str, kind: str) -> ToolError:
        text = message.encode("utf-8", "replace")[:MAX_GUEST_ERROR].decode("utf-8", "ignore")
        text = text.strip() or "it gave no reason"
        hint = f'call tool_info(name: "{self.name}", detail: "schema") to see what it expects'
        match kind:
            case "input":
                return InvalidParameters(f"{self.name}: {text}", hint=hint)
            case "auth-required":
                return NotAuthorized(f"{self.name}: {text}", hint=self._auth_hint())
        return ExecutionFailed(f"{self.name} reported: {text}", hint=hint)

    def _auth_hint(self) -> str | None:
        auth = self.capabilities.auth
        if auth is None:
            return None
        return f"a person logs in with: hardpoint wasm auth {self.name}"


async def load_tools(
    wasm: bytes,
    name: str | None = None,
    capabilities: Capabilities | Mapping[str, Any] | str | None = None,
    *,
    runtime: WasmRuntime | None = None,
    limits: Limits | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    cls: type[WasmTool] = WasmTool,
) -> Sequence[Any]:
    """Every tool of a module: one, or one for each exported function of a plain component.

    Raises:
        ToolError: As for `WasmTool.load`.
    """
    runtime = runtime or default_runtime()
    if capabilities is not None and not isinstance(capabilities, Capabilities):
        capabilities = Capabilities.from_json(capabilities)
    granted = capabilities or Capabilities()
    limits = limits or runtime.limits
    name = name or granted.name or own_name(wasm)
    if not name:
        raise RegistrationError(
            "", "the module says no name of its own", hint="load(..., name='what_it_does')"
        )
    check_name(name)
    module = await asyncio.to_thread(runtime.open, wasm, limits)
    interfaces = await describe(module, name, granted, description=description, schema=schema)
    return [
        cls(
            tool,
            interface,
            lambda: module,
            capabilities=granted,
            runtime=runtime,
            limits=limits,
        )
        for tool, interface in interfaces.items()
    ]


def read_files(path: Path) -> tuple[bytes, Capabilities | None]:
    """A module and the capabilities file beside it.

    Raises:
        ConfigError: One of them cannot be read.
    """
    sidecar = path.with_name(tool_name(path) + ".capabilities.json")
    try:
        wasm = path.read_bytes()
        text = sidecar.read_bytes() if sidecar.exists() else None
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from error
    try:
        return wasm, None if text is None else Capabilities.from_json(text)
    except ConfigError as error:
        raise ConfigError([f"{sidecar.name}: {problem}" for problem in error.problems]) from error


def _deadline(ctx: JobContext) -> float | None:
    return None if ctx.deadline is None else time.monotonic() + ctx.deadline - time.time()


def _too_long(tool: str, limits: Limits) -> SandboxError:
    return SandboxError(
        f"{tool} returned more than its {limits.output_bytes} bytes",
        hint="allow more with `output_bytes` in [plugin.wasm.tools.NAME], or ask for less",
    )
