"""Fill in what `hardpoint-all` depends on.

In a checkout the packages beside this file are meant, so that `pip install .` builds and installs
exactly them. With HARDPOINT_RELEASE=1 they are published versions of the same number; a source
distribution made so carries them in its metadata, and this hook is not asked again.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class WorkspaceDependencies(MetadataHookInterface):
    """Turns the members of the workspace into dependencies."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        members = [root / "core", *sorted((root / "plugins").glob("*"))]
        projects = {m: m / "pyproject.toml" for m in members if (m / "pyproject.toml").exists()}
        if os.environ.get("HARDPOINT_RELEASE") == "1":
            version = metadata["version"]
            metadata["dependencies"] = [f"{_name(p)}=={version}" for p in projects.values()]
        else:
            metadata["dependencies"] = [
                f"{_name(project)} @ {member.as_uri()}" for member, project in projects.items()
            ]


def _name(project: Path) -> str:
    return str(tomllib.loads(project.read_text("utf-8"))["project"]["name"])
