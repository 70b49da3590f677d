"""The store in one SQLite file: write-ahead log, several processes, no owner process."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hardpoint.errors import ConfigError
from hardpoint.store import Params, Row, StoreError, Transaction
from hardpoint.store.private import make_private_folder, open_private, refuse_network_folder

MAX_IDLE = 8


class SqliteTransaction:
    """Statements on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, params: Params = ()) -> int:
        return self._connection.execute(sql, params).rowcount

    def query(self, sql: str, params: Params = ()) -> list[Row]:
        cursor = self._connection.execute(sql, params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


class SqliteBackend:
    """Connections to one file. Each transaction has one to itself; a forked child opens its own."""

    def __init__(self, path: Path | None, timeout: float) -> None:
        """Open `path`, or a database in memory that lives as long as this object."""
        self._path = path
        self._timeout = timeout
        self._lock = threading.Lock()
        self._memory_lock = threading.Lock()
        self._pid = os.getpid()
        self._idle: list[sqlite3.Connection] = []
        # Closing a connection that a parent process opened would touch the parent's files.
        self._inherited: list[sqlite3.Connection] = []
        # A store that nobody closes gives its file back all the same, when it is let go.
        weakref.finalize(self, _close_own, self._idle, self._pid)
        if path is not None:
            make_private_folder(path.parent)
            refuse_network_folder(path.parent)
            try:
                os.close(open_private(path))
            except OSError as error:
                raise ConfigError(
                    f"the database {str(path)!r} cannot be opened: {error.strerror}",
                    hint="check who owns the data folder and its disk, or choose another data_dir",
                ) from error

    @contextmanager
    def transaction(self, *, write: bool, durable: bool, lock: str) -> Iterator[Transaction]:
        with self._translated():
            if self._path is None and not self._memory_lock.acquire(timeout=self._timeout):
                raise sqlite3.OperationalError("database is locked")
            try:
                connection = self._take()
                try:
                    # Outside a transaction a finished write survives the process without a sync.
                    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                    yield SqliteTransaction(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
                    raise
                finally:
                    self._give_back(connection)
            finally:
                if self._path is None:
                    self._memory_lock.release()

    def close(self) -> None:
        with self._lock:
            self._leave_inherited()
            idle = self._idle[:]
            self._idle.clear()
        for connection in idle:
            connection.close()

    def _leave_inherited(self) -> None:
        if self._pid == os.getpid():
            return
        self._inherited += self._idle
        self._idle, self._pid = [], os.getpid()
        weakref.finalize(self, _close_own, self._idle, self._pid)

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            self._leave_inherited()
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE and not connection.in_transaction:
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path or ":memory:",
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        if self._path is None:
            return connection
        try:
            self._use_write_ahead_log(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                break
            except sqlite3.OperationalError as error:
                # The switch to WAL does not wait for others as every later statement does.
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        if mode != "wal":
            raise StoreError(
                f"the disk of {str(self._path)!r} cannot hold a write-ahead log (SQLite uses "
                f"{mode!r} there); choose a data folder on another disk"
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self._path or 'the database'}: {_explain(error)}") from error


def _close_own(idle: list[sqlite3.Connection], pid: int) -> None:
    if pid == os.getpid():
        for connection in idle:
            connection.close()


def _explain(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    advice = {
        sqlite3.SQLITE_BUSY: "another process keeps the database locked; see which one, and retry",
        sqlite3.SQLITE_FULL: "the disk is full; make room and retry",
        sqlite3.SQLITE_IOERR: "the disk reports an error; check its health and free space",
        sqlite3.SQLITE_READONLY: "the database is read-only; check the owner and the mount",
        sqlite3.SQLITE_CANTOPEN: "the database cannot be opened; check the owner and the folder",
        sqlite3.SQLITE_CORRUPT: "the database is damaged; move it away or restore a copy",
        sqlite3.SQLITE_NOTADB: "this is not a database; move the file away or restore a copy",
    }.get(code)
    return f"{advice} ({error})" if advice else str(error)
