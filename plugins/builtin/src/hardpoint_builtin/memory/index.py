"""The word index of the chunks in the database's own full-text search: one class a database.

Both are given search words (`words`) and never text, so nothing that a user writes is syntax. A
user's chunks have numbers in a range of their own, which keeps users apart inside the index too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

from hardpoint_builtin.memory.words import Query, Term

CHUNKS_OF_A_USER: Final = 2**40
PATH_WEIGHT: Final = 0.5
"""What a word in a document's path counts, against one in its text."""

Found = list[tuple[int, float]]
"""Chunk numbers with scores, best first."""


class WordIndex(Protocol):
    """What the workspace needs of a database's full-text search."""

    @property
    def migrations(self) -> Sequence[str]:
        """The statements that make the index."""
        ...

    def add(self, transaction: Any, chunk: int, path: Sequence[str], words: Sequence[str]) -> None:
        """Index one chunk."""
        ...

    def remove(self, transaction: Any, chunks: Sequence[int]) -> None: ...

    def search(self, tables: Any, user: int, query: Query, limit: int) -> Found:
        """The chunks of a user that fit best."""
        ...


def index_for(dialect: str) -> WordIndex:
    return PostgresqlIndex() if dialect == "postgresql" else SqliteIndex()


def _range_of(user: int) -> tuple[int, int]:
    return user * CHUNKS_OF_A_USER, (user + 1) * CHUNKS_OF_A_USER - 1


# SQLite ----------------------------------------------------------------------------------------


class SqliteIndex:
    """FTS5, ranked by BM25. Its tokenizer has nothing to do but to split at blanks."""

    migrations = ("CREATE VIRTUAL TABLE memory_index USING fts5(path, words, tokenize = 'ascii')",)

    def add(self, transaction: Any, chunk: int, path: Sequence[str], words: Sequence[str]) -> None:
        transaction.execute(
            "INSERT INTO memory_index (rowid, path, words) VALUES (?, ?, ?)",
            (chunk, " ".join(path), " ".join(words)),
        )

    def remove(self, transaction: Any, chunks: Sequence[int]) -> None:
        for chunk in chunks:
            transaction.execute("DELETE FROM memory_index WHERE rowid = ?", (chunk,))

    def search(self, tables: Any, user: int, query: Query, limit: int) -> Found:
        rows = tables.query(
            "SELECT rowid AS id, bm25(memory_index, ?, 1.0) AS rank FROM memory_index"
            " WHERE memory_index MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank, rowid LIMIT ?",
            (PATH_WEIGHT, _match(query), *_range_of(user), limit),
        )
        return [(row["id"], -row["rank"]) for row in rows]


def _match(query: Query) -> str:
    required = " AND ".join(map(_fts5, query.required))
    if not required:
        return " OR ".join(map(_fts5, query.wanted))
    # What is only wanted adds to the score; repeating a required term keeps rows without any of it.
    wanted = " OR ".join(map(_fts5, (query.required[0], *query.wanted)))
    return f"{required} AND ({wanted})"


def _fts5(term: Term) -> str:
    return f'"{" ".join(term.words)}"' + (" *" if term.prefix else "")


# PostgreSQL ------------------------------------------------------------------------------------


class PostgresqlIndex:
    """`tsvector` with a GIN index, made from our own words and not by a text search configuration.

    PostgreSQL's ranking knows nothing of how rare a word is; each term's share is weighted here, as
    BM25 does it.
    """

    migrations = (
        "CREATE TABLE memory_index (id BIGINT NOT NULL PRIMARY KEY, words TSVECTOR NOT NULL)",
        "CREATE INDEX memory_index_words ON memory_index USING GIN (words)",
    )
    _COUNT_AT_MOST: Final = 10_000
    _POSITIONS: Final = 16_000

    def add(self, transaction: Any, chunk: int, path: Sequence[str], words: Sequence[str]) -> None:
        user = chunk // CHUNKS_OF_A_USER
        parts = [f"'user:{user}':1"]
        parts += [f"'{word}':{at}A" for at, word in enumerate(words[: self._POSITIONS], 1)]
        # A gap, so that no phrase runs from the text into the path.
        parts += [f"'{word}':{len(words) + 2 + at}" for at, word in enumerate(path)]
        transaction.execute(
            "INSERT INTO memory_index (id, words) VALUES (?, CAST(? AS tsvector))",
            (chunk, " ".join(parts)),
        )

    def remove(self, transaction: Any, chunks: Sequence[int]) -> None:
        for chunk in chunks:
            transaction.execute("DELETE FROM memory_index WHERE id = ?", (chunk,))

    def search(self, tables: Any, user: int, query: Query, limit: int) -> Found:
        needed = list(map(_tsquery, query.required)) or [
            "(" + " | ".join(map(_tsquery, query.wanted)) + ")"
        ]
        among = " & ".join((f"'user:{user}'", *needed))
        terms = [_tsquery(term) for term in query.terms]
        shares = " + ".join(
            f"{weight:.6f} * ts_rank('{{{PATH_WEIGHT}, 0, 0, 1}}', words, CAST(? AS tsquery), 1)"
            for weight in self._rarities(tables, user, terms)
        )
        rows = tables.query(
            f"SELECT id, {shares} AS score FROM memory_index"  # noqa: S608  # numbers of ours
            " WHERE words @@ CAST(? AS tsquery) ORDER BY score DESC, id LIMIT ?",
            (*terms, among, limit),
        )
        return [(row["id"], row["score"]) for row in rows]

    def _rarities(self, tables: Any, user: int, terms: Sequence[str]) -> list[float]:
        """How telling each term is: the fewer chunks have it, the more."""
        if len(terms) == 1:
            return [1.0]
        total = max(1, self._count(tables, f"'user:{user}'"))
        counts = [self._count(tables, f"'user:{user}' & {term}") for term in terms]
        return [math.log(1 + (max(0, total - n) + 0.5) / (n + 0.5)) for n in counts]

    def _count(self, tables: Any, wanted: str) -> int:
        rows = tables.query(
            "SELECT COUNT(*) AS n FROM (SELECT 1 FROM memory_index"
            " WHERE words @@ CAST(? AS tsquery) LIMIT ?) AS counted",
            (wanted, self._COUNT_AT_MOST),
        )
        return int(rows[0]["n"])


def _tsquery(term: Term) -> str:
    words = [f"'{word}'" for word in term.words]
    if term.prefix:
        words[-1] += ":*"
    return "(" + " <-> ".join(words) + ")"
