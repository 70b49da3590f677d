"""What a tool's calls need, worked out once; dropped when registry, rules or plugins change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any

import attrs

from hardpoint._record import Shared
from hardpoint.config import Config, ToolConfig
from hardpoint.context import JobContext
from hardpoint.entries import Entry
from hardpoint.errors import ConfigError, DomainUnavailable, ToolError
from hardpoint.interfaces import ExecutionDomain, LimitRequest
from hardpoint.limits import ToolRateLimitConfig
from hardpoint.plugins import HookFunction, PluginManager
from hardpoint.policy.binding import BoundRule, NotAbout, bind_rule
from hardpoint.policy.rules import Rule, rules_for
from hardpoint.protected import install_hint
from hardpoint.tools import (
    ALL_EFFECTS,
    ApprovalRequirement,
    Effect,
    FunctionTool,
    Tool,
    ToolDefinition,
    ToolDomain,
)

_NO_TOOL_CONFIG = ToolConfig()


@attrs.define(slots=False, eq=False)
class Plan:
    """Everything about a tool that does not depend on one call."""

    entry: Entry
    tool: Tool
    definition: ToolDefinition
    config: ToolConfig
    rules: Sequence[BoundRule]
    rule_error: ConfigError | None
    limits: Sequence[tuple[str, ToolRateLimitConfig]]
    """Name of the counter and the limit."""
    timeout: timedelta
    sensitive: frozenset[str]
    domain_name: str
    domain: ExecutionDomain | None
    provenance: str
    requirement_hooks: Sequence[HookFunction]
    limit_hooks: Sequence[HookFunction]
    started_hooks: Sequence[HookFunction]
    finished_hooks: Sequence[HookFunction]
    generation: int = 0
    """The configuration that it was made under, as a number that goes up."""
    recorded: tuple[JobContext, Any, Shared] | None = None
    """What the last record of a decision can share with the next one."""
    limits_of_user: tuple[str, Sequence[LimitRequest]] | None = None

    @cached_property
    def coerce(self) -> Callable[[Any], dict[str, Any]]:
        from hardpoint.coercion import make_coercer

        return make_coercer(self._full_schema)

    @cached_property
    def validator(self) -> Any:
        from hardpoint.schema import compile_validator

        return compile_validator(self._full_schema)

    @cached_property
    def _full_schema(self) -> dict[str, Any]:
        # The advertised schema may be a short form; arguments are held against the whole one.
        if type(self.tool).discovery_schema is Tool.discovery_schema:
            return self.definition.parameters
        return self.tool.discovery_schema()

    @cached_property
    def canonicalises(self) -> bool:
        if isinstance(self.tool, FunctionTool):
            return self.tool.options.canonicalise is not None
        return type(self.tool).canonicalise is not Tool.canonicalise

    @cached_property
    def needs_context(self) -> bool:
        """Whether the body can see the context at all."""
        if isinstance(self.tool, FunctionTool):
            return self.tool.signature.context_parameter is not None
        return True

    @cached_property
    def fixed_effects(self) -> frozenset[Effect] | None:
        if isinstance(self.tool, FunctionTool):
            return frozenset(self.tool.options.effects)
        return ALL_EFFECTS if type(self.tool).effects is Tool.effects else None

    @cached_property
    def fixed_own_requirement(self) -> ApprovalRequirement | None:
        """The tool's own requirement where it is the same for all arguments."""
        tool = self.tool
        if isinstance(tool, FunctionTool):
            approval = tool.options.approval
            return approval if isinstance(approval, ApprovalRequirement) else None
        plain = (
            type(tool).requires_approval is Tool.requires_approval
            and type(tool).approval_requirement is Tool.approval_requirement
        )
        return ApprovalRequirement.NEVER if plain else None

    @cached_property
    def costs(self) -> bool:
        if isinstance(self.tool, FunctionTool):
            return self.tool.options.cost is not None
        return type(self.tool).estimated_cost is not Tool.estimated_cost

    def effects(self, params: Mapping[str, Any]) -> Collection[Effect]:
        """What a call may do to the world.

        Raises:
            ToolError: The tool names an effect that there is none of.
        """
        if self.fixed_effects is not None:
            return self.fixed_effects
        found: Any = self.tool.effects(params)
        effects = frozenset((found,) if isinstance(found, str) else found)
        if not effects <= ALL_EFFECTS:
            odd = ", ".join(sorted(map(repr, effects - ALL_EFFECTS)))
            raise ToolError(f"{self.entry.name!r} names effects that there are none of: {odd}")
        return effects

    def limits_for(self, user_id: str) -> Sequence[LimitRequest]:
        """The limits that stand whatever the call; the last user's are kept."""
        known = self.limits_of_user
        if known is None or known[0] != user_id:
            requests = tuple(LimitRequest(user_id, name, limit) for name, limit in self.limits)
            known = self.limits_of_user = (user_id, requests)
        return known[1]

    def require_domain(self) -> ExecutionDomain:
        """The domain that must run the tool.

        Raises:
            DomainUnavailable: No plugin provides it.
        """
        if self.domain is None:
            raise DomainUnavailable(
                f"the domain {self.domain_name!r} of {self.entry.name!r} is not available",
                hint=f"{install_hint(self.domain_name)}; see `hardpoint plugins list`",
            )
        return self.domain


def make_plan(
    entry: Entry,
    config: Config,
    plugins: PluginManager,
    rules: Sequence[Rule],
    orchestrator: ExecutionDomain,
) -> Plan:
    """Work out the plan of one tool.

    Raises:
        ToolError: The tool's own description of itself failed.
    """
    name = entry.name
    tool = entry.tool
    tool_config = config.tools.get(name, _NO_TOOL_CONFIG)
    try:
        domain_name = str(tool.domain())
        own_limit = tool.rate_limit_config()
        timeout = tool.execution_timeout()
        sensitive = frozenset(tool.sensitive_params())
        sanitised = tool.requires_sanitization()
    except Exception as error:  # a tool's own method is foreign code
        raise ToolError(
            f"{name!r} cannot describe itself: {type(error).__name__}: {error}"
        ) from error
    limit = tool_config.rate_limit or own_limit
    limits = [(name, each) for each in (limit, tool_config.lower_rate_limit) if each is not None]
    limits += [(f"shared:{key}", shared) for key, shared in sorted(config.limits.shared.items())]
    if tool_config.timeout is not None:
        timeout = timedelta(seconds=tool_config.timeout)
    bound, rule_error = _bind_rules(rules, entry, tool)
    domain: ExecutionDomain | None = orchestrator
    if domain_name != ToolDomain.ORCHESTRATOR:
        owned = plugins.domains.get(domain_name)
        domain = owned.value if owned is not None else None
    return Plan(
        entry=entry,
        tool=tool,
        definition=entry.definition,
        config=tool_config,
        rules=bound,
        rule_error=rule_error,
        limits=limits,
        timeout=timeout,
        sensitive=sensitive,
        domain_name=domain_name,
        domain=domain,
        provenance=tool_config.provenance or (tool.provenance if sanitised else "trusted"),
        requirement_hooks=plugins.hook_functions("hardpoint_approval_requirement"),
        limit_hooks=plugins.hook_functions("hardpoint_rate_limits"),
        started_hooks=plugins.hook_functions("hardpoint_call_started"),
        finished_hooks=plugins.hook_functions("hardpoint_call_finished"),
    )


def _bind_rules(
    rules: Sequence[Rule], entry: Entry, tool: Tool
) -> tuple[Sequence[BoundRule], ConfigError | None]:
    bound: list[BoundRule] = []
    for rule in rules_for(rules, entry.name):
        try:
            bound.append(
                bind_rule(rule, entry.name, entry.definition.parameters, tool.subject_kind)
            )
        except NotAbout as error:
            # A rule for many tools says nothing about those that have no such thing.
            if not rule.is_glob:
                return bound, error
        except ConfigError as error:
            return bound, error  # a rule that cannot be read denies the tool's calls
    return bound, None
