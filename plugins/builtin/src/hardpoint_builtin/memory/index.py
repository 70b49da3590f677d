"""The word index of the chunks in the database's own full-text search: one class a database.

Both are given search words (`words`) and never text, so nothing that a user writes is syntax. A
user's chunks have numbers in a range of their own, which keeps users apart inside the index too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hardpoint_builtin.memory.words import Query, Term

CHUNKS_OF_A_USER: Final = 2**40
PATH_WEIGHT: Final = 0.5
"""What a word in a document's path counts, against one in its text."""

BOOSTS_AT_MOST: Final = 4

Found = list[tuple[int, float]]
"""Chunk numbers with scores, best first."""
Group = Sequence[Term]
"""Terms of which a chunk must have one."""


class WordIndex(ABC):
    """What the workspace needs of a database's full-text search."""

    migrations: Sequence[str]
    common: int
    """A term that more of a user's chunks have does not choose chunks, it only ranks them."""
    ranked_at_most: int
    """So many chunks are ranked, the newest; more match only where every term is common, and then
    words tell little: SQLite takes 10 ms for 5,000 of these, 40 for four times as many."""

    @abstractmethod
    def add(self, transaction: Any, chunk: int, path: Sequence[str], words: Sequence[str]) -> None:
        """Index one chunk."""

    @abstractmethod
    def remove(self, transaction: Any, chunks: Sequence[int]) -> None: ...

    def forget(self, transaction: Any) -> None:
        """Leave nothing of what was removed, where removing only marks it."""

    @abstractmethod
    def count(self, tables: Any, user: int, term: Term) -> int:
        """How many chunks of a user have a term; `common` stands for more."""

    @abstractmethod
    def rank(
        self,
        tables: Any,
        user: int,
        groups: Sequence[Group],
        boosts: Mapping[Term, int],
        limit: int,
    ) -> Found:
        """The best chunks among those that have a term of each group.

        Args:
            tables: The namespace of memory.
            user: The user's number.
            groups: What a chunk must have.
            boosts: All terms that count for the score, with how many chunks have them.
            limit: How many to give.
        """

    def search(self, tables: Any, user: int, query: Query, limit: int) -> Found:
        """The chunks of a user that fit best."""
        counts = {term: self.count(tables, user, term) for term in query.terms}
        required = [[term] for term in query.required]
        rare = [term for term in query.wanted if 0 < counts[term] < self.common]
        common = [term for term in query.wanted if counts[term] >= self.common][:BOOSTS_AT_MOST]
        boosts = {term: counts[term] for term in (*query.required, *rare, *common)}
        if required or rare:
            return self.rank(tables, user, required or [rare], boosts, limit)
        if not common:
            return []
        found = self.rank(tables, user, [[term] for term in common], boosts, limit)
        if len(found) < limit:
            found = self.rank(tables, user, [common], boosts, limit)
        return found


def index_for(dialect: str) -> WordIndex:
    return PostgresqlIndex() if dialect == "postgresql" else SqliteIndex()


def _range_of(user: int) -> tuple[int, int]:
    return user * CHUNKS_OF_A_USER, (user + 1) * CHUNKS_OF_A_USER - 1


# SQLite ----------------------------------------------------------------------------------------


class SqliteIndex(WordIndex):
    """FTS5, ranked by BM25. Its tokenizer has nothing to do but to split at blanks."""

    migrations = ("CREATE VIRTUAL TABLE memory_index USING fts5(path, words, tokenize = 'ascii')",)
    common = 2000
    ranked_at_most = 5000

    def add(self, transaction: Any, chunk: int, path: Sequence[str], words: Sequence[str]) -> None:
        transaction.execute(
            "INSERT INTO memory_index (rowid, path, words) VALUES (?, ?, ?)",
            (chunk, " ".join(path), " ".join(words)),
        )

    def remove(self, transaction: Any, chunks: Sequence[int]) -> None:
        for chunk in chunks:
            transaction.execute("DELETE FROM memory_index WHERE rowid = ?", (chunk,))

    def forget(self, transaction: Any) -> None:
        # Removed words stay in the index's segments until these are merged.
        transaction.execute("INSERT INTO memory_index (memory_index) VALUES ('optimize')")

    def count(self, tables: Any, user: int, term: Term) -> int:
        rows = tables.query(
            "SELECT COUNT(*) AS n FROM (SELECT 1 FROM memory_index"
            " WHERE memory_index MATCH ? AND rowid BETWEEN ? AND ? LIMIT ?) AS counted",
            (_fts5(term), *_range_of(user), self.common),
        )
        return int(rows[0]["n"])

    def rank(
        self,
        tables: Any,
        user: int,
        groups: Sequence[Group],
        boosts: Mapping[Term, int],
        limit: int,
    ) -> Found:
        # FTS5 scores what stands in the expression. The last part changes no match: the terms of
        # the first group are in it.
        parts = list(groups)
        if set(boosts) != {term for group in groups for term in group}:
            parts.append(list(dict.fromkeys((*groups[0], *boosts))))
        match = " AND ".join(f"({' OR '.join(map(_fts5, part))})" for part in parts)
        rows = tables.query(
            "SELECT id, rank FROM ("
            " SELECT rowid AS id, bm25(memory_index, ?, 1.0) AS rank FROM memory_index"
            " WHERE memory_index MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?"
            ") AS newest ORDER BY rank, id LIMIT ?",
            (PATH_WEIGHT, match, *_range_of(user), self.ranked_at_most, limit),
        )
        return [(row["id"], -row["rank"]) for row in rows]


def _fts5(term: Term) -> str:
    return f'"{" ".join(term.words)}"' + (" *" if term.prefix else "")


# PostgreSQL ------------------------------------------------------------------------------------


class PostgresqlIndex(WordIndex):
    """`tsvector` with a GIN index, made from our own words and not by a text search configuration.

    PostgreSQL's ranking knows nothing of how rare a word is; each term's share is weighted here, as
    BM25 does it.
    """

    migrations = (
        # The words of a chunk stay in its row: fetching them from elsewhere takes four times as
        # long as ranking them.
        "CREATE TABLE memory_index (id BIGINT NOT NULL PRIMARY KEY, words TSVECTOR NOT NULL)"
        " WITH (toast_tuple_target = 8160)",
        "CREATE INDEX memory_index_words ON memory_index USING GIN (words)",
    )
    common = 1000
    ranked_at_most = 3000
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

    def count(self, tables: Any, user: int, term: Term) -> int:
        rows = tables.query(
            "SELECT COUNT(*) AS n FROM (SELECT 1 FROM memory_index"
            # From the end, whose pages the ranking reads as well.
            " WHERE words @@ CAST(? AS tsquery) ORDER BY id DESC LIMIT ?) AS counted",
            (f"'user:{user}' & {_tsquery(term)}", self.common),
        )
        return int(rows[0]["n"])

    def rank(
        self,
        tables: Any,
        user: int,
        groups: Sequence[Group],
        boosts: Mapping[Term, int],
        limit: int,
    ) -> Found:
        wanted = [f"({' | '.join(map(_tsquery, group))})" for group in groups]
        match = " & ".join((f"'user:{user}'", *wanted))
        # The size of the whole hardly matters; what counts is how rare the terms are in relation.
        # Terms that are equally rare are ranked at once: it gives their mean.
        alike: dict[int, list[Term]] = {}
        for term, number in boosts.items():
            alike.setdefault(number, []).append(term)
        shares = " + ".join(
            f"{len(terms) * math.log(1 + 1e6 / (number + 0.5)):.6f}"
            f" * ts_rank('{{{PATH_WEIGHT}, 0, 0, 1}}', words, CAST(? AS tsquery), 1)"
            for number, terms in alike.items()
        )
        ranked = [" | ".join(map(_tsquery, terms)) for terms in alike.values()]
        rows = tables.query(
            # First the numbers alone, so that no words are sorted.
            f"SELECT id, {shares} AS score FROM memory_index WHERE id IN ("  # noqa: S608  # ours
            " SELECT id FROM memory_index WHERE words @@ CAST(? AS tsquery)"
            " ORDER BY id DESC LIMIT ?) ORDER BY score DESC, id LIMIT ?",
            (*ranked, match, self.ranked_at_most, limit),
        )
        return [(row["id"], row["score"]) for row in rows]


def _tsquery(term: Term) -> str:
    words = [f"'{word}'" for word in term.words]
    if term.prefix:
        words[-1] += ":*"
    return "(" + " <-> ".join(words) + ")"
