"""One loaded module: what kind of tool it is, what it imports, and the workers that run it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from hardpoint.errors import SandboxError
from hardpoint_wasm import typed, wasi, world, world_guest
from hardpoint_wasm.cache import CodeCache, CodeFile
from hardpoint_wasm.command import RUN, ComponentCommand, ModuleCommand
from hardpoint_wasm.compiler import Kind
from hardpoint_wasm.engine import EngineSettings, make_engine
from hardpoint_wasm.execution import Execution
from hardpoint_wasm.hardening import ensure
from hardpoint_wasm.limits import Limits
from hardpoint_wasm.names import digest
from hardpoint_wasm.slot import Guest, Slot
from hardpoint_wasm.wit import WitFunction, read_function
from hardpoint_wasm.workers import ABANDON_AFTER, Pool, Worker

if TYPE_CHECKING:
    from wasmtime import Engine

MAGIC = b"\0asm"
_CORE, _COMPONENT = b"\x01\x00\x00\x00", b"\x0d\x00\x01\x00"

ToolKind = Literal["world", "command", "functions"]


def encoding(wasm: bytes) -> Kind:
    """Whether bytes are a component or a core module, by their header.

    Raises:
        SandboxError: They are neither.
    """
    if wasm[:4] == MAGIC and wasm[4:8] == _CORE:
        return "module"
    if wasm[:4] == MAGIC and wasm[4:8] == _COMPONENT:
        return "component"
    hint = None
    if wasm.lstrip()[:1] == b"(":
        hint = "this looks like WebAssembly text; build it with: hardpoint wasm build"
    raise SandboxError("this is not a WebAssembly module or component", hint=hint)


@attrs.frozen
class Shape:
    """What a module is, read from its types before any of it runs."""

    kind: ToolKind
    imports: tuple[str, ...]
    exports: tuple[str, ...]
    world: world.World | None = None
    functions: Mapping[str, typed.Exported] = attrs.field(factory=dict)
    skipped: tuple[str, ...] = ()
    run: str | None = None
    """The `wasi:cli/run` of a command that is a component."""


class Module:
    """A module that can be called. Workers are made when calls need them, up to `concurrency`."""

    def __init__(
        self,
        shape: Shape,
        content: str,
        limits: Limits,
        make_worker: Callable[[], Worker],
        concurrency: int,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self.shape = shape
        self.digest = content
        self.limits = limits
        self._workers = Pool(make_worker, concurrency)
        self._release = release

    @classmethod
    def open(cls, wasm: bytes, cache: CodeCache, limits: Limits, *, concurrency: int = 4) -> Module:
        """Compile, inspect and check a module; blocks, for seconds when it is large and new.

        Raises:
            SandboxError: It is no module, imports what no tool gets, or has no tool in it.
        """
        ensure()
        kind = encoding(wasm)
        settings = EngineSettings(limits.fuel is not None, limits.stack)
        code = cache.load(wasm, settings, kind)
        from wasmtime import WasmtimeError

        try:
            shape = _inspect(code, kind, settings)
        except WasmtimeError:
            # Compiled for another processor or by another build of the engine: once more.
            cache.forget(code)
            code = cache.load(wasm, settings, kind)
            shape = _inspect(code, kind, settings)

        def load(current: Callable[[], Execution]) -> tuple[Engine, Guest]:
            engine = make_engine(settings)
            return engine, _bind(engine, code, kind, shape, current, limits.output_bytes)

        return cls(shape, digest(wasm), limits, lambda: Slot(load), concurrency, code.close)

    async def run(
        self, execution: Execution, request: Any, tool: str, *, nested: bool = False
    ) -> Any:
        """Run one execution; a cancelled task stops its guest.

        Raises:
            ToolError: Saying why the guest ended early.
        """
        worker = await self._workers.take(nested=nested)
        future = worker.submit(execution, request, tool)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            execution.stop("cancelled")
            await asyncio.wait([future], timeout=ABANDON_AFTER)
            raise
        finally:
            if future.done():
                future.exception() if not future.cancelled() else None
                self._workers.give_back(worker)
            else:
                self._workers.abandon(worker)

    @property
    def busy(self) -> int:
        """How many workers run something now."""
        return self._workers.busy

    def close(self) -> None:
        """Stop what runs and let go of the code."""
        self._workers.close()
        self._release()


# inspect and bind ------------------------------------------------------------------------------


def _inspect(code: CodeFile, kind: Kind, settings: EngineSettings) -> Shape:
    engine = make_engine(settings)
    if kind == "module":
        return _inspect_module(engine, code)
    from wasmtime.component import Component

    component = Component.deserialize_file(engine, code.path)
    externs = component.type.imports(engine)
    imports, exports = tuple(externs), tuple(component.type.exports(engine))
    hosts = [name for name in imports if world.interface(name, "host")]
    wasi.check_imports(name for name in imports if name not in hosts)
    tools = [name for name in exports if world.interface(name, "tool")]
    if tools:
        found = _inspect_world(engine, component, tools[0], hosts)
        return Shape("world", imports, exports, world=found)
    runs = [name for name in exports if name.startswith(RUN)]
    if runs and not hosts:
        return Shape("command", imports, exports, run=runs[0])
    wasi.check_imports(imports)
    functions, skipped = typed.find_functions(component, engine)
    if not functions:
        raise SandboxError(
            "the component exports no function that could be a tool"
            + ("".join(f"; {reason}" for reason in skipped[:3])),
            hint=f"export {world.PACKAGE}/tool, wasi:cli/run, or plain functions",
        )
    return Shape("functions", imports, exports, functions=functions, skipped=tuple(skipped))


def _inspect_world(engine: Engine, component: Any, tool: str, hosts: list[str]) -> world.World:
    version = world.check_version(tool)
    exported = _functions(component.type.exports(engine)[tool], engine)
    if "execute" not in exported:
        raise SandboxError(f"the component's {tool} does not export 'execute'")
    world.check_execute(exported["execute"])
    imported: dict[str, WitFunction] = {}
    if len(hosts) > 1:
        raise SandboxError(f"the component imports several versions of one host: {hosts}")
    for name in hosts:
        world.check_version(name)
        imported = _functions(component.type.imports(engine)[name], engine)
        for function, signature in imported.items():
            world.check_host_function(function, signature)
    host = hosts[0] if hosts else None
    return world.World(tool, host, version, imported, exported["execute"])


def _functions(extern: Any, engine: Engine) -> dict[str, WitFunction]:
    from wasmtime.component import ComponentInstanceType, FuncType

    type_ = extern.ty
    if not isinstance(type_, ComponentInstanceType):
        raise SandboxError("a near:agent name of this component is not an interface")
    parts = {name: part.ty for name, part in type_.exports(engine).items()}
    return {n: read_function(part) for n, part in parts.items() if isinstance(part, FuncType)}


def _inspect_module(engine: Engine, code: CodeFile) -> Shape:
    from wasmtime import FuncType, MemoryType
    from wasmtime import Module as CoreModule

    module = CoreModule.deserialize_file(engine, code.path)
    foreign = sorted({i.module for i in module.imports} - {wasi.PREVIEW1})
    if foreign:
        raise SandboxError(
            f"the module imports from {', '.join(repr(name[:80]) for name in foreign[:5])}",
            hint=f"a command may import {wasi.PREVIEW1} and nothing else;"
            " a tool with host functions is a component",
        )
    exports = {export.name: export.type for export in module.exports}
    start = exports.get("_start")
    if not isinstance(start, FuncType) or start.params or start.results:
        raise SandboxError(
            "the module has no _start, so it is no command",
            hint="build a WASI command, or make it a component with: wasm-tools component new",
        )
    if not isinstance(exports.get("memory"), MemoryType):
        raise SandboxError("the module exports no memory, which every WASI command does")
    imports = tuple(f"{i.module}.{i.name}" for i in module.imports)
    return Shape("command", imports, tuple(exports))


def _bind(
    engine: Engine,
    code: CodeFile,
    kind: Kind,
    shape: Shape,
    current: Callable[[], Execution],
    output_bytes: int,
) -> Guest:
    if kind == "module":
        from wasmtime import Module as CoreModule

        module = CoreModule.deserialize_file(engine, code.path)
        return ModuleCommand(engine, module, current, output_bytes)
    from wasmtime.component import Component, Linker

    component, linker = Component.deserialize_file(engine, code.path), Linker(engine)
    uses_wasi = any(name.startswith("wasi:") for name in shape.imports)
    if uses_wasi:
        linker.add_wasip2()
        wasi.Timers(engine, current).define(linker, shape.imports)
    if shape.world is not None:
        world_guest.define_host(linker, shape.world, current)
        return world_guest.WorldGuest(shape.world, component, linker, wasi=uses_wasi)
    if shape.run is not None:
        return ComponentCommand(linker, component, shape.run, output_bytes)
    return typed.TypedGuest(component, linker, shape.functions, wasi=uses_wasi)
