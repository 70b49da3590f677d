"""Every error that Hardpoint raises: data, one sentence to act on, and an optional hint.

HardpointError
├ ConfigError                 problems
├ PluginError                 plugin, distribution, reason
│ ├ PluginLoadError · PluginApiError · MissingPlugin
├ RegistrationError           name, owner
│ ├ NameTaken · ProtectedName · SchemaError
└ ToolError                   kind, tool
  ├ ToolNotFound              suggestions
  ├ ToolDisabled
  ├ InvalidParameters         issues
  ├ NotAuthorized             decision
  ├ ApprovalRequired          approval_id
  ├ RateLimited               retry_after
  ├ BudgetExceeded
  ├ ToolTimeout               timeout, partial, still_running
  ├ ExecutionFailed
  ├ ExternalService
  └ SandboxError
    └ DomainUnavailable
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

import attrs


class HardpointError(Exception):
    """The root of every error here."""

    hint: str | None = None
    """What to do next, when the sentence itself does not say it."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""


# configuration ---------------------------------------------------------------------------------


class ConfigError(HardpointError):
    """The configuration cannot be used; every problem is named with file and line."""

    def __init__(self, problems: str | Sequence[str], *, hint: str | None = None) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems), hint=hint)


# plugins ---------------------------------------------------------------------------------------


class PluginError(HardpointError):
    """A plugin cannot be used."""

    def __init__(
        self, plugin: str, reason: str, *, distribution: str | None = None, hint: str | None = None
    ) -> None:
        self.plugin = plugin
        self.reason = reason
        self.distribution = distribution
        source = f" (from {distribution})" if distribution else ""
        super().__init__(f"plugin {plugin!r}{source}: {reason}", hint=hint)


class PluginLoadError(PluginError):
    """Importing or registering the plugin failed."""


class PluginApiError(PluginError):
    """The plugin was written for another version of the plugin interface."""


class MissingPlugin(PluginError):
    """The configuration needs a plugin that is not active."""


# registration ----------------------------------------------------------------------------------


class RegistrationError(HardpointError):
    """A name or a definition was refused by the registry."""

    def __init__(
        self, name: str, message: str, *, owner: str | None = None, hint: str | None = None
    ) -> None:
        self.name = name
        self.owner = owner
        super().__init__(message, hint=hint)


class NameTaken(RegistrationError):
    """Another owner already provides this name."""

    def __init__(self, name: str, *, owner: str, by: str) -> None:
        self.by = by
        super().__init__(
            name,
            f"{name!r} from {by} is already provided by {owner}",
            owner=owner,
            hint=f"register it under another name, for example with prefix={_prefix_of(by)!r}",
        )


class ProtectedName(RegistrationError):
    """The name is reserved for a first-party tool."""

    def __init__(self, name: str, *, owner: str, by: str) -> None:
        self.by = by
        super().__init__(
            name,
            f"{name!r} is a protected tool name of {owner}; {by} may not register it",
            owner=owner,
            hint=f"register it under another name, for example with prefix={_prefix_of(by)!r}",
        )


class SchemaError(RegistrationError):
    """A tool's parameter schema cannot be used; `problems` lists every reason."""

    def __init__(self, name: str, problems: Sequence[str], *, owner: str | None = None) -> None:
        self.problems = tuple(problems)
        super().__init__(
            name,
            f"the parameter schema of {name!r} cannot be used: {'; '.join(self.problems)}",
            owner=owner,
        )


def _prefix_of(owner: str) -> str:
    return owner.removeprefix("hardpoint-").replace("-", "_") + "__"


# calls -----------------------------------------------------------------------------------------


@attrs.frozen
class Issue:
    """One thing wrong with the arguments of a call."""

    path: str
    """JSON Pointer into the arguments; empty for the arguments themselves."""
    code: str
    """`missing_required`, `type_mismatch`, `unexpected_field` or `invalid_value`."""
    expected: str
    received: str
    """What was sent, shortened; `[REDACTED]` for a sensitive parameter."""

    def __str__(self) -> str:
        return f"{self.path or '/'}: expected {self.expected}, received {self.received}"


class ToolError(HardpointError):
    """A tool call that did not succeed. `kind` is its stable name in JSON."""

    kind: ClassVar[str] = "execution_failed"
    tool: str | None = None
    """The tool that was called; filled in by the pipeline."""

    # The seven kinds of the seed pages, reachable as ToolError.NAME; filled in below.
    InvalidParameters: ClassVar[type[InvalidParameters]]
    ExecutionFailed: ClassVar[type[ExecutionFailed]]
    Timeout: ClassVar[type[ToolTimeout]]
    NotAuthorized: ClassVar[type[NotAuthorized]]
    RateLimited: ClassVar[type[RateLimited]]
    ExternalService: ClassVar[type[ExternalService]]
    Sandbox: ClassVar[type[SandboxError]]


class ToolNotFound(ToolError):
    """No tool has this name."""

    kind = "not_found"

    def __init__(
        self, name: str, *, suggestions: Sequence[str] = (), hint: str | None = None
    ) -> None:
        self.suggestions = tuple(suggestions)
        did_you_mean = ""
        if self.suggestions:
            did_you_mean = "; did you mean " + " or ".join(map(repr, self.suggestions)) + "?"
        super().__init__(f"no tool named {name!r}{did_you_mean}", hint=hint)
        self.tool = name


class ToolDisabled(ToolError):
    """The tool exists and is switched off."""

    kind = "disabled"


class InvalidParameters(ToolError):
    """The arguments do not fit the tool's schema; `issues` lists every problem."""

    kind = "invalid_parameters"

    def __init__(
        self, message: str, *, issues: Sequence[Issue] = (), hint: str | None = None
    ) -> None:
        self.issues = tuple(issues)
        super().__init__(message, hint=hint)


class NotAuthorized(ToolError):
    """The call was denied; `decision` says by which rule or by whom."""

    kind = "not_authorized"

    def __init__(
        self, message: str, *, decision: dict[str, Any] | None = None, hint: str | None = None
    ) -> None:
        self.decision = decision
        super().__init__(message, hint=hint)


class ApprovalRequired(ToolError):
    """The call waits for an approval that nobody present could give."""

    kind = "approval_required"

    def __init__(
        self,
        message: str,
        *,
        approval_id: str | None = None,
        decision: dict[str, Any] | None = None,
        hint: str | None = None,
    ) -> None:
        self.approval_id = approval_id
        self.decision = decision
        super().__init__(message, hint=hint)


class RateLimited(ToolError):
    """A rate limit is used up; `retry_after` says when one call will fit again."""

    kind = "rate_limited"

    def __init__(
        self,
        retry_after: timedelta | None = None,
        message: str | None = None,
        *,
        hint: str | None = None,
    ) -> None:
        self.retry_after = retry_after
        if message is None:
            wait = f", retry after {retry_after.total_seconds():g} s" if retry_after else ""
            message = f"rate limited{wait}"
        super().__init__(message, hint=hint)


class BudgetExceeded(ToolError):
    """A budget of calls, seconds, bytes, tokens or money is used up."""

    kind = "budget_exceeded"


class ToolTimeout(ToolError):
    """The tool did not finish in time."""

    kind = "timeout"

    def __init__(
        self,
        timeout: timedelta,
        message: str | None = None,
        *,
        partial: Any = None,
        still_running: bool = False,
        hint: str | None = None,
    ) -> None:
        self.timeout = timeout
        self.partial = partial
        self.still_running = still_running
        if message is None:
            message = f"timed out after {timeout.total_seconds():g} s"
        super().__init__(message, hint=hint)


class ExecutionFailed(ToolError):
    """The tool ran and failed."""

    kind = "execution_failed"


class ExternalService(ToolError):
    """A service that the tool depends on failed or could not be reached."""

    kind = "external_service"


class SandboxError(ToolError):
    """The sandbox stopped the tool, or broke."""

    kind = "sandbox"


class DomainUnavailable(SandboxError):
    """The domain that must run this tool is not there; the tool was not started."""

    kind = "domain_unavailable"


ToolError.InvalidParameters = InvalidParameters
ToolError.ExecutionFailed = ExecutionFailed
ToolError.Timeout = ToolTimeout
ToolError.NotAuthorized = NotAuthorized
ToolError.RateLimited = RateLimited
ToolError.ExternalService = ExternalService
ToolError.Sandbox = SandboxError
