"""The vectors of the chunks: kept in the store, searched in memory by numpy, exactly.

Comparing with every vector of a user is quicker than it sounds: 100,000 of them take some
milliseconds, and nothing is missed as approximate indexes do.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import attrs

from hardpoint_builtin.memory.index import Found

MIGRATIONS: Final = (
    """CREATE TABLE memory_vectors (
        chunk_id BIGINT NOT NULL PRIMARY KEY, user_id TEXT NOT NULL, model TEXT NOT NULL,
        vector BLOB NOT NULL
    )""",
    "CREATE INDEX memory_vectors_user ON memory_vectors (user_id, model)",
)
KEPT_BYTES: Final = 1_000_000_000
"""Memory that the vectors of all users together may take in one process."""


@attrs.define
class _Matrix:
    """The vectors of one user, as they were at one version of that user's documents."""

    version: int
    ids: Any
    rows: Any


class Vectors:
    """Exact nearest neighbours by cosine."""

    def __init__(self, tables: Any) -> None:
        self._tables = tables
        self._lock = threading.Lock()
        self._matrices: OrderedDict[tuple[str, str], _Matrix] = OrderedDict()

    def put(
        self,
        transaction: Any,
        user_id: str,
        model: str,
        chunks: Sequence[int],
        vectors: Sequence[Sequence[float] | None],
    ) -> None:
        """Keep the vectors of chunks; None marks a chunk that cannot have one."""
        import numpy as np

        for chunk, vector in zip(chunks, vectors, strict=True):
            data = b""
            if vector is not None:
                row = np.asarray(vector, dtype=np.float32)
                length = float(np.linalg.norm(row))
                data = (row / length).tobytes() if length > 0 else b""
            transaction.execute(
                "INSERT INTO memory_vectors (chunk_id, user_id, model, vector) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (chunk_id) DO UPDATE"
                " SET model = excluded.model, vector = excluded.vector",
                (chunk, user_id, model, data),
            )

    def remove(self, transaction: Any, chunks: Sequence[int]) -> None:
        for chunk in chunks:
            transaction.execute("DELETE FROM memory_vectors WHERE chunk_id = ?", (chunk,))

    def search(
        self, user_id: str, model: str, version: int, vector: Sequence[float], limit: int
    ) -> Found:
        """The chunks whose vectors point most nearly where this one does."""
        import numpy as np

        matrix = self._matrix(user_id, model, version, len(vector))
        wanted = np.asarray(vector, dtype=np.float32)
        length = float(np.linalg.norm(wanted))
        if length == 0 or not len(matrix.ids):
            return []
        scores = matrix.rows @ (wanted / length)
        count = min(limit, len(scores))
        best = np.argpartition(-scores, count - 1)[:count]
        best = best[np.lexsort((matrix.ids[best], -scores[best]))]
        return [(int(matrix.ids[at]), float(scores[at])) for at in best]

    def _matrix(self, user_id: str, model: str, version: int, dimension: int) -> _Matrix:
        key = (user_id, model)
        with self._lock:
            known = self._matrices.get(key)
            if known is None or known.rows.shape[1] != dimension:
                known = self._load(key, version, dimension)
            elif known.version != version:
                known = self._update(key, known, version)
            self._matrices[key] = known
            self._matrices.move_to_end(key)
            while (
                len(self._matrices) > 1
                and sum(matrix.rows.nbytes for matrix in self._matrices.values()) > KEPT_BYTES
            ):
                self._matrices.popitem(last=False)
            return known

    def _load(self, key: tuple[str, str], version: int, dimension: int) -> _Matrix:
        rows = self._tables.query(
            "SELECT chunk_id, vector FROM memory_vectors WHERE user_id = ? AND model = ?", key
        )
        return self._stack(version, dimension, rows)

    def _update(self, key: tuple[str, str], known: _Matrix, version: int) -> _Matrix:
        """Read only what is new, and drop what is gone."""
        import numpy as np

        rows = self._tables.query(
            "SELECT chunk_id FROM memory_vectors WHERE user_id = ? AND model = ?", key
        )
        there = np.fromiter((row["chunk_id"] for row in rows), dtype=np.int64, count=len(rows))
        kept = np.isin(known.ids, there)
        new = np.setdiff1d(there, known.ids).tolist()
        read: list[dict[str, Any]] = []
        for at in range(0, len(new), 500):
            some = new[at : at + 500]
            marks = ", ".join("?" * len(some))
            read += self._tables.query(
                f"SELECT chunk_id, vector FROM memory_vectors WHERE chunk_id IN ({marks})",  # noqa: S608
                some,
            )
        added = self._stack(version, known.rows.shape[1], read)
        return _Matrix(
            version,
            np.concatenate([known.ids[kept], added.ids]),
            np.concatenate([known.rows[kept], added.rows]),
        )

    @staticmethod
    def _stack(version: int, dimension: int, rows: Sequence[dict[str, Any]]) -> _Matrix:
        import numpy as np

        size = dimension * 4
        usable = [row for row in rows if len(row["vector"]) == size]
        data = b"".join(bytes(row["vector"]) for row in usable)
        return _Matrix(
            version,
            np.array([row["chunk_id"] for row in usable], dtype=np.int64),
            np.frombuffer(data, dtype=np.float32).reshape(len(usable), dimension),
        )
