"""Secrets of the system from `HARDPOINT_SECRET_NAME` variables, for CI and containers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from hardpoint.interfaces.secrets import SYSTEM, SecretStore

PREFIX: Final = "HARDPOINT_SECRET_"


class EnvironmentStore(SecretStore):
    """Read-only, and only the system's: a variable belongs to no user."""

    writable = False

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    async def get(self, owner: str, name: str) -> str | None:
        return self._values().get(name.lower()) if owner == SYSTEM else None

    async def names(self, owner: str) -> Sequence[str]:
        return sorted(self._values()) if owner == SYSTEM else []

    def _values(self) -> Mapping[str, str]:
        return {
            variable.removeprefix(PREFIX).lower(): value
            for variable, value in self._environ.items()
            if variable.startswith(PREFIX) and value
        }
