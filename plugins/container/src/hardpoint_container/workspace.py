"""Which host folder may be a workspace, and who owns it. Paths inside one are judged in `paths`."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

import attrs

import hardpoint
from hardpoint.errors import SandboxError
from hardpoint_container.config import ContainerConfig

_SYSTEM: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run"),
    *("/sbin", "/sys", "/usr", "/var", "/System", "/Library"),
)
_SHARED: Final = frozenset(
    {"/", "/home", "/Users", "/mnt", "/media", "/opt", "/srv", "/tmp"}  # noqa: S108
)
_FINE_BELOW: Final = ("/var/tmp", "/var/lib", "/root", "/run/media")  # noqa: S108


@attrs.frozen
class Ground:
    """A checked workspace."""

    path: Path
    """Without links."""
    uid: int
    gid: int


def survey(workspace: Path, config: ContainerConfig) -> Ground:
    """Check the folder that commands will be able to change.

    Raises:
        SandboxError: It must not be handed to commands; the text says why.
    """
    try:
        path = workspace.resolve(strict=True)
        found = path.stat()
    except OSError as error:
        raise SandboxError(
            f"the workspace {str(workspace)!r} cannot be used: {error.strerror}",
            hint="give an existing folder, for example with --workspace",
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise SandboxError(f"the workspace {str(workspace)!r} is not a folder")
    if not str(path).isprintable():
        raise SandboxError(f"the workspace {str(path)!r} has unprintable characters in its name")
    why = _too_much(path)
    if why:
        raise SandboxError(
            f"the workspace {str(path)!r} is {why}; commands could change all of it",
            hint="choose a project folder, for example with --workspace",
        )
    uid, gid = found.st_uid, found.st_gid
    if config.user != "owner":
        numbers = config.user.split(":")
        uid, gid = int(numbers[0]), int(numbers[-1])
    return Ground(path, uid, gid)


def _too_much(path: Path) -> str | None:
    text = str(path)
    if text in _SHARED:
        return "a folder of everybody"
    if text in _SYSTEM or (
        any(text.startswith(f"{name}/") for name in _SYSTEM)
        and not any(text.startswith(f"{name}/") for name in _FINE_BELOW)
    ):
        return "part of the system"
    home = Path(os.path.expanduser("~")).resolve()
    if path == home or path in home.parents:
        return "your home folder"
    if path in _own_folders() or any(
        path in own.parents or own in path.parents for own in _own_folders()
    ):
        return "where Hardpoint keeps its own files"
    return None


def _own_folders() -> list[Path]:
    return [hardpoint.folder(kind) for kind in ("config", "data", "state")]


def data_folder() -> Path:
    """Where this plugin keeps files of its own."""
    return hardpoint.folder("data") / "container"
