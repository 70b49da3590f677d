import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hardpoint.errors import ConfigError
from hardpoint.store import Store, StoreError
from hardpoint.store.postgresql import translate
from hardpoint.store.private import refuse_network_folder

NOTES = ("CREATE TABLE notes_lines (line TEXT NOT NULL, place BIGINT)",)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "data")
    yield store
    store.close()


@pytest.fixture
def notes(store):
    return store.namespace("notes", NOTES)


def lines(notes):
    return [row["line"] for row in notes.query("SELECT line FROM notes_lines ORDER BY place")]


def add(notes, line, place=0):
    notes.execute("INSERT INTO notes_lines (line, place) VALUES (?, ?)", (line, place))


# what a namespace does --------------------------------------------------------------------------


def test_what_was_written_is_there_after_opening_again(notes, store, tmp_path):
    add(notes, "hello")
    store.close()

    assert lines(Store(tmp_path / "data").namespace("notes", NOTES)) == ["hello"]


def test_parameters_are_given_by_place_or_by_name(notes):
    changed = notes.execute(
        "INSERT INTO notes_lines (line, place) VALUES (:line, :place)", {"line": "a", "place": 3}
    )

    assert changed == 1
    assert notes.query("SELECT * FROM notes_lines WHERE place = ?", (3,)) == [
        {"line": "a", "place": 3}
    ]


def test_a_transaction_takes_effect_whole_or_not_at_all(notes):
    def fail():
        with notes.transaction() as transaction:
            transaction.execute("INSERT INTO notes_lines (line) VALUES ('lost')")
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    with notes.transaction() as transaction:
        transaction.execute("INSERT INTO notes_lines (line) VALUES ('kept')")
        assert transaction.query("SELECT line FROM notes_lines") == [{"line": "kept"}]

    assert lines(notes) == ["kept"]


def test_a_transaction_inside_another_joins_it(store, notes):
    other = store.namespace("other", ["CREATE TABLE other_things (name TEXT)"])

    def fail():
        with notes.transaction():
            add(notes, "lost")
            other.execute("INSERT INTO other_things (name) VALUES ('lost')")
            raise LookupError

    with pytest.raises(LookupError):
        fail()

    assert lines(notes) == []
    assert other.query("SELECT name FROM other_things") == []


async def test_run_keeps_the_loop_free(notes):
    await notes.run(add, notes, "from a thread")

    assert await notes.run(lines, notes) == ["from a thread"]


def test_namespaces_share_one_file(store, tmp_path):
    store.namespace("a", ["CREATE TABLE a_t (x TEXT)"]).execute("INSERT INTO a_t (x) VALUES ('1')")
    store.namespace("b", ["CREATE TABLE b_t (x TEXT)"]).execute("INSERT INTO b_t (x) VALUES ('2')")

    assert {path.name for path in (tmp_path / "data").glob("*.db")} == {"state.db"}


def test_a_name_that_cannot_begin_a_table_is_refused(store):
    for name in ("", "Grants", "a-b", "a; DROP TABLE x", "1a"):
        with pytest.raises(ValueError):
            store.namespace(name)


def test_a_store_in_memory_serves_threads():
    notes = Store(":memory:").namespace("notes", NOTES)
    threads = [threading.Thread(target=add, args=(notes, "x", n)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(lines(notes)) == 20


# migrations -------------------------------------------------------------------------------------


def test_each_migration_runs_once_and_in_order(tmp_path):
    first = ["CREATE TABLE n_t (a TEXT)"]
    Store(tmp_path).namespace("n", first).execute("INSERT INTO n_t (a) VALUES ('x')")

    later = Store(tmp_path).namespace("n", [*first, "ALTER TABLE n_t ADD COLUMN b TEXT"])

    assert later.query("SELECT a, b FROM n_t") == [{"a": "x", "b": None}]


def test_tables_of_a_newer_version_are_refused(tmp_path):
    Store(tmp_path).namespace(
        "n", ["CREATE TABLE n_a (a TEXT)", "CREATE TABLE n_b (a TEXT)"]
    ).query("SELECT a FROM n_a")

    with pytest.raises(ConfigError, match="newer version"):
        Store(tmp_path).namespace("n", ["CREATE TABLE n_a (a TEXT)"]).query("SELECT a FROM n_a")


def test_a_migration_that_fails_leaves_nothing(tmp_path):
    broken = Store(tmp_path).namespace("n", ["CREATE TABLE n_t (a TEXT)", "NO SQL AT ALL"])
    with pytest.raises(StoreError):
        broken.query("SELECT a FROM n_t")

    fixed = Store(tmp_path).namespace("n", ["CREATE TABLE n_t (a TEXT)"])
    assert fixed.query("SELECT a FROM n_t") == []


# several processes and threads ------------------------------------------------------------------

CLAIM = """
import sys
from hardpoint.store import Store

jobs = Store(sys.argv[1]).namespace(
    "jobs", ["CREATE TABLE jobs_all (id BIGINT PRIMARY KEY, owner TEXT)"]
)
won = 0
for number in range(40):
    jobs.execute("INSERT INTO jobs_all (id) VALUES (?) ON CONFLICT (id) DO NOTHING", (number,))
    sql = "UPDATE jobs_all SET owner = ? WHERE id = ? AND owner IS NULL"
    won += jobs.execute(sql, (sys.argv[2], number))
print(won)
"""


def test_of_several_processes_exactly_one_wins_each_compare_and_set(tmp_path):
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(tmp_path), str(n)], stdout=subprocess.PIPE
        )
        for n in range(4)
    ]

    won = [int(worker.communicate(timeout=60)[0]) for worker in workers]

    assert sum(won) == 40


def test_threads_read_and_write_at_once(notes):
    failures = []

    def work(number):
        try:
            for place in range(20):
                add(notes, f"{number}", place)
                lines(notes)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(lines(notes)) == 120


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_store_that_is_let_go_gives_its_file_back(tmp_path):
    add(Store(tmp_path / "data").namespace("notes", NOTES), "hello")
    gc.collect()

    links = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    held = [str(link.readlink()) for link in links if link.is_symlink()]
    assert not [name for name in held if name.startswith(str(tmp_path))]


def test_both_sides_of_a_fork_may_go_on(notes):
    add(notes, "before", 0)

    child = os.fork()
    if child == 0:
        add(notes, "child", 1)
        os._exit(0)
    add(notes, "parent", 2)
    os.waitpid(child, 0)

    assert lines(notes) == ["before", "child", "parent"]


ENDLESS_WRITER = """
import sys
from hardpoint.store import Store

notes = Store(sys.argv[1]).namespace(
    "notes", ["CREATE TABLE notes_lines (line TEXT NOT NULL, place BIGINT)"]
)
number = 0
while True:
    with notes.transaction() as transaction:
        for half in ("a", "b"):
            sql = "INSERT INTO notes_lines (line, place) VALUES (?, ?)"
            transaction.execute(sql, (half, number))
    print(number, flush=True)
    number += 1
"""


def test_a_killed_process_loses_nothing_that_it_reported(tmp_path):
    for wanted in (1, 5, 30):
        process = subprocess.Popen(
            [sys.executable, "-c", ENDLESS_WRITER, str(tmp_path / str(wanted))],
            stdout=subprocess.PIPE,
        )
        while int(process.stdout.readline()) < wanted:
            pass
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0].split()
        reported = int(rest[-1]) if rest and rest[-1].isdigit() else wanted

        notes = Store(tmp_path / str(wanted)).namespace("notes", NOTES)
        rows = notes.query("SELECT place, COUNT(*) AS halves FROM notes_lines GROUP BY place")
        assert {row["halves"] for row in rows} == {2}
        assert max(row["place"] for row in rows) >= reported


def test_a_writer_that_waits_too_long_is_told_so(tmp_path):
    store = Store(tmp_path, timeout=0.05)
    notes = store.namespace("notes", NOTES)
    add(notes, "first")
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreError, match="locked"):
        add(notes, "second")
    assert lines(notes) == ["first"]

    other.execute("ROLLBACK")
    other.close()
    add(notes, "second", 1)
    assert lines(notes) == ["first", "second"]


# where it is kept -------------------------------------------------------------------------------


def test_files_can_be_read_by_their_owner_only(notes, tmp_path):
    add(notes, "x")

    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    files = list((tmp_path / "data").iterdir())
    assert len(files) >= 2
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_a_folder_that_everybody_may_change_is_refused(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)

    with pytest.raises(ConfigError, match="everybody"):
        Store(tmp_path / "open").check()


def test_a_link_in_place_of_the_database_is_refused(tmp_path):
    (tmp_path / "elsewhere.db").touch()
    (tmp_path / "state.db").symlink_to(tmp_path / "elsewhere.db")

    with pytest.raises(ConfigError, match="cannot be opened"):
        Store(tmp_path).check()


def test_a_damaged_database_is_named_with_what_to_do(tmp_path):
    (tmp_path / "state.db").write_bytes(b"this is not a database" * 100)

    with pytest.raises(StoreError, match=r"state\.db.*not a database"):
        Store(tmp_path).check()


def test_a_folder_that_cannot_be_made_is_a_configuration_error(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="data folder"):
        Store(tmp_path / "file" / "data").check()


FULL_DISK = """
import resource, signal, sys
from hardpoint.store import Store, StoreError

notes = Store(sys.argv[1]).namespace("notes", ["CREATE TABLE notes_lines (line TEXT)"])
notes.execute("INSERT INTO notes_lines (line) VALUES ('kept')")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    notes.execute("INSERT INTO notes_lines (line) VALUES (?)", ("x" * 1_000_000,))
except StoreError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print([row["line"] for row in notes.query("SELECT line FROM notes_lines")])
"""


def test_a_full_disk_is_reported_and_the_database_stays_whole(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, timeout=60
    )

    complaint, kept = done.stdout.splitlines()
    assert "disk" in complaint
    assert kept == "['kept']"


MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
40 22 0:50 / /home rw shared:1 - nfs4 server:/home rw
41 40 8:2 / /home/ana/local\\040disk rw - xfs /dev/sdb1 rw
42 22 0:51 / /mnt/share rw - fuse.sshfs ana@server:/ rw
43 22 0:52 / /mnt/usb rw - fuse.exfat /dev/sdc1 rw
"""


@pytest.mark.parametrize(
    ("folder", "refused"),
    [
        ("/home/ana/data", True),
        ("/home", True),
        ("/home/ana/local disk/data", False),
        ("/var/lib/data", False),
        ("/mnt/share/x", True),
        ("/mnt/usb/x", False),
        ("/homes/ana", False),
    ],
)
def test_network_file_systems_are_refused(folder, refused):
    if refused:
        with pytest.raises(ConfigError, match="network file system"):
            refuse_network_folder(Path(folder), MOUNTS)
    else:
        refuse_network_folder(Path(folder), MOUNTS)


# PostgreSQL -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "translated"),
    [
        ("SELECT a FROM t WHERE a = ? AND b = ?", "SELECT a FROM t WHERE a = %s AND b = %s"),
        ("SELECT a FROM t WHERE a = :name", "SELECT a FROM t WHERE a = %(name)s"),
        ("SELECT 'what? 50% :off' FROM t", "SELECT 'what? 50%% :off' FROM t"),
        ("SELECT 'it''s?' WHERE a = ?", "SELECT 'it''s?' WHERE a = %s"),
        ("CREATE TABLE t (a BLOB, b REAL)", "CREATE TABLE t (a BYTEA, b DOUBLE PRECISION)"),
        ("SELECT a % 2 FROM t", "SELECT a %% 2 FROM t"),
    ],
)
def test_the_shared_sql_is_translated(sql, translated):
    assert translate(sql) == translated


def test_a_url_of_another_database_is_refused():
    with pytest.raises(ConfigError, match="mysql"):
        Store("mysql://localhost/x").check()


def test_a_missing_extra_is_a_configuration_error_with_the_install_line(tmp_path):
    script = (
        "import sys\n"
        "sys.modules['sqlalchemy'] = None\n"
        "from hardpoint.errors import ConfigError\n"
        "from hardpoint.store import Store\n"
        "try: Store('postgresql://localhost/x').check()\n"
        "except ConfigError as error: print(error, error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )

    assert 'pip install "hardpoint[postgresql]"' in done.stdout


def test_a_password_in_the_url_is_never_shown():
    assert str(Store("postgresql+psycopg://ana:s3cret@host/db")) == (
        "postgresql+psycopg://ana:***@host/db"
    )
