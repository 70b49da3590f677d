"""WebAssembly tools for Hardpoint. Names are imported when first used: listing stays quick."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "Capabilities": "capabilities",
    "Limits": "limits",
    "WasmRuntime": "runtime",
    "WasmTool": "tool",
    "WasmToolRegistration": "registration",
    "load_tools": "tool",
    "register": "registration",
    "wasm_tool": "registration",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
