"""The file operations of a sandbox, by name. What is allowed, others decide."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from typing import Any

from hardpoint_container.inside.opening import (
    Beneath,
    Refused,
    describe,
    iter_chunks,
    open_regular,
    refused,
)
from hardpoint_container.inside.walking import Answer, status, usage, walk


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
