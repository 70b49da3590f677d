"""The tool layer of an AI agent: calls are found, checked, approved, limited, run and recorded."""

from __future__ import annotations

from hardpoint._version import VERSION as __version__

# Not imported from `typing`: that alone costs a quarter of an interpreter's start.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from hardpoint.calls import CallOutcome, ToolCall, call_digest
    from hardpoint.config import Config
    from hardpoint.config.edit import set_toml_value, with_toml_value, write_atomically
    from hardpoint.context import ExecResult, JobContext, Sandbox, Services
    from hardpoint.errors import (
        ApprovalRequired,
        BudgetExceeded,
        ConfigError,
        DomainUnavailable,
        ExecutionFailed,
        ExternalService,
        HardpointError,
        InvalidParameters,
        Issue,
        NameTaken,
        NotAuthorized,
        PluginError,
        ProtectedName,
        RateLimited,
        RegistrationError,
        SandboxError,
        SchemaError,
        ToolDisabled,
        ToolError,
        ToolNotFound,
        ToolTimeout,
    )
    from hardpoint.folders import folder
    from hardpoint.hookspecs import API_VERSION, hookimpl, hookspec
    from hardpoint.interfaces import (
        ApprovalRequest,
        Approver,
        Decision,
        ExecutionDomain,
        Invocation,
        Pending,
        RateLimiterBackend,
        SecretStore,
        Toolset,
        WasmToolRegistration,
    )
    from hardpoint.limits import ToolRateLimitConfig
    from hardpoint.parts import Audio, Blob, Image, Link, Part, Resource, Text, ToolOutput
    from hardpoint.protected import PROTECTED_TOOL_NAMES
    from hardpoint.rate_limiter import RateLimiter
    from hardpoint.registry import ToolRegistry
    from hardpoint.runtime import Progress, Runtime
    from hardpoint.schema import compile_document, compile_validator, validate_tool_schema
    from hardpoint.serde import structure
    from hardpoint.signatures import Param
    from hardpoint.subjects import judge_command
    from hardpoint.tools import (
        ALL_EFFECTS,
        ApprovalRequirement,
        Canonical,
        Effect,
        Subject,
        Tool,
        ToolDefinition,
        ToolDiscoverySummary,
        ToolDomain,
        tool,
    )

# Name to module; each is imported when it is asked for, so that `import hardpoint` stays quick.
_EXPORTS = {
    "ALL_EFFECTS": "tools",
    "API_VERSION": "hookspecs",
    "ApprovalRequest": "interfaces",
    "ApprovalRequired": "errors",
    "ApprovalRequirement": "tools",
    "Approver": "interfaces",
    "Audio": "parts",
    "Blob": "parts",
    "BudgetExceeded": "errors",
    "CallOutcome": "calls",
    "Canonical": "tools",
    "Config": "config",
    "ConfigError": "errors",
    "Decision": "interfaces",
    "DomainUnavailable": "errors",
    "Effect": "tools",
    "ExecResult": "context",
    "ExecutionDomain": "interfaces",
    "ExecutionFailed": "errors",
    "ExternalService": "errors",
    "HardpointError": "errors",
    "Image": "parts",
    "InvalidParameters": "errors",
    "Invocation": "interfaces",
    "Issue": "errors",
    "JobContext": "context",
    "Link": "parts",
    "NameTaken": "errors",
    "NotAuthorized": "errors",
    "PROTECTED_TOOL_NAMES": "protected",
    "Param": "signatures",
    "Part": "parts",
    "Pending": "interfaces",
    "PluginError": "errors",
    "Progress": "runtime",
    "ProtectedName": "errors",
    "RateLimited": "errors",
    "RateLimiter": "rate_limiter",
    "RateLimiterBackend": "interfaces",
    "RegistrationError": "errors",
    "Resource": "parts",
    "Runtime": "runtime",
    "Sandbox": "context",
    "SandboxError": "errors",
    "SchemaError": "errors",
    "SecretStore": "interfaces",
    "Services": "context",
    "Subject": "tools",
    "Text": "parts",
    "Tool": "tools",
    "ToolCall": "calls",
    "ToolDefinition": "tools",
    "ToolDisabled": "errors",
    "ToolDiscoverySummary": "tools",
    "ToolDomain": "tools",
    "ToolError": "errors",
    "ToolNotFound": "errors",
    "ToolOutput": "parts",
    "ToolRateLimitConfig": "limits",
    "ToolRegistry": "registry",
    "ToolTimeout": "errors",
    "Toolset": "interfaces",
    "WasmToolRegistration": "interfaces",
    "call_digest": "calls",
    "compile_document": "schema",
    "compile_validator": "schema",
    "folder": "folders",
    "hookimpl": "hookspecs",
    "hookspec": "hookspecs",
    "judge_command": "subjects",
    "set_toml_value": "config.edit",
    "structure": "serde",
    "tool": "tools",
    "validate_tool_schema": "schema",
    "with_toml_value": "config.edit",
    "write_atomically": "config.edit",
}

__all__ = [
    "ALL_EFFECTS",
    "API_VERSION",
    "PROTECTED_TOOL_NAMES",
    "ApprovalRequest",
    "ApprovalRequired",
    "ApprovalRequirement",
    "Approver",
    "Audio",
    "Blob",
    "BudgetExceeded",
    "CallOutcome",
    "Canonical",
    "Config",
    "ConfigError",
    "Decision",
    "DomainUnavailable",
    "Effect",
    "ExecResult",
    "ExecutionDomain",
    "ExecutionFailed",
    "ExternalService",
    "HardpointError",
    "Image",
    "InvalidParameters",
    "Invocation",
    "Issue",
    "JobContext",
    "Link",
    "NameTaken",
    "NotAuthorized",
    "Param",
    "Part",
    "Pending",
    "PluginError",
    "Progress",
    "ProtectedName",
    "RateLimited",
    "RateLimiter",
    "RateLimiterBackend",
    "RegistrationError",
    "Resource",
    "Runtime",
    "Sandbox",
    "SandboxError",
    "SchemaError",
    "SecretStore",
    "Services",
    "Subject",
    "Text",
    "Tool",
    "ToolCall",
    "ToolDefinition",
    "ToolDisabled",
    "ToolDiscoverySummary",
    "ToolDomain",
    "ToolError",
    "ToolNotFound",
    "ToolOutput",
    "ToolRateLimitConfig",
    "ToolRegistry",
    "ToolTimeout",
    "Toolset",
    "WasmToolRegistration",
    "__version__",
    "call_digest",
    "compile_document",
    "compile_validator",
    "folder",
    "hookimpl",
    "hookspec",
    "judge_command",
    "set_toml_value",
    "structure",
    "tool",
    "validate_tool_schema",
    "with_toml_value",
    "write_atomically",
]


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'hardpoint' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"hardpoint.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
