import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from hardpoint.audit import AuditError, AuditLog, prune, read, show, stats, verify
from hardpoint.output.leaks import LeakScanner


class Hand:
    """A clock that is moved by hand."""

    def __init__(self, now=1_700_000_000.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "audit"


def write_calls(folder, count, **options):
    log = AuditLog(folder, **options)
    for number in range(count):
        log.write("decided", {"call_id": f"c{number}", "number": number})
    log.close()
    return log


def only_file(folder):
    (file,) = folder.glob("*.jsonl")
    return file


def test_a_record_is_in_the_file_when_write_returns(folder):
    log = AuditLog(folder, clock=Hand())

    log.write("decided", {"tool": "http", "decision": "allow"})

    opened, record = map(json.loads, only_file(folder).read_text().splitlines())
    assert opened["kind"] == "opened"
    assert record | {"prev": 0, "hash": 0} == {
        "seq": 2,
        "at": "2023-11-14T22:13:20.000000Z",
        "kind": "decided",
        "tool": "http",
        "decision": "allow",
        "prev": 0,
        "hash": 0,
    }
    log.close()


def test_files_can_be_read_by_their_owner_only(folder):
    write_calls(folder, 1)

    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_a_batch_is_written_at_the_latest_when_the_log_is_closed(folder):
    log = AuditLog(folder)
    for number in range(100):
        log.write("decided", {"number": number}, batch=True)
    assert only_file(folder).read_text().count("\n") < 101

    log.close()

    assert [record.get("number") for record in read(folder)] == [None, *range(100)]
    assert verify(folder).ok


def test_a_record_that_may_not_wait_takes_the_batch_along_in_order(folder):
    log = AuditLog(folder)
    log.write("decided", {"number": 1}, batch=True)
    log.write("decided", {"number": 2})

    assert [record.get("number") for record in read(folder)] == [None, 1, 2]
    log.close()


def test_a_fresh_chain_verifies(folder):
    write_calls(folder, 20)
    write_calls(folder, 5)

    report = verify(folder)

    assert report.ok
    assert (report.files, report.records) == (2, 27)


def change(lines):
    lines[3] = lines[3].replace(b'"number":2', b'"number":7')


def remove(lines):
    del lines[3]


def swap(lines):
    lines[3], lines[4] = lines[4], lines[3]


def double(lines):
    lines.insert(4, lines[3])


def spoil(lines):
    lines[3] = b"no record at all\n"


@pytest.mark.parametrize("tamper", [change, remove, swap, double, spoil])
def test_what_was_done_to_a_file_is_found_at_its_first_record(folder, tamper):
    write_calls(folder, 10)
    file = only_file(folder)
    lines = file.read_bytes().splitlines(keepends=True)
    tamper(lines)
    file.write_bytes(b"".join(lines))

    (found,) = verify(folder).breaks

    assert found.file == file.name
    assert found.record == (5 if tamper is double else 4)


@pytest.mark.parametrize("kept", [0, 1, 5, 10])
def test_a_file_that_was_cut_short_is_found(folder, kept):
    write_calls(folder, 10)
    file = only_file(folder)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:kept]))

    (found,) = verify(folder).breaks

    assert (found.file, found.record) == (file.name, kept + 1)
    assert "cut short" in str(found)


def test_a_chain_that_was_written_anew_differs_from_the_index(folder, tmp_path):
    write_calls(folder, 10)
    write_calls(tmp_path / "other", 10)
    only_file(folder).write_bytes(only_file(tmp_path / "other").read_bytes())

    assert "index" in str(verify(folder).breaks[0])


def test_a_removed_file_and_one_put_there_are_found(folder, tmp_path):
    write_calls(folder, 3)
    write_calls(tmp_path / "other", 3)
    stranger = only_file(tmp_path / "other")
    only_file(folder).unlink()
    (folder / stranger.name).write_bytes(stranger.read_bytes())

    reasons = [found.reason for found in verify(folder).breaks]

    assert any("missing" in reason for reason in reasons)
    assert any("not in the index" in reason for reason in reasons)


def test_a_removed_index_is_found(folder):
    write_calls(folder, 3)
    (folder / "index.db").unlink()

    assert verify(folder).breaks[0].file == "index.db"


def test_rotated_files_are_one_chain(folder):
    clock = Hand()
    log = AuditLog(folder, max_bytes=2000, clock=clock)
    for number in range(40):
        clock.now += 1
        log.write("decided", {"number": number})
    log.close()

    files = sorted(folder.glob("*.jsonl"))
    assert len(files) > 3
    assert all(file.stat().st_size < 3000 for file in files)
    assert verify(folder).ok
    numbers = [record["number"] for record in read(folder) if "number" in record]
    assert numbers == list(range(40))


def test_secrets_do_not_reach_the_file(folder):
    token = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ"
    log = AuditLog(folder, scanner=LeakScanner({"billing": "kestrel/Quarry+94=old~~"}))
    log.write(
        "decided",
        {
            "tool": "http",
            "params": {
                "headers": {"X-Api-Key": "short", "Accept": "*/*"},
                "body": f"use {token} now",
                "query": "a=kestrel%2FQuarry%2B94%3Dold~~",
            },
        },
    )
    log.close()

    text = only_file(folder).read_text()
    assert token not in text
    assert "Quarry" not in text
    (record,) = read(folder, kind="decided")
    assert record["params"] == {
        "headers": {"X-Api-Key": "[REDACTED]", "Accept": "*/*"},
        "body": "use [REDACTED:github_token] now",
        "query": "a=[REDACTED:stored_secret]",
    }


def test_a_record_that_cannot_be_written_is_an_error_and_leaves_nothing(folder):
    log = AuditLog(folder)
    log.write("decided", {"number": 1})

    with pytest.raises(AuditError, match="JSON"):
        log.write("decided", {"params": {(1, 2): "a pair is no JSON key"}})
    with pytest.raises(AuditError, match="seq"):
        log.write("decided", {"seq": 7})
    log.write("decided", {"number": 2})
    log.close()

    assert verify(folder).ok
    assert [record.get("number") for record in read(folder)] == [None, 1, 2]


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path):
    (tmp_path / "audit").write_text("a file")

    with pytest.raises(AuditError, match="audit"):
        AuditLog(tmp_path / "audit").write("decided", {})


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from hardpoint.audit import AuditError, AuditLog

log = AuditLog(Path(sys.argv[1]))
log.write("decided", {"number": 0})
size = next(Path(sys.argv[1]).glob("*.jsonl")).stat().st_size
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, unlimited[1]))
for number in (1, 2):
    try:
        log.write("decided", {"number": number})
    except AuditError:
        print("refused", number)
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
log.write("decided", {"number": 3})
log.close()
"""


def test_a_full_disk_refuses_calls_and_leaves_no_half_record(folder):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(folder)], capture_output=True, text=True, timeout=60
    )

    assert done.stdout.split("\n")[:2] == ["refused 1", "refused 2"], done.stderr
    assert verify(folder).ok
    assert [record.get("number") for record in read(folder)] == [None, 0, 3]


ENDLESS_WRITER = """
import sys
from pathlib import Path
from hardpoint.audit import AuditLog

log = AuditLog(Path(sys.argv[1]))
number = 0
while True:
    log.write("decided", {"number": number, "padding": "x" * (number % 5000)})
    print(number, flush=True)
    number += 1
"""


def test_a_killed_process_loses_no_record_that_it_reported(folder):
    for wanted in (0, 7, 40):
        process = subprocess.Popen(
            [sys.executable, "-c", ENDLESS_WRITER, str(folder)], stdout=subprocess.PIPE
        )
        reported = 0
        while reported < wanted:
            reported = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0].split()
        reported = int(rest[-1]) if rest and rest[-1].isdigit() else reported

        newest = max(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns, default=None)
        if newest is None:
            continue
        whole = newest.read_bytes().rpartition(b"\n")[0].split(b"\n")
        assert json.loads(whole[-1]).get("number", -1) >= reported - 1
        assert verify(folder).ok


def test_the_file_of_a_killed_process_is_closed_by_the_next_one(folder):
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS_WRITER, str(folder)], stdout=subprocess.PIPE
    )
    process.stdout.readline()
    process.kill()
    process.communicate()
    file = only_file(folder)
    with file.open("ab") as handle:
        handle.write(b'{"seq":999,"at":"2024')

    write_calls(folder, 1)

    assert verify(folder).ok
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))
    assert "cut short" in str(verify(folder).breaks[0])


def test_a_living_process_keeps_its_file_open(folder):
    log = AuditLog(folder)
    log.write("decided", {"number": 1})

    write_calls(folder, 1)
    log.write("decided", {"number": 2})
    log.close()

    assert verify(folder).ok


def test_a_forked_child_writes_a_file_of_its_own(folder):
    log = AuditLog(folder)
    log.write("decided", {"number": 1}, batch=True)

    child = os.fork()
    if child == 0:
        log.write("decided", {"number": 2})
        log.close()
        os._exit(0)
    os.waitpid(child, 0)
    log.close()

    assert verify(folder).ok
    assert verify(folder).files == 2
    numbers = sorted(record["number"] for record in read(folder, kind="decided"))
    assert numbers == [1, 2]


def test_threads_share_one_chain(folder):
    log = AuditLog(folder)

    def write(thread):
        for number in range(50):
            log.write("decided", {"thread": thread, "number": number}, batch=number % 2 == 0)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()

    report = verify(folder)
    assert report.ok
    assert report.records == 401


def test_records_are_selected_by_field_and_time(folder):
    clock = Hand()
    log = AuditLog(folder, clock=clock)
    for number in range(6):
        clock.now += 10
        fields = {"call_id": f"c{number // 2}", "tool": "http" if number % 2 else "echo"}
        log.write("decided", fields)
    log.close()

    assert [r["call_id"] for r in read(folder, kind="decided", tool="http")] == ["c0", "c1", "c2"]
    assert len(show(folder, "c1")) == 2
    start = 1_700_000_000.0
    assert len(list(read(folder, since=start + 20, until=start + 40))) == 2
    assert list(read(folder, since=start + 1000)) == []


def test_stats_count_calls_by_tool_decision_and_error(folder):
    log = AuditLog(folder)
    for decision in ("allow", "allow", "deny"):
        log.write("decided", {"tool": "http", "decision": decision, "user": "ana"})
    log.write("finished", {"tool": "http", "error": {"kind": "timeout"}})
    log.close()

    found = stats(folder)

    assert found.calls == 3
    assert found.decisions == {"allow": 2, "deny": 1}
    assert found.errors == {"timeout": 1}
    assert found.users == {"ana": 3}


def test_old_files_are_pruned_and_not_missed(folder):
    clock = Hand()
    write_calls(folder, 3, clock=clock)
    clock.now += 1000
    write_calls(folder, 3, clock=clock)

    assert prune(folder, before=clock.now - 500) == 1

    report = verify(folder)
    assert report.ok
    assert report.files == 1
