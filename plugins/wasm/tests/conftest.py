"""One runtime for all tests, and a core small enough to see what a tool's host functions do to it."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

import hardpoint
from hardpoint import JobContext, ToolOutput
from hardpoint.interfaces import CallHandle
from hardpoint.net import PinnedClient
from hardpoint_wasm.capabilities import Capabilities
from hardpoint_wasm.limits import Limits
from hardpoint_wasm.runtime import WasmRuntime
from hardpoint_wasm.tool import WasmTool

sys.path.insert(0, str(Path(__file__).parent))

SECRET = "synthetic" + "-value-of-a-stored-secret-0001"
CAPABILITIES = {
    "http": {
        "allowlist": [
            {"host": "api.example.com", "path_prefix": "/v1", "methods": ["GET", "POST"]}
        ],
        "credentials": {
            "key": {
                "secret_name": "api_key",
                "location": {"type": "bearer"},
                "host_patterns": ["api.example.com"],
            }
        },
    },
    "secrets": {"allowed_names": ["other"]},
    "tool_invoke": {"aliases": {"adder": "add"}},
    "workspace": {"allowed_prefixes": ["notes"]},
}


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


# a small core ----------------------------------------------------------------------------------


@attrs.frozen
class Finding:
    kind: str
    action: str


class Leaks:
    """Knows one stored secret and one shape of key."""

    def __init__(self, *values: str) -> None:
        self.values = values

    def scan(self, text: str | bytes) -> list[Finding]:
        text = text if isinstance(text, str) else text.decode("utf-8", "replace")
        return [Finding("stored", "block") for value in self.values if value in text]

    def redact(self, text: str) -> str:
        for value in self.values:
            text = text.replace(value, "[REDACTED]")
        return text


class Secrets:
    def __init__(self, **values: str) -> None:
        self.values = values

    async def exists(self, name: str, user_id: str) -> bool:
        return bool(self.values.get(name.lower()))

    async def reveal(self, name: str) -> str | None:
        return self.values.get(name.lower())


class Workspace:
    def __init__(self, **documents: str) -> None:
        self.documents = documents
        self.asked: list[tuple[str, str]] = []

    async def read(self, user_id: str, path: str) -> str | None:
        self.asked.append((user_id, path))
        return self.documents.get(path)


class Resolver:
    async def resolve(self, host: str, port: int) -> list[str]:
        return ["93.184.215.14"]


class Clock:
    def now(self) -> float:
        return 1_700_000_000.0


class Services:
    """What a tool reaches of the core; requests are answered by `answer`."""

    def __init__(self, answer: Any = None) -> None:
        self.secrets = Secrets(api_key=SECRET, other="")
        self.leaks = Leaks(SECRET)
        self.workspace = Workspace(**{"notes/a.txt": "hello notes", "private/b.txt": "no"})
        self.clock = Clock()
        self.requests: list[Any] = []
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.answer = answer
        self.tools: dict[str, Any] = {"add": lambda p: p["a"] + p["b"]}

    def http(self, bindings: Any = (), **options: Any) -> Any:
        import httpx2

        def handle(request: httpx2.Request) -> httpx2.Response:
            self.requests.append(request)
            if self.answer is not None:
                return self.answer(request)
            return httpx2.Response(200, headers={"x-b": "2"}, content=b"pong")

        client = PinnedClient(resolver=Resolver(), transport=httpx2.MockTransport(handle))
        return client.bound(bindings, self.secrets.reveal)

    async def call(
        self, tool: str, params: Mapping[str, Any], *, parent: JobContext | None = None
    ) -> ToolOutput:
        assert parent is not None
        self.calls.append((tool, params))
        if tool not in self.tools:
            raise hardpoint.ToolNotFound(tool)
        value = self.tools[tool](params)
        return ToolOutput.success(await value if hasattr(value, "__await__") else value)


@pytest.fixture
def services() -> Services:
    return Services()


@pytest.fixture
def context(services: Services) -> JobContext:
    return JobContext(user_id="ana").bound(CallHandle("call-1", services))


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities.from_json(json.dumps(CAPABILITIES))


@pytest.fixture
async def ticking() -> AsyncIterator[list[float]]:
    """The lateness of a task that wakes every 5 ms: what a stuck event loop would show."""
    import asyncio
    import time

    late: list[float] = []

    async def tick() -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(0.005)
            late.append(time.perf_counter() - start - 0.005)

    task = asyncio.create_task(tick())
    yield late
    task.cancel()
