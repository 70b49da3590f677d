"""The quiet half of WASI: clocks, randomness and standard streams that lead nowhere.

A guest has no files, no environment but what the host sets, no network and no processes. Sleeping
works and ends with the execution: timers are ours, because the engine cannot interrupt its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from hardpoint.errors import SandboxError
from hardpoint_wasm.execution import Execution, Stopped

if TYPE_CHECKING:
    from wasmtime import Engine
    from wasmtime.component import Linker

PREVIEW1 = "wasi_snapshot_preview1"
_QUIET = ("cli", "clocks", "filesystem", "io", "random", "sockets")
_INTERFACE = re.compile(r"wasi:(?P<package>[a-z0-9-]+)/[a-z0-9-]+@0\.2\.\d+$")
_CLOCK = "wasi:clocks/monotonic-clock@"


def check_imports(names: Iterable[str]) -> None:
    """Refuse every import that is not in the quiet half of WASI 0.2.

    Raises:
        SandboxError: Naming what is refused, most telling first.
    """
    refused = sorted(
        name
        for name in names
        if not (match := _INTERFACE.match(name)) or match["package"] not in _QUIET
    )
    if not refused:
        return
    hint = "a tool reaches the outside only through the functions of near:agent/host"
    if any(name.startswith("wasi:http") for name in refused):
        hint += "; requests go through its http-request, so build without wasi:http"
    shown = ", ".join(repr(name[:80]) for name in refused[:5])
    more = f" and {len(refused) - 5} more" if len(refused) > 5 else ""
    raise SandboxError(f"the component imports what no tool gets: {shown}{more}", hint=hint)


# components ------------------------------------------------------------------------------------

# Gives out a pollable that is ready. Only the engine makes them, so we ask for a timer of zero.
_READY = """(component
  (import "wasi:io/poll@0.2.0" (instance $poll (export "pollable" (type (sub resource)))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer 1 $pollable (type $p))
    (export "subscribe-duration" (func (param "when" u64) (result (own $p))))))
  (core func $subscribe (canon lower (func $clock "subscribe-duration")))
  (core module $m (import "c" "s" (func $s (param i64) (result i32)))
    (func (export "ready") (result i32) (call $s (i64.const 0))))
  (core instance $i (instantiate $m (with "c" (instance (export "s" (func $subscribe))))))
  (func (export "ready") (result (own $pollable)) (canon lift (core func $i "ready"))))"""


class Timers:
    """`wasi:clocks/monotonic-clock` for the components of one engine."""

    def __init__(self, engine: Engine, current: Callable[[], Execution]) -> None:
        self._engine = engine
        self._current = current
        self._ready: tuple[Linker, Any] | None = None

    def define(self, linker: Linker, imports: Iterable[str]) -> None:
        """Take the place of the engine's clock in a linker that has WASI already."""
        names = [name for name in imports if name.startswith(_CLOCK)]
        if not names:
            return
        linker.allow_shadowing = True
        with linker.root() as root:
            for name in names:
                with root.add_instance(name) as clock:
                    clock.add_func("now", lambda store: time.monotonic_ns())
                    clock.add_func("resolution", lambda store: 1)
                    clock.add_func("subscribe-duration", self._after)
                    clock.add_func("subscribe-instant", self._at)

    def _after(self, store: Any, nanoseconds: int) -> Any:
        # The guest gets its timer when the time is over: the wait is here, where we can end it.
        from wasmtime import WasmtimeError

        execution = self._current()
        try:
            execution.count_host_call()
            execution.sleep(nanoseconds / 1e9)
        except Stopped as stopped:
            raise WasmtimeError(f"stopped: {stopped.reason}") from None
        return self._make_ready(store)

    def _at(self, store: Any, instant: int) -> Any:
        return self._after(store, max(0, instant - time.monotonic_ns()))

    def _make_ready(self, store: Any) -> Any:
        from wasmtime import component as wc

        if self._ready is None:
            linker = wc.Linker(self._engine)
            linker.add_wasip2()
            self._ready = linker, wc.Component(self._engine, _READY)
        linker, component = self._ready
        function = linker.instantiate(store, component).get_func(store, "ready")
        assert function is not None
        return function(store)


# core modules ----------------------------------------------------------------------------------

_EVENT, _SUBSCRIPTION = 32, 48
_CLOCK_EVENT, _ABSOLUTE = 0, 1
_SUCCESS, _FAULT, _INVALID = 0, 21, 28


def poll_oneoff(execution: Execution, memory: Any, caller: Any, args: tuple[int, ...]) -> int:
    """WASI preview 1 `poll_oneoff`: wait for the earliest timer, or call streams ready.

    Raises:
        Stopped: The execution ended while the guest waited.
    """
    subscriptions, events, count, stored = (arg & 0xFFFFFFFF for arg in args)
    if not 0 < count <= 1024:
        return _INVALID
    size = memory.data_len(caller)
    if max(subscriptions + count * _SUBSCRIPTION, events + count * _EVENT, stored + 4) > size:
        return _FAULT

    raw = bytes(memory.read(caller, subscriptions, subscriptions + count * _SUBSCRIPTION))
    entries = [raw[i : i + _SUBSCRIPTION] for i in range(0, len(raw), _SUBSCRIPTION)]
    streams = [entry for entry in entries if entry[8] != _CLOCK_EVENT]
    ready = streams
    if not streams:
        waits = [_seconds(entry) for entry in entries]
        shortest = min(waits)
        execution.sleep(shortest)
        ready = [e for e, wait in zip(entries, waits, strict=True) if wait <= shortest]
    answer = b"".join(e[:8] + b"\0\0" + e[8:9] + b"\0" * (_EVENT - 11) for e in ready)
    memory.write(caller, answer, events)
    memory.write(caller, len(ready).to_bytes(4, "little"), stored)
    return _SUCCESS


def _seconds(subscription: bytes) -> float:
    clock = int.from_bytes(subscription[16:20], "little")
    timeout = int.from_bytes(subscription[24:32], "little")
    if int.from_bytes(subscription[40:42], "little") & _ABSOLUTE:
        timeout -= time.time_ns() if clock == 0 else time.monotonic_ns()
    return max(0, timeout) / 1e9


def clock_time_get(memory: Any, caller: Any, args: tuple[int, ...]) -> int:
    """WASI preview 1 `clock_time_get` on the clocks that `poll_oneoff` waits by."""
    clock, _, target = args
    now = {0: time.time_ns, 1: time.monotonic_ns}.get(clock)
    if now is None:
        return _INVALID
    target &= 0xFFFFFFFF
    if target + 8 > memory.data_len(caller):
        return _FAULT
    memory.write(caller, now().to_bytes(8, "little"), target)
    return _SUCCESS
