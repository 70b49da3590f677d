"""Replace what must not be shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

REDACTED: Final = "[REDACTED]"


def redact_params(params: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """A copy of the arguments with these top-level ones replaced."""
    return {name: REDACTED if name in names else value for name, value in params.items()}
