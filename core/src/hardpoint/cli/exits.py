"""Exit codes, in one table."""

from __future__ import annotations

from typing import Final

from hardpoint.errors import (
    ConfigError,
    HardpointError,
    PluginError,
    RegistrationError,
    ToolError,
)

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
CONFIG: Final = 78
INTERRUPTED: Final = 130

BY_KIND: Final = {
    "execution_failed": FAILED,
    "external_service": FAILED,
    "sandbox": FAILED,
    "invalid_parameters": USAGE,
    "not_authorized": 3,
    "disabled": 3,
    "approval_required": 4,
    "rate_limited": 5,
    "budget_exceeded": 5,
    "timeout": 124,
    "domain_unavailable": 126,
    "not_found": 127,
}


def exit_code(error: HardpointError) -> int:
    """The exit code of an error."""
    if isinstance(error, ToolError):
        return BY_KIND[error.kind]
    if isinstance(error, ConfigError | PluginError | RegistrationError):
        return CONFIG
    return FAILED
