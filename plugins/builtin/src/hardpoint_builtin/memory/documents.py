"""The documents of memory in the store: current text, history, chunks and their index.

Every function here is one transaction and runs on a thread. What a path may be is in `paths`, what
a chunk is in `chunks`.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Sequence
from typing import Any, Final

import attrs

from hardpoint import InvalidParameters
from hardpoint_builtin.memory.chunks import Chunk, chunks_of
from hardpoint_builtin.memory.index import CHUNKS_OF_A_USER, Found, index_for
from hardpoint_builtin.memory.vectors import CHANGE_MIGRATIONS, Vectors
from hardpoint_builtin.memory.vectors import MIGRATIONS as VECTOR_MIGRATIONS
from hardpoint_builtin.memory.words import Query, words_of

MAX_DOCUMENT: Final = 1_000_000
KEPT_VERSIONS: Final = 200

_MIGRATIONS: Final = (
    """CREATE TABLE memory_users (
        user_id TEXT NOT NULL PRIMARY KEY, number BIGINT NOT NULL UNIQUE,
        next_chunk BIGINT NOT NULL, version BIGINT NOT NULL
    )""",
    """CREATE TABLE memory_documents (
        id TEXT NOT NULL PRIMARY KEY, user_id TEXT NOT NULL, path TEXT NOT NULL,
        content TEXT NOT NULL, version BIGINT NOT NULL, created REAL NOT NULL,
        updated REAL NOT NULL, UNIQUE (user_id, path)
    )""",
    # A version is the text that was written, or only what was appended.
    """CREATE TABLE memory_versions (
        document_id TEXT NOT NULL, version BIGINT NOT NULL, user_id TEXT NOT NULL,
        kind TEXT NOT NULL, text TEXT NOT NULL, written REAL NOT NULL,
        PRIMARY KEY (document_id, version)
    )""",
    """CREATE TABLE memory_chunks (
        id BIGINT NOT NULL PRIMARY KEY, document_id TEXT NOT NULL, user_id TEXT NOT NULL,
        place BIGINT NOT NULL, start BIGINT NOT NULL, text TEXT NOT NULL
    )""",
    "CREATE INDEX memory_chunks_document ON memory_chunks (document_id, place)",
    "CREATE INDEX memory_chunks_user ON memory_chunks (user_id)",
    *VECTOR_MIGRATIONS,
)


@attrs.frozen
class Document:
    """A document as it stands, or as it stood."""

    id: str
    path: str
    content: str
    version: int
    created: float
    updated: float


@attrs.frozen
class Version:
    """One change of a document."""

    version: int
    kind: str
    """`write` or `append`."""
    size: int
    written: float


class Documents:
    """The tables of memory."""

    def __init__(self, services: Any) -> None:
        dialect = services.store("memory").dialect
        self._index = index_for(dialect)
        # Acknowledged memories survive a loss of power, too.
        migrations = (*_MIGRATIONS, *self._index.migrations, *CHANGE_MIGRATIONS)
        self.tables = services.store("memory", migrations, durable=True)
        self.vectors = Vectors(self.tables)

    # writing -----------------------------------------------------------------------------------

    def write(
        self, user_id: str, path: str, content: str, now: float, *, append: bool
    ) -> tuple[Document, list[tuple[int, str]]]:
        """Write or append, keep the history, index what changed.

        Returns:
            The document, and its new chunks with their numbers.

        Raises:
            InvalidParameters: It would be too long.
        """
        content = storable(content)
        with self.tables.transaction() as transaction:
            user = _user(transaction, user_id)
            old = _document(transaction, user_id, path)
            before = old.content if old is not None else ""
            if append and before and not before.endswith("\n"):
                content = "\n" + content
            text = before + content if append else content
            if len(text) > MAX_DOCUMENT:
                raise InvalidParameters(
                    f"{path!r} would be {len(text)} characters long; {MAX_DOCUMENT} is the most",
                    hint="write to another path, or shorten it with append=false",
                )
            made = Document(
                id=old.id if old is not None else uuid.uuid4().hex,
                path=path,
                content=text,
                version=old.version + 1 if old is not None else 1,
                created=old.created if old is not None else now,
                updated=now,
            )
            _keep(transaction, user_id, made)
            kind = "append" if append and old is not None else "write"
            _keep_version(transaction, user_id, made, kind, content)
            new = self._replace_chunks(transaction, user_id, user, made)
            return made, new

    def _replace_chunks(
        self, transaction: Any, user_id: str, user: dict[str, Any], document: Document
    ) -> list[tuple[int, str]]:
        """Exchange the chunks that differ; those before the first difference stay."""
        old = transaction.query(
            "SELECT id, start, text FROM memory_chunks WHERE document_id = ? ORDER BY place",
            (document.id,),
        )
        new = chunks_of(document.content)
        same = 0
        while (
            same < min(len(old), len(new))
            and Chunk(old[same]["start"], old[same]["text"]) == new[same]
        ):
            same += 1
        gone = [row["id"] for row in old[same:]]
        self._remove_chunks(transaction, gone)
        path = words_of(document.path)
        first = user["number"] * CHUNKS_OF_A_USER + user["next_chunk"]
        added: list[tuple[int, str]] = []
        for number, (place, chunk) in enumerate(list(enumerate(new))[same:], first):
            transaction.execute(
                "INSERT INTO memory_chunks (id, document_id, user_id, place, start, text)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (number, document.id, user_id, place, chunk.start, chunk.text),
            )
            self._index.add(transaction, number, path, words_of(chunk.text))
            added.append((number, chunk.text))
        transaction.execute(
            "UPDATE memory_users SET next_chunk = next_chunk + ?, version = version + 1"
            " WHERE user_id = ?",
            (len(added), user_id),
        )
        self.vectors.note_changes(transaction, user_id, user["version"] + 1, gone)
        return added

    def _remove_chunks(self, transaction: Any, chunks: Sequence[int]) -> None:
        self._index.remove(transaction, chunks)
        self.vectors.remove(transaction, chunks)
        for chunk in chunks:
            transaction.execute("DELETE FROM memory_chunks WHERE id = ?", (chunk,))

    def forget(self, user_id: str) -> int:
        """Delete everything of one user; how many documents there were."""
        with self.tables.transaction() as transaction:
            rows = transaction.query("SELECT id FROM memory_chunks WHERE user_id = ?", (user_id,))
            self._remove_chunks(transaction, [row["id"] for row in rows])
            self._index.forget(transaction)
            transaction.execute("DELETE FROM memory_versions WHERE user_id = ?", (user_id,))
            self.vectors.forget_changes(transaction, user_id, _next_version(transaction, user_id))
            gone: int = transaction.execute(
                "DELETE FROM memory_documents WHERE user_id = ?", (user_id,)
            )
            return gone

    # reading -----------------------------------------------------------------------------------

    def read(self, user_id: str, path: str, version: int | None = None) -> Document | None:
        """A document, as it stands or as it stood at a version that is still kept."""
        document = _document(self.tables, user_id, path)
        if document is None or version in (None, document.version):
            return document
        rows = self.tables.query(
            "SELECT version, kind, text, written FROM memory_versions"
            " WHERE document_id = ? AND version <= ? ORDER BY version",
            (document.id, version),
        )
        if not rows or rows[-1]["version"] != version:
            return None
        text = ""
        for row in rows:
            text = text + row["text"] if row["kind"] == "append" else row["text"]
        return attrs.evolve(document, content=text, version=version, updated=rows[-1]["written"])

    def versions(self, user_id: str, path: str) -> list[Version]:
        """What was changed when, oldest first."""
        rows = self.tables.query(
            "SELECT v.version, v.kind, LENGTH(v.text) AS size, v.written FROM memory_versions v"
            " JOIN memory_documents d ON d.id = v.document_id"
            " WHERE d.user_id = ? AND d.path = ? ORDER BY v.version",
            (user_id, path),
        )
        return [Version(**row) for row in rows]

    def paths(self, user_id: str, prefix: str = "") -> list[str]:
        """The paths in a folder, and below it, sorted."""
        folder = f"{prefix}/" if prefix else ""
        rows = self.tables.query(
            "SELECT path FROM memory_documents WHERE user_id = ? AND substr(path, 1, ?) = ?",
            (user_id, len(folder), folder),
        )
        return sorted(row["path"] for row in rows)

    def find(self, user_id: str, query: Query, limit: int) -> Found:
        """The chunks whose words fit best."""
        user = self.user(user_id)
        if user is None or not query.terms:
            return []
        return self._index.search(self.tables, user["number"], query, limit)

    def user(self, user_id: str) -> dict[str, Any] | None:
        rows = self.tables.query(
            "SELECT number, next_chunk, version FROM memory_users WHERE user_id = ?", (user_id,)
        )
        return rows[0] if rows else None

    def chunks(self, user_id: str, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Chunks by number, each with its document."""
        if not numbers:
            return {}
        marks = ", ".join("?" * len(numbers))
        rows = self.tables.query(
            "SELECT c.id, c.place, c.text, d.path, d.id AS document_id, d.user_id"  # noqa: S608
            " FROM memory_chunks c JOIN memory_documents d ON d.id = c.document_id"
            f" WHERE c.id IN ({marks})",
            numbers,
        )
        # Compared here: in the statement it would tempt SQLite to read all chunks of the user.
        return {row["id"]: row for row in rows if row["user_id"] == user_id}

    # vectors -----------------------------------------------------------------------------------

    def without_vector(self, user_id: str, model: str, limit: int) -> list[tuple[int, str]]:
        rows = self.tables.query(
            "SELECT c.id, c.text FROM memory_chunks c"
            " LEFT JOIN memory_vectors v ON v.chunk_id = c.id AND v.model = ?"
            " WHERE c.user_id = ? AND v.chunk_id IS NULL LIMIT ?",
            (model, user_id, limit),
        )
        return [(row["id"], row["text"]) for row in rows]

    def put_vectors(
        self,
        user_id: str,
        model: str,
        chunks: Sequence[int],
        vectors: Sequence[Sequence[float] | None],
    ) -> None:
        with self.tables.transaction() as transaction:
            marks = ", ".join("?" * len(chunks))
            rows = transaction.query(
                f"SELECT id FROM memory_chunks WHERE id IN ({marks})",  # noqa: S608  # as above
                tuple(chunks),
            )
            # Some may have been rewritten while the model was at work.
            there = {row["id"] for row in rows}
            pairs = [(c, v) for c, v in zip(chunks, vectors, strict=True) if c in there]
            self.vectors.put(
                transaction, user_id, model, [c for c, _ in pairs], [v for _, v in pairs]
            )
            version = _next_version(transaction, user_id)
            self.vectors.note_changes(transaction, user_id, version, [c for c, _ in pairs])


def storable(text: str) -> str:
    """Text as every database keeps it: without NUL and half characters."""
    text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        # Halves that belong together become one character, single ones the sign for "unreadable".
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _user(transaction: Any, user_id: str) -> dict[str, Any]:
    # Somebody who was deleted and comes back must not meet a version that was seen before.
    version = secrets.randbelow(2**40)
    transaction.execute(
        "INSERT INTO memory_users (user_id, number, next_chunk, version, changes_after)"
        " SELECT CAST(? AS TEXT), COALESCE(MAX(number), 0) + 1, 0, CAST(? AS BIGINT),"
        " CAST(? AS BIGINT) FROM memory_users WHERE true ON CONFLICT (user_id) DO NOTHING",
        (user_id, version, version),
    )
    found: dict[str, Any] = transaction.query(
        "SELECT number, next_chunk, version FROM memory_users WHERE user_id = ?", (user_id,)
    )[0]
    return found


def _next_version(transaction: Any, user_id: str) -> int:
    rows = transaction.query(
        "UPDATE memory_users SET version = version + 1 WHERE user_id = ? RETURNING version",
        (user_id,),
    )
    return int(rows[0]["version"]) if rows else 0


def _document(transaction: Any, user_id: str, path: str) -> Document | None:
    rows = transaction.query(
        "SELECT id, path, content, version, created, updated FROM memory_documents"
        " WHERE user_id = ? AND path = ?",
        (user_id, path),
    )
    return Document(**rows[0]) if rows else None


def _keep(transaction: Any, user_id: str, document: Document) -> None:
    transaction.execute(
        "INSERT INTO memory_documents (id, user_id, path, content, version, created, updated)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (user_id, path) DO UPDATE SET"
        " content = excluded.content, version = excluded.version, updated = excluded.updated",
        (
            document.id,
            user_id,
            document.path,
            document.content,
            document.version,
            document.created,
            document.updated,
        ),
    )


def _keep_version(transaction: Any, user_id: str, document: Document, kind: str, text: str) -> None:
    transaction.execute(
        "INSERT INTO memory_versions (document_id, version, user_id, kind, text, written)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (document.id, document.version, user_id, kind, text, document.updated),
    )
    # Older ones go up to the last whole text, without which what was appended means nothing.
    transaction.execute(
        "DELETE FROM memory_versions WHERE document_id = ? AND version < ("
        " SELECT COALESCE(MAX(version), 0) FROM memory_versions"
        " WHERE document_id = ? AND kind = 'write' AND version <= ?)",
        (document.id, document.id, document.version - KEPT_VERSIONS),
    )
