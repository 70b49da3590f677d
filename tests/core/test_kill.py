"""A killed process loses nothing that it reported as written, and leaves nothing half written."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hardpoint.audit import read, verify
from hardpoint.interfaces import SystemClock
from hardpoint.policy.grants import StoredGrants
from hardpoint.secrets import file as secret_file
from hardpoint.store import Store

WRITER = Path(__file__).with_name("kill_writer.py")
TIMES = 200


def reported(folder: Path, kind: str, times: int = TIMES) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(WRITER), str(folder), kind, str(times), "7"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.split()


def whole(folder: Path) -> bool:
    connection = sqlite3.connect(folder / "state.db")
    try:
        return bool(connection.execute("PRAGMA integrity_check").fetchone() == ("ok",))
    finally:
        connection.close()


def test_no_grant_is_lost_or_half_there(tmp_path: Path) -> None:
    said = reported(tmp_path, "grants")

    grants = StoredGrants(Store(tmp_path), SystemClock())
    kept = {grant.id: grant for grant in grants.list()}
    assert len(said) > TIMES
    assert set(said) <= set(kept)
    assert whole(tmp_path)
    assert all(grant.pattern and grant.mode == "default" for grant in kept.values())


def test_no_answer_is_lost_or_half_there(tmp_path: Path) -> None:
    said = reported(tmp_path, "answers")

    grants = StoredGrants(Store(tmp_path), SystemClock())
    assert len(said) > TIMES
    for name in said:
        found = grants.get(name)
        assert found is not None
        assert found.state == "approved"
        assert found.answered_by == "ben"
    assert whole(tmp_path)
    for waiting in grants.pending():
        assert waiting.to_request().params["to"] == waiting.id


def test_no_audit_record_is_lost_or_half_there(tmp_path: Path) -> None:
    said = reported(tmp_path, "records")

    folder = tmp_path / "audit"
    found = [record["call_id"] for record in read(folder, kind="decided")]
    report = verify(folder)
    assert len(said) > TIMES
    assert set(said) <= set(found)
    assert len(found) == len(set(found))
    assert report.ok, report.breaks
    for path in folder.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            assert json.loads(line)["kind"]


@pytest.mark.parametrize("times", [50])
async def test_no_secret_is_lost_or_half_there(
    tmp_path: Path, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = reported(tmp_path, "secrets", times)

    monkeypatch.setattr(secret_file, "_SCRYPT", {"n": 2**4, "r": 8, "p": 1})
    environ = {"HARDPOINT_PASSPHRASE": "correct horse"}
    store = secret_file.EncryptedFileStore(
        tmp_path / "secrets.json", key="passphrase", environ=environ
    )
    assert len(said) > times
    assert set(said) <= set(await store.names("ana"))
    for name in said[:: max(1, len(said) // 20)]:
        assert await store.get("ana", name) == f"value of {name}"
