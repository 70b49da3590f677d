"""Keep state in one database: the only place that opens one.

A store is one SQLite file in the data folder, or a PostgreSQL database. Each subject (grants,
limits, jobs …) owns a namespace: tables whose names begin with it, and the migrations that make
them. What is kept, and for how long, is decided by the subjects.

SQL is written once, for both: `?` or `:name` parameters, TEXT, BIGINT, REAL, BLOB columns,
`ON CONFLICT`, `RETURNING`. No `INTEGER PRIMARY KEY`, no functions of one database alone.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, ParamSpec, Protocol, TypeVar

from hardpoint.errors import ConfigError, HardpointError

Params = Sequence[Any] | Mapping[str, Any]
Row = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")

VERSIONS = """CREATE TABLE IF NOT EXISTS hardpoint_namespaces (
    name TEXT NOT NULL PRIMARY KEY, version BIGINT NOT NULL
)"""
_POSTGRESQL = re.compile(r"postgres(ql)?(\+\w+)?://")
NAMESPACE_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}\Z")


class StoreError(HardpointError):
    """The database could not do what it was asked; nothing of the transaction was kept."""


class Transaction(Protocol):
    """Statements that all take effect, or none."""

    def execute(self, sql: str, params: Params = ()) -> int:
        """Run one statement; the number of rows that it changed."""
        ...

    def query(self, sql: str, params: Params = ()) -> list[Row]:
        """Run one statement; its rows."""
        ...


class Backend(Protocol):
    """One kind of database."""

    def transaction(
        self, *, write: bool, durable: bool, lock: str
    ) -> AbstractContextManager[Transaction]:
        """Open a transaction; `lock` names what writers exclude each other on."""
        ...

    def close(self) -> None: ...


class Store:
    """The state of one data folder, or of one PostgreSQL database. Opened at the first use.

    Safe to use from threads, from several processes at once, and on both sides of a fork.

    Example:
        store = Store(data_folder)
        notes = store.namespace("notes", ["CREATE TABLE notes_lines (line TEXT NOT NULL)"])
        notes.execute("INSERT INTO notes_lines (line) VALUES (?)", ("hello",))
        notes.query("SELECT line FROM notes_lines")  # [{"line": "hello"}]
    """

    def __init__(self, location: str | Path, *, timeout: float = 10.0) -> None:
        """Describe a store; nothing is opened yet.

        Args:
            location: The data folder, a file in it that ends in `.db`, `:memory:`, or a URL that
                begins with `postgresql`.
            timeout: Seconds to wait for another process that is writing.
        """
        self.location = location
        self._timeout = timeout
        self._lock = threading.Lock()
        self._backend: Backend | None = None
        self._ready: set[str] = set()

    def namespace(
        self, name: str, migrations: Sequence[str] = (), *, durable: bool = False
    ) -> Namespace:
        """The tables of one subject.

        Args:
            name: Every table's name begins with it and an underscore.
            migrations: One statement each. Those that this database has not seen yet run once, in
                order; never change one that was released, append another.
            durable: A finished write survives the loss of power, not only of the process.
        """
        if not NAMESPACE_NAME.match(name):
            raise ValueError(f"{name!r} cannot name a namespace; use lower-case letters, digits, _")
        return Namespace(self, name, tuple(migrations), durable)

    def check(self) -> None:
        """Open the database now, so that what is wrong with it is known at the start.

        Raises:
            ConfigError: The location cannot be used.
            StoreError: The database is damaged, locked or full.
        """
        with self.transaction(write=False):
            pass

    @contextmanager
    def transaction(
        self, *, write: bool = True, durable: bool = False, lock: str = "hardpoint"
    ) -> Iterator[Transaction]:
        """A transaction; one inside another joins it. Do not await in it."""
        current = _current.get()
        if current is not None and current[0] is self:
            yield current[1]
            return
        with self._open().transaction(write=write, durable=durable, lock=lock) as transaction:
            outer = _current.set((self, transaction))
            try:
                yield transaction
            finally:
                _current.reset(outer)

    def close(self) -> None:
        """Give back the connections; a later use opens the store again."""
        with self._lock:
            backend, self._backend = self._backend, None
        if backend is not None:
            backend.close()

    def migrate(self, name: str, migrations: Sequence[str]) -> None:
        """Bring the tables of one namespace up to date, once per process."""
        if name in self._ready:
            return
        with self.transaction(durable=True) as transaction:
            transaction.execute(VERSIONS)
            rows = transaction.query(
                "SELECT version FROM hardpoint_namespaces WHERE name = ?", (name,)
            )
            version = rows[0]["version"] if rows else 0
            if version > len(migrations):
                raise ConfigError(
                    f"the tables of {name!r} in {self} were made by a newer version "
                    f"({version} steps; this one knows {len(migrations)})",
                    hint="upgrade this installation, or point it at another data folder",
                )
            for statement in migrations[version:]:
                transaction.execute(statement)
            transaction.execute(
                "INSERT INTO hardpoint_namespaces (name, version) VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET version = excluded.version",
                (name, len(migrations)),
            )
        if _current.get() is None:
            # Inside another transaction this one may still be rolled back.
            self._ready.add(name)

    @property
    def dialect(self) -> Literal["sqlite", "postgresql"]:
        """Which database it is, for what only one of them can do."""
        return "postgresql" if _POSTGRESQL.match(str(self.location)) else "sqlite"

    @property
    def folder(self) -> Path | None:
        """The data folder; None for a database in memory or elsewhere."""
        if self.dialect == "postgresql" or str(self.location) == ":memory:":
            return None
        return _file(self.location).parent

    def __str__(self) -> str:
        # A URL may carry a password.
        return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", str(self.location))

    def _open(self) -> Backend:
        with self._lock:
            if self._backend is None:
                self._backend = _open(self.location, self._timeout)
            return self._backend


_current: ContextVar[tuple[Store, Transaction] | None] = ContextVar("transaction", default=None)


class Namespace:
    """The tables of one subject; its migrations run before the first statement."""

    def __init__(self, store: Store, name: str, migrations: tuple[str, ...], durable: bool) -> None:
        self.store = store
        self.name = name
        self._migrations = migrations
        self._durable = durable

    @property
    def dialect(self) -> Literal["sqlite", "postgresql"]:
        """Which database it is in; a namespace may choose its migrations by it."""
        return self.store.dialect

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Statements that all take effect or none, alone among writers. Do not await in it."""
        self.store.migrate(self.name, self._migrations)
        with self.store.transaction(durable=self._durable, lock=self.name) as transaction:
            yield transaction

    def execute(self, sql: str, params: Params = ()) -> int:
        """Run one writing statement; the number of rows that it changed.

        `UPDATE … WHERE state = 'pending'` that returns 1 has won against every other process.
        """
        with self.transaction() as transaction:
            return transaction.execute(sql, params)

    def query(self, sql: str, params: Params = ()) -> list[Row]:
        """Run one reading statement; its rows."""
        self.store.migrate(self.name, self._migrations)
        with self.store.transaction(write=False) as transaction:
            return transaction.query(sql, params)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses the store in a thread, so that the loop goes on meanwhile."""
        import asyncio

        work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # A thread cannot be stopped; it must not use the store after its caller has gone.
            await asyncio.wait({work})
            if not work.cancelled():
                work.exception()  # retrieved, so that asyncio does not complain
            raise


def _open(location: str | Path, timeout: float) -> Backend:
    text = str(location)
    if _POSTGRESQL.match(text):
        from hardpoint.store.postgresql import PostgresqlBackend

        return PostgresqlBackend(text, timeout)
    if "://" in text and not text.startswith("sqlite:///"):
        scheme = text.partition("://")[0]
        raise ConfigError(
            f"[store] url: {scheme!r} is not a database that this can use",
            hint="leave it out to use SQLite, or give a URL that begins with postgresql+psycopg://",
        )
    from hardpoint.store.sqlite import SqliteBackend

    if text == ":memory:":
        return SqliteBackend(None, timeout)
    return SqliteBackend(_file(location), timeout)


def _file(location: str | Path) -> Path:
    path = Path(str(location).removeprefix("sqlite:///"))
    return path if path.suffix == ".db" else path / "state.db"
