"""Files and folders that only their owner can read, on a disk that can lock them."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from hardpoint.errors import ConfigError

NETWORK_FILE_SYSTEMS = re.compile(
    r"nfs\d?|cifs|smb\w*|ncpfs|afs|ceph|lustre|gpfs|beegfs|davfs|vboxsf|drvfs|9p|glusterfs"
    r"|fuse\.(sshfs|s3fs|rclone|gcsfuse|blobfuse\d?|glusterfs|ceph|davfs|juicefs|mfs|hdfs)\S*"
)


def make_private_folder(folder: Path) -> Path:
    """Make a folder that only its owner can enter, or check one that is there.

    Raises:
        ConfigError: The folder cannot be made, or others could change what is in it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        raise ConfigError(
            f"the data folder {str(folder)!r} cannot be made: {error.strerror}",
            hint="choose another with the setting data_dir or the variable HARDPOINT_DATA_DIR",
        ) from error
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise ConfigError(
            f"everybody may write to the data folder {str(folder)!r}",
            hint=f"chmod 700 {folder}",
        )
    return folder


def open_private(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open a file that only its owner can read, made if `flags` say so; never through a link."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def refuse_network_folder(folder: Path, mounts: str | None = None) -> None:
    """Raise unless the folder is on a disk of this machine.

    Args:
        folder: An existing folder.
        mounts: The text of `/proc/self/mountinfo`; read when not given. Without it (other systems
            than Linux) every folder passes.

    Raises:
        ConfigError: SQLite's locks do not work across a network.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
        except OSError:
            return
    kind = _file_system(folder.resolve(), mounts)
    if NETWORK_FILE_SYSTEMS.fullmatch(kind):
        raise ConfigError(
            f"the data folder {str(folder)!r} is on a network file system ({kind}), where "
            "processes cannot lock the database",
            hint='use a local folder, or [store] url = "postgresql+psycopg://…" to share the state',
        )


def _file_system(folder: Path, mounts: str) -> str:
    """The type of the file system that holds `folder`; the last of the longest mount points."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        if len(point) >= best and (folder == Path(point) or Path(point) in folder.parents):
            best, kind = len(point), right.split(" ")[0]
    # Some container engines show a whole local root as 9p.
    return "" if best == 1 and kind == "9p" else kind
