"""The tool world of IronClaw, in every version seen: recognise it by its types.

A component says in its imports which functions it wants and with which types; those decide, not the
version number: four or five arguments of `http-request`, a text or a record for its error, a record
or a variant for the response. What is imported beyond that is refused by name. `world_guest`
binds what is found here; what the functions do is decided in `host`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

import attrs

from hardpoint.errors import SandboxError
from hardpoint_wasm.wit import BYTES, STRING, WitFunction, WitType, option

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
