"""Components without our world: each exported function becomes a tool, its types the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from hardpoint.errors import SandboxError
from hardpoint_wasm.values import chosen_case, lift, lower
from hardpoint_wasm.wit import WitFunction, read_function

if TYPE_CHECKING:
    from wasmtime import Engine, Store
    from wasmtime.component import Component, Linker

_MAX_FUNCTIONS = 100


@attrs.frozen
class FunctionCall:
    """One call of an exported function with JSON arguments."""

    name: str
    arguments: Mapping[str, Any]
    env: tuple[tuple[str, str], ...] = ()
    stdin: None = None


@attrs.frozen
class FunctionError:
    """The `err` of a function that returns a result."""

    value: Any


@attrs.frozen
class Exported:
    """An exported function: the interface that it is in, its name there, and its types."""

    interface: str | None
    name: str
    signature: WitFunction


def find_functions(component: Component, engine: Engine) -> tuple[dict[str, Exported], list[str]]:
    """The functions that can be offered, by unique name, and what cannot be and why.

    Raises:
        SandboxError: There are too many to be meant as tools.
    """
    found: dict[str, Exported] = {}
    skipped: list[str] = []
    for interface, name, type_ in _walk(component, engine):
        if len(found) + len(skipped) > _MAX_FUNCTIONS:
            raise SandboxError(f"the component exports more than {_MAX_FUNCTIONS} functions")
        if name.startswith("["):
            skipped.append(f"{name}: belongs to a resource")
            continue
        try:
            exported = Exported(interface, name, read_function(type_))
        except SandboxError as error:
            skipped.append(f"{name}: {error.message}")
            continue
        key = name if name not in found else f"{_interface_name(interface)}-{name}"
        if key in found:
            skipped.append(f"{name}: exported twice")
            continue
        found[key] = exported
    return found, skipped


def _walk(component: Component, engine: Engine) -> Iterator[tuple[str | None, str, Any]]:
    from wasmtime.component import ComponentInstanceType, FuncType

    for name, extern in component.type.exports(engine).items():
        type_ = extern.ty
        if isinstance(type_, FuncType):
            yield None, name, type_
        elif isinstance(type_, ComponentInstanceType):
            for inner, part in type_.exports(engine).items():
                function = part.ty
                if isinstance(function, FuncType):
                    yield name, inner, function


def _interface_name(interface: str | None) -> str:
    return (interface or "").rpartition("/")[2].partition("@")[0]


class TypedGuest:
    """A component with typed exports in one engine."""

    stdout_bytes = 0

    def __init__(
        self,
        component: Component,
        linker: Linker,
        functions: Mapping[str, Exported],
        *,
        wasi: bool,
    ) -> None:
        self.wasi = wasi
        self._component, self._linker, self._functions = component, linker, functions

    def call(self, store: Store, request: FunctionCall) -> Any:
        exported = self._functions[request.name]
        signature = exported.signature
        args = [
            lower(type_, request.arguments.get(name), f"/{name}")
            for name, type_ in signature.params
        ]
        instance = self._linker.instantiate(store, self._component)
        parent = exported.interface and self._component.get_export_index(exported.interface)
        index = self._component.get_export_index(exported.name, parent or None)
        assert index is not None
        function = instance.get_func(store, index)
        assert function is not None
        value, type_ = function(store, *args), signature.result
        if type_ is None:
            return None
        if type_.kind != "result":
            return lift(type_, value)
        name, payload = chosen_case(type_, value)
        part = dict(type_.cases)[name]
        answer = None if part is None else lift(part, payload)
        return FunctionError(answer) if name == "err" else answer
