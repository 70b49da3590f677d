"""The configuration: its values (`model`), its files and their order (`files`)."""

from hardpoint.config.model import (
    ApprovalConfig,
    AuditConfig,
    Budget,
    BudgetConfig,
    Config,
    LimitsConfig,
    NetworkConfig,
    OutputConfig,
    PluginsConfig,
    PolicyConfig,
    RuleEntry,
    SecretsConfig,
    Source,
    StoreConfig,
    TelemetryConfig,
    ToolConfig,
)

__all__ = [
    "ApprovalConfig",
    "AuditConfig",
    "Budget",
    "BudgetConfig",
    "Config",
    "LimitsConfig",
    "NetworkConfig",
    "OutputConfig",
    "PluginsConfig",
    "PolicyConfig",
    "RuleEntry",
    "SecretsConfig",
    "Source",
    "StoreConfig",
    "TelemetryConfig",
    "ToolConfig",
]
