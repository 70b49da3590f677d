"""What all WebAssembly tools of a process share: the code cache and the limits."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Literal

import hardpoint
from hardpoint_wasm.limits import Limits


def folder(kind: Literal["data", "cache"]) -> Path:
    """Our part of the folders that the core uses: `data` for modules, `cache` for compiled code."""
    return hardpoint.folder(kind) / "wasm"


class WasmRuntime:
    """Loads modules and keeps them; one for a process is usual, and `default_runtime` makes it.

    Args:
        cache_dir: Where compiled code is kept; private to the user.
        limits: The limits of tools that have none of their own.
        concurrency: How many calls of one module run at one time; more wait.
        compile_timeout: Seconds that compiling one module may take.
        compile_memory: Bytes that compiling one module may use.
        max_module_bytes: The largest module that is loaded.
    """

    def __init__(
        self,
        cache_dir: Path | None = None,
        *,
        limits: Limits | None = None,
        concurrency: int = 4,
        compile_timeout: float = 120.0,
        compile_memory: int = 2 << 30,
        max_module_bytes: int = 64 << 20,
    ) -> None:
        from hardpoint_wasm.cache import CodeCache
        from hardpoint_wasm.compiler import CompileLimits, Compiler

        self.limits = limits or Limits()
        self.concurrency = concurrency
        allowed = CompileLimits(compile_timeout, compile_memory, max_module_bytes)
        self.cache = CodeCache(cache_dir or folder("cache"), Compiler(allowed))
        self._modules: dict[tuple[str, Limits, str], Any] = {}
        self._lock = threading.Lock()

    def open(
        self,
        wasm: bytes,
        limits: Limits | None = None,
        engine: Literal["wasmtime", "wasmer"] = "wasmtime",
    ) -> Any:
        """The module, compiled and checked; one object for equal bytes and limits. Blocks.

        Raises:
            SandboxError: It is no module that can be a tool.
        """
        from hardpoint_wasm import wasmer
        from hardpoint_wasm.module import Module
        from hardpoint_wasm.names import digest

        limits = limits or self.limits
        key = (digest(wasm), limits, engine)
        with self._lock:
            module = self._modules.get(key)
            if module is None and engine == "wasmer":
                module = wasmer.open_module(wasm, limits, concurrency=self.concurrency)
            elif module is None:
                module = Module.open(wasm, self.cache, limits, concurrency=self.concurrency)
            self._modules[key] = module
            return module

    def close(self) -> None:
        """Stop every guest and let go of all code."""
        with self._lock:
            modules, self._modules = list(self._modules.values()), {}
        for module in modules:
            module.close()
        self.cache.compiler.close()


_default: WasmRuntime | None = None
_default_lock = threading.Lock()


def default_runtime() -> WasmRuntime:
    """The runtime of tools that were given none."""
    global _default
    with _default_lock:
        if _default is None:
            _default = WasmRuntime()
        return _default
