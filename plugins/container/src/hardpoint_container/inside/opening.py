"""Open files beneath the workspace without following any link.

Every path is relative to the workspace and already canonical: no `..`, no links. A link found on
the way was put there after the check, so the operation refuses. Parents are walked by descriptor,
which leaves nothing to swap between check and use.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import Any

CHUNK = 1 << 20


class Refused(Exception):
    """An operation that was not done; `code` tells the host which error to raise."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


_CODES = {
    errno.ENOENT: ("missing", "no such file or folder"),
    errno.ELOOP: ("changed", "a link was put in the way"),
    errno.ENOTDIR: ("not_folder", "a part of the path is not a folder"),
    errno.EISDIR: ("not_file", "this is a folder"),
    errno.ENXIO: ("not_file", "this is a pipe or a socket"),
    errno.EACCES: ("not_permitted", "permission denied"),
    errno.EPERM: ("not_permitted", "operation not permitted"),
    errno.EROFS: ("read_only", "the workspace is read-only"),
    errno.ENOSPC: ("no_space", "no space left"),
    errno.EDQUOT: ("no_space", "the disk quota is used up"),
    errno.EFBIG: ("no_space", "larger than the largest file this sandbox may write"),
    errno.ENAMETOOLONG: ("invalid", "the name is too long"),
    errno.EINVAL: ("invalid", "not a valid name here"),
}


def refused(error: OSError) -> Refused:
    """The Refused for an OSError."""
    code, text = _CODES.get(error.errno or errno.EIO, ("io", os.strerror(error.errno or errno.EIO)))
    return Refused(code, text)


def parts_of(path: str) -> list[str]:
    if path in ("", "."):
        return []
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise Refused("invalid", "the path is not canonical")
    return parts


def step(folder: int, name: str, make: bool = False) -> int:
    """Open one folder below another; never through a link."""
    if make:
        try:
            os.mkdir(name, 0o777, dir_fd=folder)
        except FileExistsError:
            pass
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except NotADirectoryError:
        mode = os.lstat(name, dir_fd=folder).st_mode
        if stat.S_ISLNK(mode):
            raise Refused("changed", "a link was put in the way") from None
        raise


class Beneath:
    """The folder that holds the last name of a path, open; closed at the end of the block."""

    def __init__(self, root: int, path: str, make: bool = False) -> None:
        self.root, self.path, self.make = root, path, make

    def __enter__(self) -> tuple[int, str]:
        parts = parts_of(self.path)
        self.folder = os.dup(self.root)
        try:
            for part in parts[:-1]:
                deeper = step(self.folder, part, self.make)
                os.close(self.folder)
                self.folder = deeper
        except BaseException:
            os.close(self.folder)
            raise
        return self.folder, parts[-1] if parts else "."

    def __exit__(self, *_: object) -> None:
        os.close(self.folder)


def open_regular(folder: int, name: str) -> int:
    """Open a regular file for reading. A pipe does not block, a device is not touched."""
    kind = os.lstat(name, dir_fd=folder).st_mode
    if stat.S_ISLNK(kind):
        raise Refused("changed", "a link was put in the way")
    if not stat.S_ISREG(kind):
        raise Refused("not_file", describe(kind))
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    fd = os.open(name, flags, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Refused("changed", "the file was replaced while it was opened")
    return fd


KINDS = {
    stat.S_IFDIR: "this is a folder",
    stat.S_IFIFO: "this is a pipe",
    stat.S_IFSOCK: "this is a socket",
    stat.S_IFLNK: "this is a link",
}


def describe(mode: int) -> str:
    return KINDS.get(stat.S_IFMT(mode), "this is a device")


def iter_chunks(file: Any, limit: int) -> Iterator[bytes]:
    while limit > 0:
        chunk = file.read(min(CHUNK, limit))
        if not chunk:
            return
        limit -= len(chunk)
        yield chunk
