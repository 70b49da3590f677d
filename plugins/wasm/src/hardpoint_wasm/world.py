"""The tool world of IronClaw, in every version seen: recognise it and bind it by its types.

A component says in its imports which functions it wants and with which types; those decide, not the
version number: four or five arguments of `http-request`, a text or a record for its error, a record
or a variant for the response. What is imported beyond that is refused by name. What the functions
do is decided in `host`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from hardpoint.errors import SandboxError
from hardpoint_wasm.execution import Execution, Stopped
from hardpoint_wasm.values import chosen_case, encodable, make_case
from hardpoint_wasm.wit import BYTES, STRING, WitFunction, WitType, option

if TYPE_CHECKING:
    from wasmtime import Store
    from wasmtime.component import Component, ExportIndex, Linker

PACKAGE = "near:agent"
_NAME = re.compile(r"near:agent/(?P<interface>[a-z0-9-]+)(?:@(?P<version>\d+\.\d+\.\d+))?$")
# The newest known patch of each minor version; None is the package without a version.
_KNOWN: Mapping[str | None, int] = {None: 0, "0.2": 0, "0.3": 0, "0.4": 1}
VERSIONS = "no version, 0.2.0, 0.3.0, 0.4.0 and 0.4.1"

FAILURE_KINDS = (
    "auth-required",
    "input",
    "output-too-large",
    "executor",
    "network-denied",
    "client",
    "operation-failed",
)


# what the host gives, whatever the version -------------------------------------------------------


@attrs.frozen
class HttpResponse:
    """What a request brought back."""

    status: int
    headers_json: str
    body: bytes


@attrs.frozen
class Failure:
    """Why a host function did not do it. Versions before 0.4.1 see the message alone."""

    message: str
    kind: str = "operation-failed"
    code: str = "failed"
    request_sent: bool = False


class HostFunctions(Protocol):
    """What a tool may ask of its host. Called on the slot's thread; nothing here may raise but
    `Stopped`."""

    def log(self, level: str, message: str) -> None: ...

    def now_millis(self) -> int: ...

    def workspace_read(self, path: str) -> str | None: ...

    def http_request(
        self, method: str, url: str, headers_json: str, body: bytes | None, timeout_ms: int | None
    ) -> HttpResponse | Failure: ...

    def tool_invoke(self, alias: str, params_json: str) -> str | Failure: ...

    def secret_exists(self, name: str) -> bool: ...


@attrs.frozen
class GuestFailure:
    """An error that the guest itself reports."""

    message: str
    kind: str = "operation-failed"
    code: str = ""


@attrs.frozen
class ToolRequest:
    """What a tool is asked to do."""

    params: str
    context: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    stdin: None = None


@attrs.frozen
class Describe:
    """Ask a tool for its description and schema."""

    env: tuple[tuple[str, str], ...] = ()
    stdin: None = None


# recognise -------------------------------------------------------------------------------------

_LEVELS = WitType("enum", (), tuple((n, None) for n in ("trace", "debug", "info", "warn", "error")))
_REQUEST = WitType("record", (), (("params", STRING), ("context", option(STRING))))
_RESPONSE = WitType("record", (), (("output", option(STRING)), ("error", option(STRING))))
_HTTP_RESPONSE = WitType(
    "record", (), (("status", WitType("u16")), ("headers-json", STRING), ("body", BYTES))
)
_HTTP_PARAMS = (STRING, STRING, STRING, option(BYTES), option(WitType("u32")))
_SIMPLE = {
    "log": ((_LEVELS, STRING), None),
    "now-millis": ((), WitType("u64")),
    "workspace-read": ((STRING,), option(STRING)),
    "secret-exists": ((STRING,), WitType("bool")),
}


@attrs.frozen
class World:
    """A component of the tool world: its names and the types that differ between versions."""

    tool: str
    host: str | None
    version: str | None
    functions: Mapping[str, WitFunction]
    """The host functions that it imports."""
    execute: WitFunction


def interface(name: str, expected: str) -> bool:
    match = _NAME.match(name)
    return match is not None and match["interface"] == expected


def check_version(name: str) -> str | None:
    """The version in an interface name.

    Raises:
        SandboxError: It is none that this Hardpoint knows.
    """
    match = _NAME.match(name)
    version = match["version"] if match else None
    minor, _, patch = (version or "").rpartition(".")
    newest = _KNOWN.get(minor or None)
    if match is None or newest is None or int(patch or 0) > newest:
        raise SandboxError(
            f"the component is built for {name!r}, which is not supported",
            hint=f"known versions of {PACKAGE}: {VERSIONS}",
        )
    return version


def check_host_function(name: str, function: WitFunction) -> None:
    """Refuse a host function that is unknown or has other types.

    Raises:
        SandboxError: Naming the function and its types.
    """
    params = tuple(type_ for _, type_ in function.params)
    if name in _SIMPLE:
        fits = (params, function.result) == _SIMPLE[name]
    elif name == "http-request":
        fits = params in (_HTTP_PARAMS, _HTTP_PARAMS[:4]) and _is_result(
            function.result, _HTTP_RESPONSE
        )
    elif name == "tool-invoke":
        fits = params == (STRING, STRING) and _is_result(function.result, STRING)
    else:
        raise SandboxError(f"the component imports the unknown host function {name[:80]!r}")
    if not fits:
        raise SandboxError(f"the host function {name!r} has other types here: {function}")


def check_execute(function: WitFunction) -> None:
    """Refuse a tool whose `execute` has types that we do not know.

    Raises:
        SandboxError: Showing the types.
    """
    params = tuple(type_ for _, type_ in function.params)
    if params != (_REQUEST,) or not (
        function.result == _RESPONSE or _is_response_variant(function.result)
    ):
        raise SandboxError(f"the tool's execute has unknown types: {function}")


def _is_result(type_: WitType | None, ok: WitType) -> bool:
    if type_ is None or type_.kind != "result":
        return False
    parts = dict(type_.cases)
    error = parts["err"]
    return parts["ok"] == ok and error is not None and error.kind in ("string", "record")


def _is_response_variant(type_: WitType | None) -> bool:
    if type_ is None or type_.kind != "variant" or type_.names != ("success", "failure"):
        return False
    (_, success), (_, failure) = type_.cases
    if success not in (STRING, option(STRING)) or failure is None:
        return False
    return failure == STRING or (failure.kind == "record" and "message" in failure.names)


# bind ------------------------------------------------------------------------------------------


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
