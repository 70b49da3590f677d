"""Where kept results lie: in memory, in a private file each, or in the store's tables.

Who may read is for `results`.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import attrs

from hardpoint.store import Namespace
from hardpoint.store.private import make_private_folder, open_private

SUFFIX = ".result"
LONGEST_HEADER = 4096
PIECE: Final = 1_000_000
"""Bytes in one row of the store."""

MIGRATIONS: Final = (
    """CREATE TABLE results_kept (
        ref TEXT NOT NULL PRIMARY KEY, user_id TEXT NOT NULL, about TEXT NOT NULL
    )""",
    """CREATE TABLE results_pieces (
        ref TEXT NOT NULL, place BIGINT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (ref, place)
    )""",
)


@attrs.frozen
class Kept:
    """One kept result, without its content."""

    ref: str
    user: str
    created: float
    size: int
    name: str | None = None
    media_type: str = "text/plain"
    call_id: str | None = None
    complete: bool = True
    """False when it was larger than everything that may be kept, and only its beginning is here."""


class Shelf(Protocol):
    """Where results are kept. Each method may be called from any thread."""

    def put(self, kept: Kept, data: bytes) -> None: ...

    def find(self, ref: str) -> Kept | None: ...

    def slice(self, ref: str, offset: int, count: int) -> bytes: ...

    def delete(self, ref: str) -> None: ...

    def all(self) -> Iterator[Kept]: ...


class MemoryShelf:
    """Results of a runtime without a data folder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[Kept, bytes]] = {}

    def put(self, kept: Kept, data: bytes) -> None:
        with self._lock:
            self._kept[kept.ref] = (kept, data)

    def find(self, ref: str) -> Kept | None:
        with self._lock:
            return self._kept[ref][0] if ref in self._kept else None

    def slice(self, ref: str, offset: int, count: int) -> bytes:
        with self._lock:
            return self._kept[ref][1][offset : offset + count] if ref in self._kept else b""

    def delete(self, ref: str) -> None:
        with self._lock:
            self._kept.pop(ref, None)

    def all(self) -> Iterator[Kept]:
        with self._lock:
            return iter([kept for kept, _ in self._kept.values()])


class FolderShelf:
    """One private file for each result: a line of JSON about it, then the content."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, kept: Kept, data: bytes) -> None:
        make_private_folder(self._folder)
        path = self._path(kept.ref)
        unfinished = path.with_suffix(".part")
        header = json.dumps(attrs.asdict(kept)).encode() + b"\n"
        descriptor = open_private(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(header)
                file.write(data)
            unfinished.rename(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def find(self, ref: str) -> Kept | None:
        found = self._open(ref)
        return found[0] if found else None

    def slice(self, ref: str, offset: int, count: int) -> bytes:
        found = self._open(ref, offset, count)
        return found[1] if found else b""

    def delete(self, ref: str) -> None:
        self._path(ref).unlink(missing_ok=True)

    def all(self) -> Iterator[Kept]:
        if not self._folder.is_dir():
            return
        for path in self._folder.iterdir():
            if path.suffix == SUFFIX and (kept := self.find(path.stem)) is not None:
                yield kept

    def _path(self, ref: str) -> Path:
        return self._folder / f"{ref}{SUFFIX}"

    def _open(self, ref: str, offset: int = 0, count: int = 0) -> tuple[Kept, bytes] | None:
        try:
            descriptor = os.open(self._path(ref), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            header = file.readline(LONGEST_HEADER)
            try:
                kept = Kept(**json.loads(header))
            except (ValueError, TypeError):
                return None  # not one of ours
            file.seek(len(header) + offset)
            return kept, file.read(count) if count else b""


class StoreShelf:
    """Rows of the store, so that every machine on one database reads the same results."""

    def __init__(self, tables: Namespace) -> None:
        """Keep results in a namespace that was made with `MIGRATIONS`."""
        self.tables = tables

    def put(self, kept: Kept, data: bytes) -> None:
        with self.tables.transaction() as transaction:
            # ASCII, as a name may hold what no database keeps.
            transaction.execute(
                "INSERT INTO results_kept (ref, user_id, about) VALUES (?, ?, ?)",
                (kept.ref, kept.user, json.dumps(attrs.asdict(kept))),
            )
            for place, start in enumerate(range(0, len(data), PIECE)):
                transaction.execute(
                    "INSERT INTO results_pieces (ref, place, data) VALUES (?, ?, ?)",
                    (kept.ref, place, data[start : start + PIECE]),
                )

    def find(self, ref: str) -> Kept | None:
        rows = self.tables.query("SELECT about FROM results_kept WHERE ref = ?", (ref,))
        return Kept(**json.loads(rows[0]["about"])) if rows else None

    def slice(self, ref: str, offset: int, count: int) -> bytes:
        first = offset // PIECE
        rows = self.tables.query(
            "SELECT data FROM results_pieces WHERE ref = ? AND place BETWEEN ? AND ?"
            " ORDER BY place",
            (ref, first, (offset + count) // PIECE),
        )
        start = offset - first * PIECE
        return b"".join(bytes(row["data"]) for row in rows)[start : start + count]

    def delete(self, ref: str) -> None:
        with self.tables.transaction() as transaction:
            transaction.execute("DELETE FROM results_pieces WHERE ref = ?", (ref,))
            transaction.execute("DELETE FROM results_kept WHERE ref = ?", (ref,))

    def all(self) -> Iterator[Kept]:
        rows = self.tables.query("SELECT about FROM results_kept")
        return iter([Kept(**json.loads(row["about"])) for row in rows])
