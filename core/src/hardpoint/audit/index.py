"""The list of audit files, with how far each is known to reach. A file cut short cannot hide."""

from __future__ import annotations

from pathlib import Path

import attrs

from hardpoint.store import Namespace, Store

MIGRATIONS = (
    """CREATE TABLE audit_files (
        name TEXT NOT NULL PRIMARY KEY, started REAL NOT NULL, ended REAL NOT NULL,
        records BIGINT NOT NULL, head TEXT NOT NULL, closed BIGINT NOT NULL, pruned REAL
    )""",
)


@attrs.frozen
class AuditFile:
    """What the index knows of one file."""

    name: str
    started: float
    ended: float
    """The time of the last record that the index knows."""
    records: int
    """The number of that record; the file has at least as many."""
    head: str
    """The hash of that record."""
    closed: bool
    """Nothing is added any more: the file ends with that record."""
    pruned: float | None = None
    """When the file was deleted on purpose."""


class Index:
    """The list, in the audit folder's own database."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "index.db"
        self._store = Store(self.path, timeout=5.0)
        self._files: Namespace = self._store.namespace("audit", MIGRATIONS, durable=True)
        # How far a file reaches may be noted a little late, but must not hold up calls.
        self._progress: Namespace = self._store.namespace("audit", MIGRATIONS)

    def add(self, name: str, started: float) -> None:
        self._files.execute(
            "INSERT INTO audit_files (name, started, ended, records, head, closed)"
            " VALUES (?, ?, ?, 0, '', 0)",
            (name, started, started),
        )

    def reached(self, name: str, records: int, head: str, ended: float, *, closed: bool) -> None:
        """Note how far a file reaches; never less far than was noted before."""
        namespace = self._files if closed else self._progress
        namespace.execute(
            "UPDATE audit_files SET records = ?, head = ?, ended = ?, closed = ?"
            " WHERE name = ? AND records <= ? AND closed = 0",
            (records, head, ended, int(closed), name, records),
        )

    def mark_pruned(self, name: str, at: float) -> None:
        self._files.execute("UPDATE audit_files SET pruned = ? WHERE name = ?", (at, name))

    def files(self) -> list[AuditFile]:
        """Every file, the oldest first."""
        rows = self._files.query(
            "SELECT name, started, ended, records, head, closed, pruned FROM audit_files"
            " ORDER BY started, name"
        )
        return [AuditFile(**{**row, "closed": bool(row["closed"])}) for row in rows]

    def close(self) -> None:
        self._store.close()
