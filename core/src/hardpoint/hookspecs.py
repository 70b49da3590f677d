"""The hooks that a plugin may implement. When they are called: see `plugins` and `_call`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pluggy

if TYPE_CHECKING:
    from hardpoint.calls import CallOutcome, ToolCall
    from hardpoint.context import JobContext
    from hardpoint.limits import ToolRateLimitConfig
    from hardpoint.registrars import (
        ApproverRegistrar,
        CommandRegistrar,
        DomainRegistrar,
        ExtensionRegistrar,
        RateLimiterRegistrar,
        ToolRegistrar,
    )
    from hardpoint.tools import ApprovalRequirement, ToolDefinition

PROJECT: Final = "hardpoint"
API_VERSION: Final = 1
"""A plugin module says `HARDPOINT_API = 1`; another number is refused at load."""

hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)


class RegistrationSpecs:
    """Called once while the plugin loads. An exception undoes the whole plugin."""

    @hookspec
    def hardpoint_config_type(self) -> type | None:
        """The attrs class of this plugin's `[plugin.NAME]` table.

        Example:
            @hookimpl
            def hardpoint_config_type():
                return WeatherConfig
        """

    @hookspec
    def hardpoint_register_tools(self, registry: ToolRegistrar, config: Any) -> None:
        """Register tools and toolsets.

        Example:
            @hookimpl
            def hardpoint_register_tools(registry, config):
                registry.register(ForecastTool(config.units))
        """

    @hookspec
    def hardpoint_register_domains(self, registry: DomainRegistrar, config: Any) -> None:
        """Register execution domains by name.

        Example:
            @hookimpl
            def hardpoint_register_domains(registry, config):
                registry.register("container", ContainerDomain(config))
        """

    @hookspec
    def hardpoint_register_approvers(self, registry: ApproverRegistrar, config: Any) -> None:
        """Register approvers by the names that `[approval] approvers` uses.

        Example:
            @hookimpl
            def hardpoint_register_approvers(registry):
                registry.register("chat", ChatApprover())
        """

    @hookspec
    def hardpoint_register_rate_limiters(self, registry: RateLimiterRegistrar, config: Any) -> None:
        """Register rate limiter backends by the names that `[limits] backend` uses.

        Example:
            @hookimpl
            def hardpoint_register_rate_limiters(registry, config):
                registry.register("redis", RedisRateLimiter(config.url))
        """

    @hookspec
    def hardpoint_register_extensions(self, registry: ExtensionRegistrar, config: Any) -> None:
        """Register anything else by kind: `secret_store`, `output_filter`, `audit_sink` and so on.

        Example:
            @hookimpl
            def hardpoint_register_extensions(registry, config):
                registry.register("channel", "chat", ChatChannel(config.room))
        """

    @hookspec
    def hardpoint_register_commands(self, registry: CommandRegistrar) -> None:
        """Register click commands; their module is imported when one is called.

        Example:
            @hookimpl
            def hardpoint_register_commands(registry):
                registry.register("weather", "acme_weather.cli:group", "Weather stations")
        """


class DecisionSpecs:
    """Called for every call. Every answer counts, the strictest wins, an exception means deny."""

    @hookspec
    def hardpoint_approval_requirement(
        self, call: ToolCall, tool: ToolDefinition, context: JobContext
    ) -> ApprovalRequirement | None:
        """Demand more approval for one call. The arguments are canonical; nothing can lower them.

        Example:
            @hookimpl
            def hardpoint_approval_requirement(call):
                if call.params.get("amount", 0) > 100:
                    return ApprovalRequirement.ALWAYS
        """

    @hookspec
    def hardpoint_rate_limits(
        self, call: ToolCall, tool: ToolDefinition, context: JobContext
    ) -> Sequence[ToolRateLimitConfig] | None:
        """Add limits to one call. All limits from all plugins apply.

        Example:
            @hookimpl
            def hardpoint_rate_limits(tool):
                if tool.domain == "container":
                    return [ToolRateLimitConfig(requests_per_minute=30)]
        """


class ObserverSpecs:
    """Told about every call. Failures are logged and change nothing."""

    @hookspec
    def hardpoint_call_started(
        self, call: ToolCall, tool: ToolDefinition, context: JobContext
    ) -> None:
        """A call is about to run; its arguments are redacted.

        Example:
            @hookimpl
            def hardpoint_call_started(call):
                statistics.count(call.tool)
        """

    @hookspec
    def hardpoint_call_finished(
        self, call: ToolCall, tool: ToolDefinition, outcome: CallOutcome
    ) -> None:
        """A call has ended; its arguments are redacted.

        Example:
            @hookimpl
            def hardpoint_call_finished(call, outcome):
                statistics.time(call.tool, outcome.duration)
        """


SPECS: Final = (RegistrationSpecs, DecisionSpecs, ObserverSpecs)
