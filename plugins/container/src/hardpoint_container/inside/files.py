"""Files beneath the workspace, opened without following any link. What is allowed, others decide.

Every path is relative to the workspace and already canonical: no `..`, no links. A link found on
the way was put there after the check, so the operation refuses. Parents are walked by descriptor,
which leaves nothing to swap between check and use.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

Answer = tuple[dict[str, Any], bytes]

SKIPPED = frozenset(
    {
        *(".git", "node_modules", "target", "dist", "build", ".next", ".turbo", "coverage"),
        *(".venv", "venv", "__pycache__"),
    }
)
WALK_LIMIT = 50_000
DEPTH_LIMIT = 200
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


# operations ------------------------------------------------------------------------------------


def read(root: int, path: str, limit: int, offset: int = 0, part: bool = False) -> Answer:
    """The whole file when it has at most `limit` bytes; as a `part`, that much from `offset` on."""
    with Beneath(root, path) as (folder, name):
        fd = open_regular(folder, name)
    with os.fdopen(fd, "rb", buffering=0) as file:
        size = os.fstat(fd).st_size
        if part:
            file.seek(offset)
            return {"size": size}, b"".join(iter_chunks(file, limit))
        if size > limit:
            raise Refused("too_big", f"{size} bytes, more than the {limit} allowed here")
        data = b"".join(iter_chunks(file, limit + 1))
        if len(data) > limit:
            raise Refused("too_big", f"more than the {limit} bytes allowed here")
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}, data


def iter_chunks(file: Any, limit: int) -> Iterator[bytes]:
    while limit > 0:
        chunk = file.read(min(CHUNK, limit))
        if not chunk:
            return
        limit -= len(chunk)
        yield chunk


def lines(root: int, path: str, offset: int, limit: int, max_bytes: int, scan: int) -> Answer:
    """A window of whole lines of a file of any size.

    Args:
        offset: The number of the first line, from 1.
        limit: How many lines; 0 for as many as fit.
        max_bytes: The most that is returned; a longer single line is cut, and `cut_line` says so.
        scan: Lines are counted up to this many bytes; `total_lines` is None beyond.
    """
    with Beneath(root, path) as (folder, name):
        fd = open_regular(folder, name)
    with os.fdopen(fd, "rb", buffering=0) as file:
        size = os.fstat(fd).st_size
        head = file.read(8192)
        start, number = find_line(file, offset)
        file.seek(start)
        found = b"".join(iter_chunks(file, max_bytes + 1))
        window, by = found[:max_bytes], None
        end = end_of_line(window, limit) if limit else None
        if end is not None:
            window, by = window[:end], "lines" if end < len(found) else None
        elif len(found) > max_bytes:
            window, by = window[: window.rfind(b"\n") + 1] or window, "bytes"
        total = None
        if size <= scan:
            file.seek(start)
            rest = last = b""
            total = number - 1
            for rest in iter_chunks(file, scan):
                total += rest.count(b"\n")
                last = rest[-1:]
            total += bool(last) and last != b"\n"
    return {
        "size": size,
        "nul_share": head.count(b"\0") / max(1, len(head)),
        "total_lines": total,
        "truncated_by": by,
        "cut_line": by == "bytes" and not window.endswith(b"\n"),
    }, window


def find_line(file: Any, wanted: int) -> tuple[int, int]:
    """Where a line starts and its number; the end of the file when there are fewer lines."""
    file.seek(0)
    position, number, last = 0, 1, b"\n"
    for chunk in iter_chunks(file, 1 << 62):
        breaks = chunk.count(b"\n")
        if number + breaks >= wanted:
            return position + (end_of_line(chunk, wanted - number) or 0), wanted
        number += breaks
        position += len(chunk)
        last = chunk[-1:]
    return position, number + (last != b"\n")


def end_of_line(data: bytes, count: int) -> int | None:
    """The index after the `count`-th line feed, or None when there are fewer."""
    at = -1
    for _ in range(count):
        at = data.find(b"\n", at + 1)
        if at < 0:
            return None
    return at + 1


def write(root: int, path: str, data: bytes, expect: str | None = None) -> Answer:
    """Replace the file in one step: written beside it, then renamed over it.

    Renaming also breaks hard links, so a second name of the file elsewhere keeps its content.
    `expect` is the SHA-256 that the present content must have, or "" for no file at all.
    """
    with Beneath(root, path, make=True) as (folder, name):
        if name == ".":
            raise Refused("not_file", "this is a folder")
        mode, old = 0o666, None
        try:
            present = os.lstat(name, dir_fd=folder)
        except FileNotFoundError:
            present = None
        if present is not None:
            if stat.S_ISLNK(present.st_mode):
                raise Refused("changed", "a link was put in the way")
            if not stat.S_ISREG(present.st_mode):
                raise Refused("not_file", describe(present.st_mode))
            mode, old = stat.S_IMODE(present.st_mode) & 0o777, present.st_size
        if expect is not None:
            check_content(folder, name, present, expect)
        temporary = f".hardpoint-{os.urandom(8).hex()}~"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, mode, dir_fd=folder)
        try:
            with os.fdopen(fd, "wb", buffering=0) as file:
                if present is not None:
                    os.fchmod(fd, mode)
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
    digest = hashlib.sha256(data).hexdigest()
    return {"size": len(data), "created": present is None, "old_size": old, "sha256": digest}, b""


def check_content(folder: int, name: str, present: os.stat_result | None, expect: str) -> None:
    if present is None:
        if expect:
            raise Refused("stale", "the file is gone since it was read")
        return
    if not expect:
        raise Refused("stale", "the file exists already")
    fd = open_regular(folder, name)
    digest = hashlib.sha256()
    with os.fdopen(fd, "rb", buffering=0) as file:
        for chunk in iter_chunks(file, 1 << 40):
            digest.update(chunk)
    if digest.hexdigest() != expect:
        raise Refused("stale", "the file changed since it was read")


def remove(root: int, path: str) -> Answer:
    """Delete one file or link, never a folder."""
    with Beneath(root, path) as (folder, name):
        os.unlink(name, dir_fd=folder)
    return {}, b""


def usage(root: int) -> Answer:
    """How much room everything below a folder takes, looked at to a limit."""
    total, looked, todo = 0, 0, [os.dup(root)]
    while todo:
        fd = todo.pop()
        try:
            inner = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
            try:
                for name in os.listdir(inner):
                    looked += 1
                    found = os.lstat(name, dir_fd=inner)
                    total += found.st_blocks * 512
                    if stat.S_ISDIR(found.st_mode) and looked < 4 * WALK_LIMIT and len(todo) < 256:
                        todo.append(step(inner, name))
            finally:
                os.close(inner)
        except (OSError, Refused):
            pass  # unreadable or gone
        finally:
            os.close(fd)
    return {"bytes": total}, b""


def status(root: int, path: str) -> Answer:
    with Beneath(root, path) as (folder, name):
        return facts(os.lstat(name, dir_fd=folder)), b""


def facts(found: os.stat_result) -> dict[str, Any]:
    names = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    kind = names.get(stat.S_IFMT(found.st_mode), "other")
    return {"kind": kind, "size": found.st_size, "mtime": found.st_mtime, "links": found.st_nlink}


def walk(root: int, path: str, depth: int, limit: int = WALK_LIMIT, skip: bool = True) -> Answer:
    """Everything below a folder, links named and not followed.

    Args:
        depth: How many levels; 1 is the folder alone.
        limit: Entries looked at before the answer says `incomplete`.
        skip: Leave folders out that hold other people's or generated files.
    """
    parts = parts_of(path)
    top = os.dup(root)
    try:
        for part in parts:
            deeper = step(top, part)
            os.close(top)
            top = deeper
        search = Walk(limit, skip)
        complete = search.descend(top, "", min(depth, DEPTH_LIMIT))
    finally:
        os.close(top)
    return {"entries": search.entries, "complete": complete}, b""


class Walk:
    """One walk below a folder."""

    def __init__(self, limit: int, skip: bool) -> None:
        self.limit, self.skip = limit, skip
        self.entries: list[tuple[str, str, int, float]] = []
        self.looked = 0

    def descend(self, parent: int, prefix: str, depth: int) -> bool:
        """Collect what is below an open folder; False when there is more than the limit."""
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        try:
            folders = self.collect(fd, prefix)
            if folders is None:
                return False
            for name in sorted(folders) if depth > 1 else ():
                try:
                    deeper = step(fd, name)
                except (OSError, Refused):
                    continue  # gone, unreadable or replaced meanwhile
                try:
                    if not self.descend(deeper, prefix + name + "/", depth - 1):
                        return False
                except PermissionError:
                    pass
                finally:
                    os.close(deeper)
        finally:
            os.close(fd)
        return True

    def collect(self, fd: int, prefix: str) -> list[str] | None:
        """Take down the entries of one folder; the folders among them, or None at the limit."""
        folders = []
        with os.scandir(fd) as found:
            for entry in found:
                if self.looked >= self.limit:
                    return None
                self.looked += 1
                try:
                    known = facts(entry.stat(follow_symlinks=False))
                except OSError:
                    continue
                self.entries.append(
                    (prefix + entry.name, known["kind"], known["size"], known["mtime"])
                )
                if known["kind"] == "folder" and not (self.skip and entry.name in SKIPPED):
                    folders.append(entry.name)
        return folders


OPERATIONS: dict[str, Callable[..., Answer]] = {
    "read": read,
    "lines": lines,
    "write": write,
    "remove": remove,
    "status": status,
    "walk": walk,
    "usage": usage,
}


def run(root: int, call: dict[str, Any], body: bytes) -> Answer:
    """Do one operation; the answer's header and body.

    Raises:
        Refused: When it was not done.
    """
    arguments = {key: value for key, value in call.items() if key not in ("op", "id", "call")}
    if call["call"] == "write":
        arguments["data"] = body
    try:
        return OPERATIONS[call["call"]](root, **arguments)
    except OSError as error:
        raise refused(error) from None
    except (UnicodeEncodeError, ValueError):
        raise Refused("invalid", "not a valid name here") from None
