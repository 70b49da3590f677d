"""The vectors of the chunks: kept in the store, searched in memory by numpy.

A user's vectors stand in one matrix that follows the store by reading what has changed. A small one
is compared whole. Of a large one the signs of the numbers, a bit each, choose the nearest fiftieth,
and only these are compared exactly. The signs are those of the distance to the vectors' mean: many
models give vectors that all point one way, and their own signs would hardly differ.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from hardpoint_builtin.memory.index import Found

MIGRATIONS: Final = (
    """CREATE TABLE memory_vectors (
        chunk_id BIGINT NOT NULL PRIMARY KEY, user_id TEXT NOT NULL, model TEXT NOT NULL,
        vector BLOB NOT NULL
    )""",
    "CREATE INDEX memory_vectors_user ON memory_vectors (user_id, model)",
)
CHANGE_MIGRATIONS: Final = (
    # Which vectors came or went with which version of a user's documents, for those after
    # `changes_after`.
    """CREATE TABLE memory_changes (
        user_id TEXT NOT NULL, version BIGINT NOT NULL, chunk_id BIGINT NOT NULL,
        PRIMARY KEY (user_id, version, chunk_id)
    )""",
    "ALTER TABLE memory_users ADD COLUMN changes_after BIGINT NOT NULL DEFAULT 0",
    "UPDATE memory_users SET changes_after = version",
)
KEPT_BYTES: Final = 1_000_000_000
"""Memory that the vectors of all users together may take in one process."""
KEPT_CHANGES: Final = 512
"""Versions whose changes are kept; who has seen none of them reads everything again."""
EXACT_NUMBERS: Final = 8_000_000
"""A matrix of more numbers is not compared whole: these take 4 ms, 100,000 chunks 15 to 90."""
RESCORED_AT_LEAST: Final = 2000
RESCORED_PART: Final = 50
_READ_AT_ONCE: Final = 500
_SIGNED_AT_ONCE: Final = 4096


class _Matrix:
    """The vectors of one user and model, and their signs; room for more is kept at the end."""

    def __init__(self, dimension: int) -> None:
        import numpy as np

        self.lock = threading.Lock()
        self.dimension = dimension
        self.version: int | None = None
        self.size = 0
        self._ids: Any = np.empty(0, dtype=np.int64)
        self._rows: Any = np.empty((0, dimension), dtype=np.float32)
        self._signs: Any = np.empty((-(-dimension // 64), 0), dtype=np.uint64)
        self._mean: Any = np.zeros(dimension, dtype=np.float32)
        """Of the vectors that there were when room was made for more."""

    @property
    def bytes(self) -> int:
        return int(self._ids.nbytes + self._rows.nbytes + self._signs.nbytes)

    def clear(self) -> None:
        """Empty it, as one that has seen nothing of the store."""
        self.size = 0
        self.version = None

    def replace(self, chunks: Sequence[int], rows: Sequence[dict[str, Any]]) -> None:
        """Take out these chunks and put in the vectors that there are for them."""
        import numpy as np

        gone = np.flatnonzero(np.isin(self._ids[: self.size], np.array(chunks, dtype=np.int64)))
        if len(gone):
            self._take_out(gone)
        usable = [row for row in rows if len(row["vector"]) == self.dimension * 4]
        if usable:
            data = b"".join(bytes(row["vector"]) for row in usable)
            ids = np.array([row["chunk_id"] for row in usable], dtype=np.int64)
            self._append(ids, np.frombuffer(data, dtype=np.float32).reshape(len(usable), -1))

    def _take_out(self, gone: Any) -> None:
        """Fill the places with the last vectors: their order means nothing."""
        import numpy as np

        left = self.size - len(gone)
        holes = gone[gone < left]
        fillers = np.setdiff1d(np.arange(left, self.size), gone, assume_unique=True)
        self._ids[holes] = self._ids[fillers]
        self._rows[holes] = self._rows[fillers]
        self._signs[:, holes] = self._signs[:, fillers]
        self.size = left

    def _append(self, ids: Any, rows: Any) -> None:
        import numpy as np

        size = self.size + len(ids)
        grows = size > len(self._ids)
        if grows:
            # All at once the first time; by half when more come.
            room = size if not self.size else size + size // 2
            grown = _Matrix(self.dimension)
            grown._ids = np.empty(room, dtype=np.int64)
            grown._rows = np.empty((room, self.dimension), dtype=np.float32)
            grown._signs = np.empty((len(self._signs), room), dtype=np.uint64)
            grown._ids[: self.size] = self._ids[: self.size]
            grown._rows[: self.size] = self._rows[: self.size]
            self._ids, self._rows, self._signs = grown._ids, grown._rows, grown._signs
        self._ids[self.size : size] = ids
        self._rows[self.size : size] = rows
        if grows:
            self._mean = self._rows[:size].mean(axis=0)
        for at in range(0 if grows else self.size, size, _SIGNED_AT_ONCE):
            end = min(at + _SIGNED_AT_ONCE, size)
            self._signs[:, at:end] = _signs_of(self._rows[at:end] - self._mean)
        self.size = size

    def nearest(self, wanted: Any, limit: int, *, exact_numbers: int) -> Found:
        """The chunks whose vectors have the greatest product with a vector of length 1."""
        import numpy as np

        among = self._candidates(wanted, exact_numbers)
        rows = self._rows[: self.size] if among is None else self._rows[among]
        ids = self._ids[: self.size] if among is None else self._ids[among]
        scores = rows @ wanted
        count = min(limit, len(scores))
        if count == 0:
            return []
        best = np.argpartition(-scores, count - 1)[:count]
        best = best[np.lexsort((ids[best], -scores[best]))]
        return [(int(ids[at]), float(scores[at])) for at in best]

    def _candidates(self, wanted: Any, exact_numbers: int) -> Any:
        """The places of the vectors with the most signs in common; None stands for all."""
        import numpy as np

        count = max(RESCORED_AT_LEAST, self.size // RESCORED_PART)
        if self.size * self.dimension <= exact_numbers or self.size <= count:
            return None
        signs_wanted = _signs_of((wanted - self._mean)[None])[:, 0]
        differing = np.zeros(self.size, dtype=np.uint16)
        for word, signs in zip(signs_wanted, self._signs, strict=True):
            differing += np.bitwise_count(signs[: self.size] ^ word)
        # In the order of memory, which is quicker to read.
        return np.sort(np.argpartition(differing, count - 1)[:count])


def _signs_of(rows: Any) -> Any:
    """One bit for each number, in words of 64; one column for each row."""
    import numpy as np

    packed = np.packbits(rows > 0, axis=1)
    padded = np.zeros((len(rows), -(-rows.shape[1] // 64) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64).T


class Vectors:
    """The nearest neighbours by cosine."""

    def __init__(self, tables: Any, *, exact_numbers: int = EXACT_NUMBERS) -> None:
        """Make one over the tables of memory.

        Args:
            tables: The namespace.
            exact_numbers: A matrix of no more numbers is compared whole.
        """
        self._tables = tables
        self._exact_numbers = exact_numbers
        self._lock = threading.Lock()
        self._matrices: OrderedDict[tuple[str, str], _Matrix] = OrderedDict()

    # writing -----------------------------------------------------------------------------------

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

    @staticmethod
    def note_changes(transaction: Any, user_id: str, version: int, chunks: Sequence[int]) -> None:
        """Say that the vectors of these chunks came or went with a version of the documents."""
        for chunk in chunks:
            transaction.execute(
                "INSERT INTO memory_changes (user_id, version, chunk_id) VALUES (?, ?, ?)"
                " ON CONFLICT (user_id, version, chunk_id) DO NOTHING",
                (user_id, version, chunk),
            )
        if version % KEPT_CHANGES == 0:
            Vectors.forget_changes(transaction, user_id, version - KEPT_CHANGES)

    @staticmethod
    def forget_changes(transaction: Any, user_id: str, version: int) -> None:
        """Drop what changed up to a version; who stands before it reads everything again."""
        transaction.execute(
            "DELETE FROM memory_changes WHERE user_id = ? AND version <= ?", (user_id, version)
        )
        transaction.execute(
            "UPDATE memory_users SET changes_after = ? WHERE user_id = ? AND changes_after < ?",
            (version, user_id, version),
        )

    # searching ---------------------------------------------------------------------------------

    def search(self, user_id: str, model: str, vector: Sequence[float], limit: int) -> Found:
        """The chunks whose vectors point most nearly where this one does."""
        import numpy as np

        wanted = np.asarray(vector, dtype=np.float32)
        length = float(np.linalg.norm(wanted))
        if length == 0:
            return []
        matrix = self._matrix((user_id, model), len(wanted))
        with matrix.lock:
            self._follow(matrix, user_id, model)
            found = matrix.nearest(wanted / length, limit, exact_numbers=self._exact_numbers)
        self._make_room()
        return found

    def _matrix(self, key: tuple[str, str], dimension: int) -> _Matrix:
        with self._lock:
            known = self._matrices.get(key)
            if known is None or known.dimension != dimension:
                known = self._matrices[key] = _Matrix(dimension)
            self._matrices.move_to_end(key)
            return known

    def _make_room(self) -> None:
        """Drop the matrices that were not searched for the longest time."""
        with self._lock:
            while (
                len(self._matrices) > 1
                and sum(matrix.bytes for matrix in self._matrices.values()) > KEPT_BYTES
            ):
                self._matrices.popitem(last=False)

    def _follow(self, matrix: _Matrix, user_id: str, model: str) -> None:
        """Bring a matrix to the version that the store has."""
        rows = self._tables.query(
            "SELECT version, changes_after FROM memory_users WHERE user_id = ?", (user_id,)
        )
        version, after = (rows[0]["version"], rows[0]["changes_after"]) if rows else (-1, 0)
        if matrix.version == version:
            return
        # What changes while we read is read again the next time, which does no harm.
        if matrix.version is None or not after <= matrix.version < version:
            matrix.clear()
            read = self._tables.query(
                "SELECT chunk_id, vector FROM memory_vectors WHERE user_id = ? AND model = ?",
                (user_id, model),
            )
            matrix.replace([row["chunk_id"] for row in read], read)
        else:
            changed = self._tables.query(
                "SELECT DISTINCT chunk_id FROM memory_changes WHERE user_id = ? AND version > ?",
                (user_id, matrix.version),
            )
            chunks = [row["chunk_id"] for row in changed]
            matrix.replace(chunks, self._read(chunks, model))
        matrix.version = version

    def _read(self, chunks: Sequence[int], model: str) -> list[dict[str, Any]]:
        read: list[dict[str, Any]] = []
        for at in range(0, len(chunks), _READ_AT_ONCE):
            some = chunks[at : at + _READ_AT_ONCE]
            marks = ", ".join("?" * len(some))
            read += self._tables.query(
                "SELECT chunk_id, vector FROM memory_vectors"  # noqa: S608  # marks only
                f" WHERE model = ? AND chunk_id IN ({marks})",
                (model, *some),
            )
        return read
