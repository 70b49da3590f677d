"""Remember which project files a person has looked at. An edited file is a stranger again."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from hardpoint.folders import folder


def digest_of(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_trusted(path: Path) -> bool:
    """Whether exactly this content of the file was trusted."""
    return _read().get(str(path.resolve())) == digest_of(path)


def trust(path: Path) -> str:
    """Trust the file as it is now; the digest that was remembered."""
    known = _read()
    digest = known[str(path.resolve())] = digest_of(path)
    place = trusted_file()
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = place.with_suffix(".new")
    fresh.write_text(json.dumps(known, indent=1, sort_keys=True))
    os.chmod(fresh, 0o600)
    fresh.replace(place)
    return digest


def trusted_file() -> Path:
    """Where it is remembered."""
    return folder("data") / "trusted-projects.json"


def _read() -> dict[str, str]:
    try:
        known = json.loads(trusted_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}  # nothing readable means nothing trusted
    return known if isinstance(known, dict) else {}
