"""Repair what wasmtime-py gets wrong for hostile guests and threads; prove it at first use.

Four faults of the component layer (wasmtime 50), each with its repair and its self-test:

- a `list<u8>` is copied one ctypes object per byte, seconds per MiB: a strided memoryview;
- the case of an option, result or variant is picked with a module-global set, so threads can pick a
  wrong one: a local set;
- host exceptions are parked in one module global, so threads swap or lose them: a thread-local;
- a BaseException in a host function is swallowed and the guest goes on with an unset result: it
  becomes an error for the guest like any other.

What a list from a guest may cost is bounded here as well (`conversion_budget`). Which limits a tool
has is decided in `limits`.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hardpoint.errors import DomainUnavailable

_lock = threading.Lock()
_ready = False
_thread = threading.local()


def ensure() -> None:
    """Install the repairs and test them, once per process.

    Raises:
        DomainUnavailable: The installed wasmtime is another version, or a self-test failed. No
            component runs then.
    """
    global _ready
    if _ready:
        return
    with _lock:
        if _ready:
            return
        version = importlib.metadata.version("wasmtime")
        if not version.startswith("50."):
            raise DomainUnavailable(
                f"wasmtime {version} has not been checked for untrusted tools",
                hint="pip install 'wasmtime>=50.0.1,<51'",
            )
        try:
            _install()
            for test in (_bytes_survive, _threads_pick_their_own_case, _host_errors_stop_the_guest):
                test()
        # Whatever goes wrong in foreign private code means that the repairs do not fit it.
        except Exception as error:
            raise DomainUnavailable(
                f"the repairs of wasmtime {version} failed their self-test: {error!r}",
                hint="reinstall with: pip install --force-reinstall 'wasmtime>=50.0.1,<51'",
            ) from error
        _ready = True


@contextmanager
def conversion_budget(items: int) -> Iterator[None]:
    """Bound the list items that this thread converts from guest values while the block runs.

    Each item costs the host some microseconds of Python; past the budget the conversion fails.
    Byte lists are cheap and not counted.
    """
    _thread.items = items
    try:
        yield
    finally:
        _thread.items = None


def _spend(items: int) -> None:
    left = getattr(_thread, "items", None)
    if left is None:
        return
    if items > left:
        raise ValueError("a list from the tool has too many items")
    _thread.items = left - items


# the repairs -----------------------------------------------------------------------------------


def _install() -> None:
    from wasmtime import StoreContext, WasmtimeError
    from wasmtime import _ffi as ffi
    from wasmtime.component import _enter, _func, _linker, _resources
    from wasmtime.component import _types as types

    value = ffi.wasmtime_component_val_t
    size, kind_at, of_at = ctypes.sizeof(value), value.kind.offset, value.of.offset
    u8 = bytes([ffi.WASMTIME_COMPONENT_U8.value])
    list_to_c, list_from_c = types.ListType.convert_to_c, types.ListType.convert_from_c

    def view(data: Any, count: int) -> memoryview:
        array = (ctypes.c_ubyte * (count * size)).from_address(ctypes.addressof(data.contents))
        return memoryview(array).cast("B")

    def bytes_from_c(self: Any, c: Any) -> Any:
        if not self._is_bytes():
            _spend(c.of.list.size)
            return list_from_c(self, c)
        raw = c.of.list
        try:
            return bytes(view(raw.data, raw.size)[of_at::size]) if raw.size else b""
        finally:
            ffi.wasmtime_component_vallist_delete(ctypes.byref(raw))

    def bytes_to_c(self: Any, store: Any, val: Any, ptr: Any) -> None:
        if not self._is_bytes():
            list_to_c(self, store, val, ptr)
            return
        if not isinstance(val, bytes):
            raise TypeError("expected bytes value")
        raw = ffi.wasmtime_component_vallist_t()
        ffi.wasmtime_component_vallist_new_uninit(raw, len(val))
        if val:
            memory = view(raw.data, len(val))
            memory[kind_at::size] = u8 * len(val)
            memory[of_at::size] = val
        ptr.contents.kind = ffi.WASMTIME_COMPONENT_LIST
        ptr.contents.of.list = raw

    def lower(self: Any, store: Any, val: Any) -> tuple[str, Any]:
        tagged = self._tagged()
        if tagged and not isinstance(val, types.Variant):
            raise TypeError("expected Variant type")
        for name, case in self._cases():
            if tagged:
                chosen, payload = name == val.tag, val.payload
            elif case is None:
                chosen, payload = val is None, None
            else:
                classes: set[type] = set()
                case.add_classes(classes)
                # bool is a subclass of int, which must not make `true` a number.
                fits = isinstance(val, tuple(classes))
                chosen, payload = fits and (not isinstance(val, bool) or bool in classes), val
            if not chosen:
                continue
            if case is None:
                return name, None
            raw = ffi.wasmtime_component_val_t()
            case.convert_to_c(store, payload, ctypes.pointer(raw))
            return name, ffi.wasmtime_component_val_new(ctypes.byref(raw))
        raise ValueError("value not valid for this variant")

    def catch(store_raw: Any, func: Callable[[Any], None]) -> Any:
        store, error = StoreContext(store_raw), None
        try:
            func(store)
        except WasmtimeError as raised:
            error = raised
        except BaseException as raised:
            _thread.raised = raised
            error = WasmtimeError("host exception")
        finally:
            store._invalidate()
        return ctypes.cast(error._consume(), ctypes.c_void_p).value if error else 0

    def enter(func: Callable[[], Any]) -> None:
        _thread.raised = None
        pointer = func()
        if pointer:
            error, raised = WasmtimeError._from_ptr(pointer), _thread.raised
            _thread.raised = None
            raise error if raised is None else raised

    # The C callbacks look the functions up in their modules at each call.
    for owner, name, repaired in (
        (types.ListType, "convert_from_c", bytes_from_c),
        (types.ListType, "convert_to_c", bytes_to_c),
        (types.VariantLikeType, "_lower", lower),
        (_enter, "catch_exceptions", catch),
        (_linker, "catch_exceptions", catch),
        (_enter, "enter_wasm", enter),
        (_func, "enter_wasm", enter),
        (_resources, "enter_wasm", enter),
    ):
        if not hasattr(owner, name):
            raise AttributeError(f"{owner.__name__}.{name} is gone")
        setattr(owner, name, repaired)


# the self-tests --------------------------------------------------------------------------------

# `bytes` and `pick` hand their argument to the host and give back what the host answers.
_MIRROR = """(component
  (import "b" (func $b (param "v" (list u8)) (result (list u8)))) (import "p" (func $p (param "v"
  (result u32 (error string))) (result (result u32 (error string))))) (core module $libc (memory
  (export "memory") 4) (global $top (mut i32) (i32.const 1024))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.get $top) (global.set $top (i32.add (global.get $top)
        (i32.and (i32.add (local.get 3) (i32.const 15)) (i32.const -16))))))
  (core instance $l (instantiate $libc))
  (core func $b1 (canon lower (func $b) (memory (core memory $l "memory"))
    (realloc (core func $l "realloc"))))
  (core func $p1 (canon lower (func $p) (memory (core memory $l "memory"))
    (realloc (core func $l "realloc"))))
  (core module $m (import "h" "b" (func $b (param i32 i32 i32)))
    (import "h" "p" (func $p (param i32 i32 i32 i32)))
    (func (export "b") (param i32 i32) (result i32)
      (call $b (local.get 0) (local.get 1) (i32.const 16)) (i32.const 16))
    (func (export "p") (param i32 i32 i32) (result i32)
      (call $p (local.get 0) (local.get 1) (local.get 2) (i32.const 32)) (i32.const 32)))
  (core instance $i (instantiate $m (with "h" (instance
    (export "b" (func $b1)) (export "p" (func $p1))))))
  (func (export "bytes") (param "v" (list u8)) (result (list u8))
    (canon lift (core func $i "b") (memory (core memory $l "memory"))
      (realloc (core func $l "realloc"))))
  (func (export "pick") (param "v" (result u32 (error string)))
    (result (result u32 (error string)))
    (canon lift (core func $i "p") (memory (core memory $l "memory"))
      (realloc (core func $l "realloc")))))"""


def _mirror(
    answer: Callable[[Any], Any] = lambda value: value,
) -> Callable[[str], Callable[[Any], Any]]:
    """A function that makes callers: each call has a store and an instance of its own."""
    from wasmtime import Engine, Store
    from wasmtime import component as wc

    engine = Engine()
    component = wc.Component(engine, _MIRROR)
    linker = wc.Linker(engine)
    with linker.root() as root:
        root.add_func("b", lambda store, value: answer(value))
        root.add_func("p", lambda store, value: answer(value))

    def caller(name: str) -> Callable[[Any], Any]:
        def call(value: Any) -> Any:
            with Store(engine) as store:
                function = linker.instantiate(store, component).get_func(store, name)
                assert function is not None
                return function(store, value)

        return call

    return caller


def _bytes_survive() -> None:
    call, data = _mirror()("bytes"), bytes(range(256)) * 128
    if call(data) != data or call(b"") != b"":
        raise AssertionError("a byte list changed on its way through a guest")


def _threads_pick_their_own_case() -> None:
    call, wrong = _mirror()("pick"), list[Any]()

    def work(values: list[Any]) -> None:
        for value in values * 25:
            try:
                answer = call(value)
            except Exception as error:
                answer = error
            if answer != value:
                wrong.append((value, answer))

    threads = [threading.Thread(target=work, args=(values,)) for values in ([7, "no"], ["x", 1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise AssertionError(f"threads mixed up their values: {wrong[0]}")


def _host_errors_stop_the_guest() -> None:
    class Stop(BaseException):
        pass

    def fail(value: Any) -> Any:
        raise Stop

    call = _mirror(fail)("pick")
    try:
        answer = call(7)
    except Stop:
        return
    raise AssertionError(f"a guest went on after a host exception and returned {answer!r}")
