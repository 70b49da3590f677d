"""Run a tool's examples: `tests.json` beside its source, with a host that answers from that file.

The tool runs in the real engine under the real limits and its own capabilities, all granted; only
what is behind the host functions is made up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import attrs

from hardpoint import (
    HardpointError,
    JobContext,
    RateLimiter,
    ToolError,
    ToolNotFound,
    ToolOutput,
    ToolRateLimitConfig,
)
from hardpoint.errors import ConfigError, ExternalService
from hardpoint.interfaces import CallHandle
from hardpoint.net import AllowList, Binding, Headers, HttpResponse
from hardpoint_wasm.tool import WasmTool

FILE = "tests.json"
_KEYS = {"name", "tool", "params", "expect", "expect_error", "host"}
_HOST_KEYS = {"http", "workspace", "secrets", "tools", "now"}


@attrs.frozen
class Example:
    """One example and what must come of it."""

    name: str
    params: Mapping[str, Any]
    expect: Any = None
    expect_error: str | None = None
    """A piece of the error's text, for an example that must fail."""
    tool: str | None = None
    """Which tool of the module; the only one when None."""
    host: Mapping[str, Any] = attrs.field(factory=dict)
    """`http`: {"GET https://…": {"status", "headers", "body"}}; `workspace`: {path: text};
    `secrets`: [name]; `tools`: {tool: result}; `now`: unix seconds."""


@attrs.frozen
class Result:
    """How an example went."""

    name: str
    passed: bool
    detail: str = ""


def read_examples(folder: Path) -> Sequence[Example]:
    """The examples of a folder.

    Raises:
        ConfigError: There are none, or one has an unknown key.
    """
    path = folder / FILE
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, list):
            raise ValueError("it holds a list of examples")
        for item in data:
            _check_keys(item, _KEYS)
            _check_keys(item.get("host", {}), _HOST_KEYS)
        return [
            Example(**{"params": {}, "name": f"example {number}"} | item)
            for number, item in enumerate(data, 1)
        ]
    except FileNotFoundError as error:
        raise ConfigError(f"there is no {FILE} in {folder}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: {error}") from error


async def run_example(tools: Mapping[str, WasmTool], example: Example) -> Result:
    """Run one example and compare."""
    tool = _choose(tools, example)
    context = JobContext(user_id="example").bound(CallHandle("example", _Services(example.host)))
    try:
        answer = (await tool.execute(dict(example.params), context)).result
    except ToolError as error:
        text = str(error)
        if example.expect_error is not None and example.expect_error in text:
            return Result(example.name, True)
        return Result(example.name, False, f"failed: {text}")
    if example.expect_error is not None:
        return Result(example.name, False, f"should have failed, but gave {json.dumps(answer)}")
    if answer != example.expect:
        detail = f"gave {json.dumps(answer)}, expected {json.dumps(example.expect)}"
        return Result(example.name, False, detail)
    return Result(example.name, True)


def _choose(tools: Mapping[str, WasmTool], example: Example) -> WasmTool:
    if example.tool is None and len(tools) == 1:
        return next(iter(tools.values()))
    if example.tool is None or example.tool not in tools:
        raise ConfigError(f"{example.name}: name its tool, one of {', '.join(tools)}")
    return tools[example.tool]


def _check_keys(item: Any, known: set[str]) -> None:
    unknown = sorted(set(item) - known)
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; there are {', '.join(sorted(known))}")


# the made-up core ------------------------------------------------------------------------------


class _Services:
    """What host functions reach: answers from the example, and nothing real."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers
        self.leaks = self.secrets = self.workspace = self.clock = self
        self._limiter = RateLimiter()

    def __getattr__(self, name: str) -> Any:
        raise HardpointError(f"examples have no {name}")

    def now(self) -> float:
        return float(self._answers.get("now", 0))

    def scan(self, text: str | bytes) -> Sequence[Any]:
        return ()

    def redact(self, text: str) -> str:
        return text

    async def exists(self, name: str, user_id: str) -> bool:
        return name.lower() in (known.lower() for known in self._answers.get("secrets", ()))

    async def read(self, user_id: str, path: str) -> str | None:
        text: str | None = self._answers.get("workspace", {}).get(path)
        return text

    async def count(
        self, name: str, limit: ToolRateLimitConfig, *, user_id: str = ""
    ) -> timedelta | None:
        return self._limiter.check_and_increment("example", name, limit)

    async def call(
        self, tool: str, params: Mapping[str, Any], *, parent: JobContext | None = None
    ) -> ToolOutput:
        if tool not in self._answers.get("tools", {}):
            raise ToolNotFound(tool)
        return ToolOutput.success(self._answers["tools"][tool])

    def http(self, bindings: Sequence[Any] = (), **options: Any) -> _Client:
        return _Client(self._answers.get("http", {}))


class _Client:
    def __init__(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        self._answers = answers

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        pass

    def matching(self, method: str, url: str) -> Sequence[Binding]:
        return ()

    async def request(
        self, method: str, url: str, *, allow: AllowList, headers: Headers = (), **options: Any
    ) -> HttpResponse:
        allow.require(method, url)
        answer = self._answers.get(f"{method} {url}")
        if answer is None:
            raise ExternalService(f"the example has no answer for {method} {url}")
        given = tuple((key.lower(), value) for key, value in answer.get("headers", {}).items())
        body = answer.get("body", "")
        text = body if isinstance(body, str) else json.dumps(body)
        return HttpResponse(answer.get("status", 200), url, given, text.encode())
