"""What servers offered when they were last met, so that nothing must be started to list it.

Only a convenience: what may run is decided from `pins`, never from here.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from hardpoint_mcp.config import ServerConfig
from hardpoint_mcp.connection import Memory
from hardpoint_mcp.wire.channel import Message

logger = logging.getLogger(__name__)


@attrs.frozen
class Remembered:
    """One server as it was when it was last met."""

    tools: Sequence[Message] = ()
    capabilities: Message = attrs.field(factory=dict)
    instructions: str | None = None
    info: Message = attrs.field(factory=dict)
    era: str = "auto"
    kind: str | None = None
    met_at: float = 0.0

    @property
    def age(self) -> float:
        return time.time() - self.met_at

    def memory(self) -> Memory:
        era = self.era if self.era in ("modern", "handshake") else "auto"
        return Memory(era, self.kind)  # type: ignore[arg-type]


class Cache:
    """One file for each server."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def read(self, name: str, config: ServerConfig) -> Remembered | None:
        """What is remembered of a server with exactly this configuration."""
        path = self._path(name, config)
        if path is None:
            return None
        try:
            return Remembered(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, name: str, config: ServerConfig, remembered: Remembered) -> None:
        path = self._path(name, config)
        if path is None:
            return
        try:
            write_private(path, json.dumps(attrs.asdict(remembered)))
        except OSError as error:
            logger.warning("the catalogue of %s is not kept: %s", name, error)

    def forget(self, name: str) -> None:
        if self._folder is not None:
            for path in self._folder.glob(f"{name}.*.json"):
                path.unlink(missing_ok=True)

    def _path(self, name: str, config: ServerConfig) -> Path | None:
        if self._folder is None:
            return None
        # Another command, address or environment is another server.
        same = {
            key: value
            for key, value in attrs.asdict(config).items()
            if key in ("command", "args", "env", "cwd", "url", "transport", "headers")
        }
        text = json.dumps(same, sort_keys=True, default=str)
        return self._folder / f"{name}.{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
