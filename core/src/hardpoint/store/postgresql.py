"""The store in PostgreSQL, through SQLAlchemy; imported only when the configuration names one."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hardpoint.errors import ConfigError
from hardpoint.store import Params, Row, StoreError, Transaction

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

PIECES = re.compile(r"'(?:[^']|'')*'|\?|%|(?<![:\w]):[a-z_]\w*", re.IGNORECASE)
TYPES = {"BLOB": "BYTEA", "REAL": "DOUBLE PRECISION", "INTEGER": "BIGINT"}


class PostgresqlTransaction:
    """Statements on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, params: Params = ()) -> int:
        return int(self._run(sql, params).rowcount)

    def query(self, sql: str, params: Params = ()) -> list[Row]:
        return [dict(row) for row in self._run(sql, params).mappings()]

    def _run(self, sql: str, params: Params) -> Any:
        bound = dict(params) if isinstance(params, Mapping) else tuple(params)
        return self._connection.exec_driver_sql(translate(sql), bound)


class PostgresqlBackend:
    """A pool of connections to one database."""

    def __init__(self, url: str, timeout: float) -> None:
        try:
            import psycopg  # noqa: F401
            import sqlalchemy
        except ImportError as error:
            raise ConfigError(
                "[store] url: PostgreSQL needs the extra 'postgresql'",
                hint='pip install "hardpoint[postgresql]"',
            ) from error
        self._errors = sqlalchemy.exc.SQLAlchemyError
        self._timeout = timeout
        self._pid = os.getpid()
        scheme, rest = url.split("://", 1)
        if scheme in ("postgres", "postgresql"):
            scheme = "postgresql+psycopg"
        # A prepared statement is planned without its parameters: a search for a common word as one
        # for a rare word. Poolers that give every transaction another connection lose them, too.
        options = {"prepare_threshold": None} if scheme.endswith("+psycopg") else {}
        try:
            self._engine = sqlalchemy.create_engine(
                f"{scheme}://{rest}", pool_pre_ping=True, connect_args=options
            )
        except self._errors as error:
            raise ConfigError(f"[store] url cannot be read: {error}") from error

    @contextmanager
    def transaction(self, *, write: bool, durable: bool, lock: str) -> Iterator[Transaction]:
        if self._pid != os.getpid():
            # A child must not use, nor close, what its parent opened.
            self._engine.dispose(close=False)
            self._pid = os.getpid()
        try:
            with self._engine.begin() as connection:
                if write:
                    # One writer a namespace at a time, as SQLite has it: compare-and-set is simple.
                    connection.exec_driver_sql(
                        f"SET LOCAL lock_timeout = '{int(self._timeout * 1000)}ms'"
                    )
                    connection.exec_driver_sql(
                        f"SELECT pg_advisory_xact_lock({zlib.crc32(lock.encode())})"
                    )
                    if not durable:
                        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                yield PostgresqlTransaction(connection)
        except self._errors as error:
            cause = getattr(error, "orig", None) or error
            raise StoreError(f"PostgreSQL: {str(cause).strip()}") from error

    def close(self) -> None:
        self._engine.dispose(close=self._pid == os.getpid())


def translate(sql: str) -> str:
    """Turn the shared SQL into PostgreSQL's: parameters as psycopg has them, column types."""

    def one(match: re.Match[str]) -> str:
        piece = match[0]
        if piece == "?":
            return "%s"
        if piece.startswith(":"):
            return f"%({piece[1:]})s"
        return piece.replace("%", "%%")

    if re.match(r"\s*(CREATE|ALTER)\b", sql, re.IGNORECASE):
        sql = re.sub(rf"\b({'|'.join(TYPES)})\b", lambda match: TYPES[match[0]], sql)
    return PIECES.sub(one, sql)
