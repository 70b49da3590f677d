"""Commands: a JSON object on standard input, one JSON value on standard output, an exit code.

Any language with a WASI target can make one, and it has no host functions at all: no requests, no
secrets, no other tools. Preview 1 modules and components with `wasi:cli/run` work alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from hardpoint_wasm import wasi
from hardpoint_wasm.execution import Execution, Stopped

if TYPE_CHECKING:
    from wasmtime import Engine, Module, Store
    from wasmtime.component import Component, Linker

RUN = "wasi:cli/run@0.2."
_INTERRUPTED, _FAILED = 27, 29  # WASI preview 1 error numbers


@attrs.frozen
class CommandRequest:
    """What a command is given."""

    stdin: bytes
    env: tuple[tuple[str, str], ...] = ()


class ModuleCommand:
    """A preview 1 command in one engine. `call` returns the exit code."""

    wasi = True

    def __init__(
        self, engine: Engine, module: Module, current: Callable[[], Execution], stdout_bytes: int
    ) -> None:
        from wasmtime import FuncType, Linker, ValType

        self.stdout_bytes = stdout_bytes
        self._module = module
        self._linker = Linker(engine)
        self._linker.allow_shadowing = True
        self._linker.define_wasi()
        i32, i64 = ValType.i32(), ValType.i64()
        for name, params, function in (
            ("poll_oneoff", [i32, i32, i32, i32], _polls(current)),
            ("clock_time_get", [i32, i64, i32], _tells_time),
        ):
            type_ = FuncType(params, [i32])
            self._linker.define_func(wasi.PREVIEW1, name, type_, function, access_caller=True)

    def call(self, store: Store, request: CommandRequest) -> int:
        from wasmtime import ExitTrap

        try:
            instance = self._linker.instantiate(store, self._module)
            start: Any = instance.exports(store)["_start"]
            start(store)
        except ExitTrap as end:
            return end.code
        return 0


class ComponentCommand:
    """A component with `wasi:cli/run` in one engine. `call` returns the exit code."""

    wasi = True

    def __init__(self, linker: Linker, component: Component, run: str, stdout_bytes: int) -> None:
        self.stdout_bytes = stdout_bytes
        self._linker, self._component = linker, component
        index = component.get_export_index("run", component.get_export_index(run))
        assert index is not None, f"{run} always has run"
        self._run = index

    def call(self, store: Store, request: CommandRequest) -> int:
        from wasmtime import ExitTrap

        try:
            function = self._linker.instantiate(store, self._component).get_func(store, self._run)
            assert function is not None
            return 0 if function(store).tag == "ok" else 1
        except ExitTrap as end:
            return end.code


# The engine's callbacks for core modules lose exceptions between threads, so these never raise: a
# stopped guest is interrupted anyway, as soon as it runs on.


def _polls(current: Callable[[], Execution]) -> Callable[..., int]:
    def poll_oneoff(caller: Any, *args: int) -> int:
        execution = current()
        try:
            execution.count_host_call()
            return wasi.poll_oneoff(execution, caller["memory"], caller, args)
        except Stopped:
            return _INTERRUPTED
        except BaseException as error:
            execution.fault = error
            execution.stop("closed")
            return _FAILED

    return poll_oneoff


def _tells_time(caller: Any, *args: int) -> int:
    try:
        return wasi.clock_time_get(caller["memory"], caller, args)
    except Exception:
        return _FAILED
