"""Where logins are kept: in a secret store that can be written, else in a private file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from hardpoint.interfaces import SYSTEM
from hardpoint_mcp.cache import write_private
from hardpoint_mcp.oauth import LoginStore, MemoryLogins, SecretLogins


def login_store(name: str, services: Any, folder: Path | None) -> LoginStore:
    """The place for the login to one server."""
    if folder is None:
        return MemoryLogins()
    stores = [] if services is None else services.extensions("secret_store").values()
    writable = next((store for store in stores if store.writable), None)
    return SecretLogins(name, writable or PrivateFile(folder / "logins.json"), SYSTEM, folder)


class PrivateFile:
    """Secrets in a file that only its owner can read, for machines without a better place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = asyncio.Lock()

    async def get(self, owner: str, name: str) -> str | None:
        value = self._read().get(name)
        return value if isinstance(value, str) and value else None

    async def set(self, owner: str, name: str, value: str) -> None:
        async with self._lock:
            write_private(self._path, json.dumps(self._read() | {name: value}))

    async def delete(self, owner: str, name: str) -> bool:
        async with self._lock:
            kept = self._read()
            found = kept.pop(name, None) is not None
            if found:
                write_private(self._path, json.dumps(kept))
            return found

    def _read(self) -> dict[str, Any]:
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) else {}
