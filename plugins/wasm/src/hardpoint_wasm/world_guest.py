"""Bind a component of the tool world to our host functions, in the shapes of its version."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hardpoint.errors import SandboxError
from hardpoint_wasm.execution import Execution, Stopped
from hardpoint_wasm.values import chosen_case, encodable, make_case
from hardpoint_wasm.wit import WitFunction, WitType
from hardpoint_wasm.world import (
    Describe,
    Failure,
    GuestFailure,
    HostFunctions,
    ToolRequest,
    World,
)

if TYPE_CHECKING:
    from wasmtime import Store
    from wasmtime.component import Component, ExportIndex, Linker


class WorldGuest:
    """A component of the tool world, loaded into one engine."""

    stdout_bytes = 0

    def __init__(self, world: World, component: Component, linker: Linker, *, wasi: bool) -> None:
        self.wasi = wasi
        self._world = world
        self._component = component
        self._linker = linker
        tool = component.get_export_index(world.tool)
        self._exports: dict[str, ExportIndex] = {}
        for name in ("execute", "schema", "description"):
            index = component.get_export_index(name, tool)
            if index is None:
                raise SandboxError(f"the component's {world.tool} does not export {name!r}")
            self._exports[name] = index

    def call(self, store: Store, request: ToolRequest | Describe) -> Any:
        instance = self._linker.instantiate(store, self._component)

        def call(name: str, *args: Any) -> Any:
            function = instance.get_func(store, self._exports[name])
            assert function is not None
            return function(store, *args)

        if isinstance(request, Describe):
            return call("description"), call("schema")
        record = _record(params=encodable(request.params), context=request.context)
        return _answer(self._world.execute.result, call("execute", record))


def define_host(linker: Linker, world: World, current: Callable[[], Execution]) -> None:
    """Put the host functions that a component imports into a linker."""
    if world.host is None:
        return
    with linker.root() as root, root.add_instance(world.host) as instance:
        for name, function in world.functions.items():
            instance.add_func(name, _guarded(_ADAPTERS[name](function), current))


def _guarded(adapter: Callable[..., Any], current: Callable[[], Execution]) -> Callable[..., Any]:
    """Count the call, and let nothing but an engine error reach the guest."""
    from wasmtime import WasmtimeError

    def call(store: Any, *args: Any) -> Any:
        execution = current()
        try:
            execution.count_host_call()
            return adapter(execution.host, *args)
        except Stopped as stopped:
            raise WasmtimeError(f"stopped: {stopped.reason}") from None
        # A host function that raises is a bug of ours. The guest must not go on with half a value.
        except BaseException as error:
            execution.fault = error
            raise WasmtimeError("a host function failed") from None

    return call


def _http(function: WitFunction) -> Callable[..., Any]:
    result = function.result
    assert result is not None
    error = dict(result.cases)["err"]

    def call(
        host: HostFunctions,
        method: str,
        url: str,
        headers: str,
        body: bytes | None,
        timeout: int | None = None,
    ) -> Any:
        answer = host.http_request(method, url, headers, body, timeout)
        if isinstance(answer, Failure):
            return make_case(result, "err", fit_failure(error, answer))
        headers_json = encodable(answer.headers_json)
        record = _record(status=answer.status, headers_json=headers_json, body=answer.body)
        return make_case(result, "ok", record)

    return call


def _invoke(function: WitFunction) -> Callable[..., Any]:
    result = function.result
    assert result is not None
    error = dict(result.cases)["err"]

    def call(host: HostFunctions, alias: str, params: str) -> Any:
        answer = host.tool_invoke(alias, params)
        if isinstance(answer, Failure):
            return make_case(result, "err", fit_failure(error, answer))
        return make_case(result, "ok", encodable(answer))

    return call


def _read(function: WitFunction) -> Callable[..., Any]:
    def call(host: HostFunctions, path: str) -> Any:
        text = host.workspace_read(path)
        return None if text is None else encodable(text)

    return call


_ADAPTERS: dict[str, Callable[[WitFunction], Callable[..., Any]]] = {
    "log": lambda function: lambda host, level, message: host.log(level, message),
    "now-millis": lambda function: lambda host: host.now_millis(),
    "workspace-read": _read,
    "http-request": _http,
    "tool-invoke": _invoke,
    "secret-exists": lambda function: lambda host, name: host.secret_exists(name),
}


def fit_failure(type_: WitType | None, failure: Failure) -> Any:
    """A failure in the shape that this component has for it: text, or a record of some fields."""
    assert type_ is not None
    if type_.kind == "string":
        return encodable(failure.message)
    known = {
        "kind": failure.kind,
        "code": failure.code,
        "message": failure.message,
        "request-sent": failure.request_sent,
    }
    return _record(**{name: _fit(part, known.get(name)) for name, part in type_.cases if part})


def _fit(type_: WitType, value: Any) -> Any:
    match type_.kind:
        case "string":
            return encodable(str(value or ""))
        case "bool":
            return bool(value)
        case "enum":
            return next(
                (n for n in (value, "operation-failed") if n in type_.names), type_.names[-1]
            )
        case "option":
            return (
                make_case(type_, "none", None)
                if value is None
                else make_case(type_, "some", _fit(type_.items[0], value))
            )
        case "u8" | "u16" | "u32" | "u64" | "s8" | "s16" | "s32" | "s64":
            return 0
    raise SandboxError(f"an error of this component has a field of an unknown type: {type_}")


def _answer(type_: WitType | None, response: Any) -> str | GuestFailure | None:
    assert type_ is not None
    if type_.kind == "record":
        if response.error is not None:
            return GuestFailure(response.error)
        output: str | None = response.output
        return output
    name, payload = chosen_case(type_, response)
    if name == "success":
        success: str | None = payload
        return success
    if isinstance(payload, str):
        return GuestFailure(payload)
    fields = {field: getattr(payload, field) for field in payload.__dict__}
    text = {name: value for name, value in fields.items() if isinstance(value, str)}
    return GuestFailure(
        text.get("message", ""), text.get("kind", "operation-failed"), text.get("code", "")
    )


def _record(**fields: Any) -> Any:
    from wasmtime import component as wc

    record = wc.Record()
    for name, value in fields.items():
        setattr(record, name.replace("_", "-"), value)
    return record
