"""One runtime for all tests, and a small core for host functions to reach."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from hardpoint import JobContext
from hardpoint.interfaces import CallHandle
from hardpoint_wasm.capabilities import Capabilities
from hardpoint_wasm.limits import Limits
from hardpoint_wasm.runtime import WasmRuntime
from hardpoint_wasm.tool import WasmTool

sys.path.insert(0, str(Path(__file__).parent))

from wasm_services import CAPABILITIES, Services


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wasm-cache")


@pytest.fixture(scope="session")
def wasm_runtime(cache_dir: Path) -> Iterator[WasmRuntime]:
    runtime = WasmRuntime(cache_dir, limits=Limits(timeout=10))
    yield runtime
    runtime.close()


@pytest.fixture
def load(wasm_runtime: WasmRuntime) -> Any:
    """Load a tool from WebAssembly text or bytes."""
    import wasmtime

    async def load(
        source: str | bytes,
        capabilities: Any = None,
        name: str = "guest",
        **limits: Any,
    ) -> WasmTool:
        wasm = source if isinstance(source, bytes) else bytes(wasmtime.wat2wasm(source))
        chosen = attrs.evolve(wasm_runtime.limits, **limits)
        return await WasmTool.load(wasm, name, capabilities, runtime=wasm_runtime, limits=chosen)

    return load


@pytest.fixture
def services() -> Services:
    return Services()


@pytest.fixture
def context(services: Services) -> JobContext:
    return JobContext(user_id="ana").bound(CallHandle("call-1", services))


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities.from_json(json.dumps(CAPABILITIES))
