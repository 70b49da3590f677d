"""The store on a real PostgreSQL server, which the tests start; skipped where there is none."""

import subprocess
import sys

import pytest

from hardpoint.errors import ConfigError
from hardpoint.interfaces.limits import LimitRequest
from hardpoint.limits import ToolRateLimitConfig
from hardpoint.policy.rate_limit import MIGRATIONS, SqliteRateLimiter
from hardpoint.store import Store, StoreError

pytest.importorskip("sqlalchemy")
pytest.importorskip("psycopg")

NOTES = ("CREATE TABLE notes_lines (line TEXT NOT NULL, place BIGINT, data BLOB, at REAL)",)


@pytest.fixture
def store(database):
    store = Store(database)
    yield store
    store.close()


def test_rows_come_back_as_they_were_written(store):
    notes = store.namespace("notes", NOTES)
    row = {"line": "50% :of 'it'?", "place": 2**40, "data": b"\0\xff", "at": 1.5}

    changed = notes.execute(
        "INSERT INTO notes_lines (line, place, data, at) VALUES (:line, :place, :data, :at)", row
    )

    assert changed == 1
    assert notes.query(
        "SELECT * FROM notes_lines WHERE line LIKE '50%' AND place = ?", (2**40,)
    ) == [row]


def test_a_transaction_takes_effect_whole_or_not_at_all(store):
    notes = store.namespace("notes", NOTES)

    def fail():
        with notes.transaction() as transaction:
            transaction.execute("INSERT INTO notes_lines (line) VALUES ('lost')")
            raise LookupError

    with pytest.raises(LookupError):
        fail()

    assert notes.query("SELECT line FROM notes_lines") == []


def test_tables_of_a_newer_version_are_refused(store, database):
    store.namespace("n", ["CREATE TABLE n_a (a TEXT)", "CREATE TABLE n_b (a TEXT)"]).query(
        "SELECT a FROM n_a"
    )

    older = Store(database)
    with pytest.raises(ConfigError, match="newer version"):
        older.namespace("n", ["CREATE TABLE n_a (a TEXT)"]).query("SELECT a FROM n_a")
    older.close()


def test_what_the_server_refuses_is_an_error_that_says_what(store):
    with pytest.raises(StoreError, match="no_such_table"):
        store.namespace("n").query("SELECT a FROM no_such_table")


def test_a_server_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="PostgreSQL"):
        Store(f"postgresql://nobody@/none?host={tmp_path}").check()


HAMMER = """
import sys
from hardpoint.interfaces.limits import LimitRequest
from hardpoint.limits import ToolRateLimitConfig
from hardpoint.policy.rate_limit import MIGRATIONS, SqliteRateLimiter
from hardpoint.store import Store

limiter = SqliteRateLimiter(Store(sys.argv[1]).namespace("limits", MIGRATIONS), clock=lambda: 1000)
request = [LimitRequest("ana", "http", ToolRateLimitConfig(40, 100))]
print(sum(limiter.acquire_now(request) is None for _ in range(30)))
"""


def test_processes_never_count_more_calls_than_the_limit(store, database):
    command = [sys.executable, "-c", HAMMER, database]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]

    counted = [int(worker.communicate(timeout=60)[0]) for worker in workers]

    assert sum(counted) == 40
    usage = SqliteRateLimiter(store.namespace("limits", MIGRATIONS), clock=lambda: 1000).usage()
    assert usage == [("ana", "http", 40, 40)]


async def test_a_refused_call_counts_nowhere(store):
    limiter = SqliteRateLimiter(store.namespace("limits", MIGRATIONS), clock=lambda: 1000)
    both = [
        LimitRequest("ana", "http", ToolRateLimitConfig(5, 50)),
        LimitRequest("ana", "shared", ToolRateLimitConfig(1, 50)),
    ]

    assert await limiter.acquire(both) is None
    assert await limiter.acquire(both) is not None

    assert limiter.usage() == [("ana", "http", 1, 1), ("ana", "shared", 1, 1)]
