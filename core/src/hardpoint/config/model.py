"""The configuration as values. Which file wins and how files are read is decided in `files`."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from hardpoint.limits import ToolRateLimitConfig

Level = Literal["managed", "command_line", "environment", "project", "user", "code"]
DecisionWord = Literal["allow", "ask", "deny"]

LOAD_VARIABLE: Final = "HARDPOINT_LOAD_PLUGINS"


@attrs.frozen
class Source:
    """Where a setting stands."""

    level: Level = "code"
    path: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.path is None:
            return self.level.replace("_", " ")
        return self.path if self.line is None else f"{self.path}:{self.line}"


@attrs.frozen
class RuleEntry:
    """One line of `[policy] allow`, `ask` or `deny`, as written."""

    decision: DecisionWord
    spec: str | Mapping[str, Any]
    """`tool(SPEC)` or a table: `tool`, `where`, `reason`, `match`, `not_match`, `when`, `unless`"""
    source: Source = Source()


@attrs.frozen
class PluginsConfig:
    disabled: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    strict: bool = False
    """Stop the start when any plugin fails; for developers of plugins and CI."""
    lock: Path | None = None
    """The lock file in force: what differs from it is not called."""


@attrs.frozen
class ToolConfig:
    """`[tools.NAME]`."""

    enabled: bool = True
    rate_limit: ToolRateLimitConfig | None = None
    """Replaces the tool's own limit."""
    lower_rate_limit: ToolRateLimitConfig | None = None
    """Applies as well as the limit above; what an untrusted project file asks for ends up here."""
    timeout: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )
    """Seconds; replaces the tool's own time-out."""
    approval: Literal["never", "unless_auto_approved", "always"] | None = None
    """Can only raise what the tool itself asks for."""
    concurrency: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    provenance: Literal["trusted", "untrusted", "private"] | None = None


@attrs.frozen
class PolicyConfig:
    rules: tuple[RuleEntry, ...] = ()
    mode: Literal["default", "plan", "auto", "locked"] | None = None
    """The strictest mode that applies to every call; None leaves it to the caller."""
    application_tools: tuple[str, ...] = ()
    """Globs over the tools that the host program registers itself; rules may name them."""
    loop_guard: int = attrs.field(default=6, validator=attrs.validators.ge(0))
    """The same call of one session is refused after so many failures in a row; 0: never."""
    egress_after: tuple[str, ...] = ()
    """Provenances that, once all seen in a session, make calls with effect network or send ask."""


@attrs.frozen
class ApprovalConfig:
    approvers: tuple[str, ...] = ()
    """Asked in this order; empty: what the runtime was given."""
    expires: float = 3600.0
    """Seconds after which an unanswered request, or an answer not used, is void."""


@attrs.frozen
class LimitsConfig:
    backend: str | None = None
    """`memory`, `sqlite` or a plugin's. None: `sqlite` where state is shared, else `memory`."""
    max_keys: int = 100_000
    concurrency: int = attrs.field(default=1000, validator=attrs.validators.ge(1))
    """Calls of one runtime that run at one time; more wait."""
    shared: Mapping[str, ToolRateLimitConfig] = attrs.field(factory=dict)
    """Limits over all tools of one user, by name."""


@attrs.frozen
class Budget:
    """How much a scope may use. None: no limit."""

    calls: int | None = None
    seconds: float | None = None
    bytes: int | None = None
    tokens: int | None = None
    money: Decimal | None = None


@attrs.frozen
class BudgetConfig:
    session: Budget = Budget()
    user: Budget = Budget()
    day: Budget = Budget()
    """Per user and calendar day, UTC."""


@attrs.frozen
class StoreConfig:
    path: Path | None = None
    """Default: `state.db` in the data folder."""
    url: str | None = None
    """`postgresql+psycopg://…`, for all namespaces."""


@attrs.frozen
class AuditConfig:
    enabled: bool = True
    path: Path | None = None
    """Folder; default: `audit` in the state folder."""
    fsync: bool = False
    max_bytes: int = 50_000_000
    """Size at which a file is closed and the next one begun."""


@attrs.frozen
class OutputConfig:
    max_bytes: int = attrs.field(default=100_000, validator=attrs.validators.ge(1000))
    """Longest result given to a model; the rest is kept for `result_read`."""
    keep_bytes: int = 16 * 1024 * 1024
    keep_seconds: float = 86_400.0
    leak_scan: bool = True


@attrs.frozen
class SecretsConfig:
    stores: tuple[str, ...] = ("env",)
    """Asked in this order: `env`, `keyring`, `file`, or a plugin's."""
    path: Path | None = None
    """The encrypted file; default: `secrets.json` in the data folder."""
    key: Literal["keyring", "passphrase"] = "keyring"
    """Where the key of the encrypted file comes from."""


@attrs.frozen
class NetworkConfig:
    allow_private: tuple[str, ...] = ()
    """Private networks that tools may reach, in CIDR form."""
    allow_http: bool = False
    """Whether plain http may be used beside https."""
    ca_file: Path | None = None
    """Certificate authorities beside the system's own."""


@attrs.frozen
class JobsConfig:
    """How background jobs run."""

    concurrency: int = attrs.field(default=8, validator=attrs.validators.ge(1))
    """Jobs that one process runs at one time."""
    per_user: int = attrs.field(default=4, validator=attrs.validators.ge(1))
    """Jobs of one user that run at one time, in all processes."""
    timeout: float = attrs.field(default=3600.0, validator=attrs.validators.gt(0))
    """Seconds after which a running job fails."""
    lease: float = attrs.field(default=30.0, validator=attrs.validators.ge(3))
    """Seconds without a sign of life after which a running job counts as failed."""
    run_here: bool = True
    """Whether a runtime works off jobs by itself; otherwise only `hardpoint jobs worker` does."""
    autonomous: bool = True
    """Whether `unless_auto_approved` passes in jobs; otherwise they ask as their caller would."""
    worker: str | None = None
    """Who does a job that names neither calls nor a worker; None: the only one that is there."""
    executor: str | None = None
    """A plugin's job executor; None: jobs run in this process."""
    projects: Path | None = None
    """The folder that a job's `project_dir` lies in; None: the workspace of whoever makes it."""


@attrs.frozen
class TelemetryConfig:
    otel: bool = False
    """Give out OpenTelemetry spans and metrics of every call."""


@attrs.frozen
class Config:
    """Everything that the configuration says."""

    plugins: PluginsConfig = PluginsConfig()
    plugin: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """The unread `[plugin.NAME]` tables; each is checked against its plugin's own class."""
    tools: Mapping[str, ToolConfig] = attrs.field(factory=dict)
    policy: PolicyConfig = PolicyConfig()
    approval: ApprovalConfig = ApprovalConfig()
    limits: LimitsConfig = LimitsConfig()
    budget: BudgetConfig = BudgetConfig()
    store: StoreConfig = StoreConfig()
    audit: AuditConfig = AuditConfig()
    output: OutputConfig = OutputConfig()
    secrets: SecretsConfig = SecretsConfig()
    network: NetworkConfig = NetworkConfig()
    jobs: JobsConfig = JobsConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    workspace: Path | None = None
    """The default workspace of container tools."""
    load_only: frozenset[str] | None = None
    """`HARDPOINT_LOAD_PLUGINS`: only these plugins; empty: none; None: all."""
    blocked: Mapping[str, str] = attrs.field(factory=dict)
    """Plugins that are switched off, with the reason."""
    sources: Mapping[str, Source] = attrs.field(factory=dict)
    """Where each dotted key stands."""
    warnings: tuple[str, ...] = ()
