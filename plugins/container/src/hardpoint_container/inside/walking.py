"""Look at folders beneath the workspace, and at everything in them. Follows no link."""

from __future__ import annotations

import os
import stat
from typing import Any

from hardpoint_container.inside.opening import Beneath, Refused, parts_of, step

Answer = tuple[dict[str, Any], bytes]

SKIPPED = frozenset(
    {
        *(".git", "node_modules", "target", "dist", "build", ".next", ".turbo", "coverage"),
        *(".venv", "venv", "__pycache__"),
    }
)
WALK_LIMIT = 50_000
DEPTH_LIMIT = 200


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
