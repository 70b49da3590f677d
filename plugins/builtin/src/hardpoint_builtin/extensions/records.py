"""What the tools installed and from which catalogue entry, so that newer ones can be told apart."""

from __future__ import annotations

from typing import Any, Final

import attrs

from hardpoint.interfaces import CatalogueEntry

_MIGRATIONS: Final = (
    """CREATE TABLE extensions_installed (
        kind TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, sha256 TEXT NOT NULL,
        fingerprint TEXT NOT NULL, catalogue TEXT NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (kind, name)
    )""",
)


@attrs.frozen
class Record:
    """One installed extension."""

    kind: str
    name: str
    version: str
    sha256: str
    fingerprint: str
    catalogue: str
    at: float


class Records:
    """The extensions that were installed by tools; what people add by hand is not here."""

    def __init__(self, services: Any) -> None:
        self._services = services
        self._tables = services.store("extensions", _MIGRATIONS)

    def all(self) -> dict[tuple[str, str], Record]:
        rows = self._tables.query(
            "SELECT kind, name, version, sha256, fingerprint, catalogue, at"
            " FROM extensions_installed"
        )
        return {(row["kind"], row["name"]): Record(**row) for row in rows}

    def put(self, entry: CatalogueEntry) -> None:
        row = (entry.kind, entry.name, entry.version, entry.sha256 or "", entry.fingerprint)
        self._tables.execute(
            "INSERT INTO extensions_installed"
            " (kind, name, version, sha256, fingerprint, catalogue, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET"
            " version = excluded.version, sha256 = excluded.sha256,"
            " fingerprint = excluded.fingerprint, catalogue = excluded.catalogue,"
            " at = excluded.at",
            (*row, entry.catalogue, self._services.clock.now()),
        )

    def remove(self, kind: str, name: str) -> None:
        self._tables.execute(
            "DELETE FROM extensions_installed WHERE kind = ? AND name = ?", (kind, name)
        )
