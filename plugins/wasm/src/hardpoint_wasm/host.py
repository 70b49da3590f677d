"""What a tool's host functions do: granted capabilities at work, through the core's services.

Nothing here is trusted to the guest: every argument is checked, every wait ends with the execution,
and what goes back has stored secrets removed. Requests over HTTP have a module of their own
(`http`).
"""

from __future__ import annotations

import inspect
import json
import logging
import re
import time
from collections.abc import Awaitable, Sequence
from typing import Any

import attrs

from hardpoint.errors import HardpointError, InvalidParameters, NotAuthorized, ToolError
from hardpoint.interfaces import JobContext, Services
from hardpoint_wasm.capabilities import Capabilities, RateLimit
from hardpoint_wasm.execution import Execution
from hardpoint_wasm.http import request
from hardpoint_wasm.limits import MIB
from hardpoint_wasm.logins import Renew
from hardpoint_wasm.world import Failure, HttpResponse

logger = logging.getLogger(__name__)
guest_logger = logging.getLogger("hardpoint_wasm.guest")

MAX_DOCUMENT = 4 * MIB
_LEVELS = {"trace": 5, "debug": 10, "info": 20, "warn": 30, "error": 40}
_CUT = "... (truncated)"
_DRIVE = re.compile(r"[A-Za-z]:")


@attrs.frozen
class LogLine:
    """What a guest said, secrets removed."""

    level: str
    message: str


class Host:
    """The host functions of one execution."""

    def __init__(
        self,
        tool: str,
        capabilities: Capabilities,
        context: JobContext,
        renew: Renew | None = None,
    ) -> None:
        self.tool = tool
        self.capabilities = capabilities
        self.context = context
        self.logs: list[LogLine] = []
        self.logs_dropped = 0
        self.execution: Execution
        self._renew = renew
        self._requests = 0
        self._invocations = 0

    @property
    def services(self) -> Services | None:
        """The core, or None when the tool runs without a runtime."""
        return self.context.services if self.context.handle is not None else None

    # the functions -----------------------------------------------------------------------------

    def log(self, level: str, message: str) -> None:
        limits = self.execution.limits
        if len(self.logs) >= limits.logs:
            self.logs_dropped += 1
            return
        message = self.redact(_shorten(message, limits.log_bytes))
        self.logs.append(LogLine(level, message))

    def now_millis(self) -> int:
        if self.services is not None:
            return int(self.services.clock.now() * 1000)
        return time.time_ns() // 1_000_000

    def workspace_read(self, path: str) -> str | None:
        granted = self.capabilities.workspace
        if granted is None or self.services is None or self.services.workspace is None:
            return None
        if not readable(path, granted.allowed_prefixes):
            return None
        workspace = self.services.workspace
        try:
            text: str | None = self.wait(workspace.read(self.context.user_id, path))
        except HardpointError as error:
            logger.info("%s could not read %r: %s", self.tool, path, error)
            return None
        if text is None or len(text.encode("utf-8", "replace")) > MAX_DOCUMENT:
            return None
        return self.redact(text)

    def http_request(
        self, method: str, url: str, headers_json: str, body: bytes | None, timeout_ms: int | None
    ) -> HttpResponse | Failure:
        granted = self.capabilities.http
        if granted is None or not granted.allowlist:
            return Failure("this tool may not make requests", "network-denied", "no_capability")
        if self.services is None:
            return _without_runtime()
        self._requests += 1
        most = self.execution.limits.http_requests
        if self._requests > most:
            return Failure(
                f"this execution used up its {most} requests", "network-denied", "too_many"
            )
        failure = self._rate_limited("http", granted.rate_limit)
        if failure is not None:
            return failure
        answer: HttpResponse | Failure = self.wait(
            request(self, granted, method, url, headers_json, body, timeout_ms)
        )
        return answer

    def tool_invoke(self, alias: str, params_json: str) -> str | Failure:
        granted = self.capabilities.tool_invoke
        tool = granted.aliases.get(alias) if granted else None
        if granted is None or tool is None:
            return Failure(f"no tool is granted under the alias {alias[:80]!r}", "client", "alias")
        if self.services is None:
            return _without_runtime()
        self._invocations += 1
        most = self.execution.limits.tool_invocations
        if self._invocations > most:
            return Failure(
                f"this execution used up its {most} calls of tools", "client", "too_many"
            )
        failure = self._rate_limited("tool_invoke", granted.rate_limit)
        if failure is not None:
            return failure
        try:
            params = json.loads(params_json)
        except (ValueError, RecursionError):
            return Failure("the arguments are not JSON", "input", "invalid_json")
        if not isinstance(params, dict):
            return Failure("the arguments must be a JSON object", "input", "invalid_json")
        try:
            with self.execution.clock_paused():
                output = self.wait(self.services.call(tool, params, parent=self.context))
            answer = json.dumps(output.result, ensure_ascii=False)
        except ToolError as error:
            return self.failure(error)
        except ValueError:
            return Failure(f"the result of {alias!r} is not JSON", "executor", "invalid_json")
        if len(answer) > MIB:
            return Failure(f"the result of {alias!r} is too large", "output-too-large", "too_large")
        return self.redact(answer)

    def secret_exists(self, name: str) -> bool:
        if self.services is None or not self._may_ask(name):
            return False
        return bool(self.wait(self.services.secrets.exists(name, self.context.user_id)))

    # for them ----------------------------------------------------------------------------------

    def wait(self, value: Any) -> Any:
        """Wait for something on the call's loop, no longer than the execution lasts."""
        if not inspect.isawaitable(value):
            return value
        return self.execution.wait_for(_await(value))

    def redact(self, text: str) -> str:
        """Text without stored secrets and without what looks like one."""
        return text if self.services is None else str(self.services.leaks.redact(text))

    def failure(self, error: HardpointError) -> Failure:
        """An error of the core as a guest sees it."""
        kind, code = "executor", getattr(error, "kind", "failed")
        if isinstance(error, InvalidParameters):
            kind = "input"
        elif isinstance(error, NotAuthorized):
            kind = "client"
        return Failure(self.redact(error.message), kind, code)

    async def renew(self, secrets: Sequence[str], *, refused: bool = False) -> bool:
        """Renew the logins behind these secrets where it is time; whether one is new.

        Raises:
            LoginEnded: One has ended.
        """
        if self._renew is None:
            return False
        user = self.context.user_id
        renewed = [await self._renew(name, user, refused=refused) for name in secrets]
        return any(renewed)

    def emit_logs(self) -> None:
        """Hand the lines of this execution to the `hardpoint_wasm.guest` logger."""
        for line in self.logs:
            guest_logger.log(_LEVELS.get(line.level, 20), "%s: %s", self.tool, line.message)
        if self.logs_dropped:
            guest_logger.warning("%s: %d more lines were dropped", self.tool, self.logs_dropped)

    def _may_ask(self, name: str) -> bool:
        secrets, http = self.capabilities.secrets, self.capabilities.http
        if secrets is not None and secrets.allows(name):
            return True
        credentials = http.credentials.values() if http else ()
        return any(c.secret_name.lower() == name.lower() for c in credentials)

    def _rate_limited(self, what: str, limit: RateLimit) -> Failure | None:
        from hardpoint import ToolRateLimitConfig

        services = self.services
        assert services is not None, "without a runtime nothing is counted, since nothing is done"
        config = ToolRateLimitConfig(limit.requests_per_minute, limit.requests_per_hour)
        kind = "network-denied" if what == "http" else "client"
        try:
            wait = self.wait(services.count(f"{self.tool}:{what}", config))
        except ToolError as error:  # what cannot be counted does not happen
            return Failure(error.message, kind, "rate_limited")
        if wait is None:
            return None
        seconds = wait.total_seconds()
        return Failure(
            f"the {what} limit of this tool is reached; try again in {seconds:.0f} s",
            kind,
            "rate_limited",
        )


async def _await(value: Awaitable[Any]) -> Any:
    return await value


def _without_runtime() -> Failure:
    return Failure("not available outside a runtime", "client", "no_runtime")


def readable(path: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a workspace path is plain, relative and beneath one of the prefixes."""
    segments = path.split("/")
    if not path or path.startswith("/") or "\\" in path or "\0" in path or _DRIVE.match(path):
        return False
    if any(segment in ("", ".", "..") for segment in segments):
        return False
    if not prefixes:
        return True
    wanted = (prefix.strip("/").split("/") for prefix in prefixes)
    return any(segments[: len(parts)] == parts for parts in wanted)


def _shorten(text: str, most: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    return data[: most - len(_CUT)].decode("utf-8", "ignore") + _CUT
