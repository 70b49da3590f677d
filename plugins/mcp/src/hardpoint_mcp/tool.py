"""One tool of a server as a tool of Hardpoint. Its body is one request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, Final

from hardpoint import (
    ApprovalRequirement,
    Effect,
    JobContext,
    Tool,
    ToolDefinition,
    ToolOutput,
    ToolRateLimitConfig,
)
from hardpoint.errors import ToolTimeout
from hardpoint_mcp import trust
from hardpoint_mcp.catalogue import Listed
from hardpoint_mcp.content import McpToolError, to_output
from hardpoint_mcp.front import current_front
from hardpoint_mcp.upstream import Upstream
from hardpoint_mcp.wire.errors import RpcError
from hardpoint_mcp.wire.session import Call

# People are slower than servers; while one is asked, the server's own clock stands still.
_TIME_TO_ANSWER: Final = 900.0

_EXPECTED_ERRORS: Final = frozenset((-32602, -32603))


class McpTool(Tool):
    """A tool that a server offers."""

    def __init__(
        self,
        upstream: Upstream,
        listed: Listed,
        *,
        guard: Callable[[Listed, JobContext], None] | None = None,
    ) -> None:
        """Args:
        guard: Called before each run; raises when the definition is no longer the approved one.
        """
        self.upstream = upstream
        self.listed = listed
        self.name = listed.definition.name
        self.description = listed.definition.description
        self.title = listed.definition.title
        self._guard = guard

    def containment(self) -> Mapping[str, Any]:
        """Where the server runs: nothing here holds back what it does, for `explain`."""
        config = self.upstream.config
        place = config.url or f"a process of its own: {config.command}"
        return {
            "server": place,
            "contained": "this process: its memory, secrets and environment",
            "not_contained": "what the server does with the rights that it has where it runs",
        }

    def parameters_schema(self) -> dict[str, Any]:
        return self.listed.definition.parameters

    def output_schema(self) -> dict[str, Any] | None:
        return self.listed.definition.output_schema

    def definition(self) -> ToolDefinition:
        return self.listed.definition

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        return trust.requirement(self.upstream.config, self.listed)

    def effects(self, params: Mapping[str, Any]) -> Collection[Effect]:
        return trust.effects(self.upstream.config, self.listed)

    def rate_limit_config(self) -> ToolRateLimitConfig | None:
        limit = self.upstream.config.rate_limit
        if limit is None:
            return None
        return ToolRateLimitConfig(limit.requests_per_minute, limit.requests_per_hour)

    def execution_timeout(self) -> timedelta:
        config = self.upstream.config
        return timedelta(seconds=config.startup_timeout + config.timeout + _TIME_TO_ANSWER)

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        if self._guard is not None:
            self._guard(self.listed, ctx)
        front = current_front.get()
        config = self.upstream.config
        call = Call(
            config.timeout,
            asker=None if front is None else front.asker,
            on_progress=ctx.report,
            on_log=None if front is None else front.on_log,
            meta={} if front is None else front.meta,
            first_answers=None if front is None else front.first_answers,
        )
        try:
            raw = await self.upstream.request(
                "tools/call", {"name": self.listed.original, "arguments": params}, call
            )
        except TimeoutError:
            raise ToolTimeout(
                timedelta(seconds=config.timeout),
                f"{self.upstream.name} did not answer within {config.timeout:g} s",
                hint=f"raise [mcp.servers.{self.upstream.name}] timeout if it needs longer",
            ) from None
        if front is not None:
            front.raw = raw
        output = to_output(raw, self._is_valid)
        if front is not None:
            front.output = output
        return output

    @cached_property
    def _is_valid(self) -> Callable[[Any], bool] | None:
        schema = self.listed.definition.output_schema
        if schema is None:
            return None
        from hardpoint import compile_validator

        return compile_validator(schema).is_valid


__all__ = ["McpTool", "McpToolError", "RpcError"]
