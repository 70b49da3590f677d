"""A core small enough to see what a tool's host functions do to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import attrs

import hardpoint
from hardpoint import JobContext, ToolOutput
from hardpoint.net import PinnedClient

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
        self.limiter: hardpoint.RateLimiter | None = hardpoint.RateLimiter()
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

    async def count(self, name: str, limit: hardpoint.ToolRateLimitConfig) -> timedelta | None:
        if self.limiter is None:
            raise hardpoint.RateLimited(None, "nothing can be counted")
        return self.limiter.check_and_increment("ana", name, limit)

    async def call(
        self, tool: str, params: Mapping[str, Any], *, parent: JobContext | None = None
    ) -> ToolOutput:
        assert parent is not None
        self.calls.append((tool, params))
        if tool not in self.tools:
            raise hardpoint.ToolNotFound(tool)
        value = self.tools[tool](params)
        return ToolOutput.success(await value if hasattr(value, "__await__") else value)
