"""Everything about one user: given out whole, deleted whole, and nobody else's touched."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hardpoint import Decision, JobContext, Runtime, hookimpl, tool
from hardpoint.cli.app import run
from hardpoint.config import (
    AuditConfig,
    Budget,
    BudgetConfig,
    Config,
    OutputConfig,
)
from hardpoint.config.model import LimitsConfig, SecretsConfig, StoreConfig
from hardpoint.interfaces import SecretStore, Workspace
from hardpoint.personal import delete, export

TABLES = ["CREATE TABLE diary_lines (user_id TEXT NOT NULL, line TEXT NOT NULL, picture BLOB)"]


class Safe(SecretStore):
    """Secrets in memory."""

    writable = True

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    async def get(self, owner: str, name: str) -> str | None:
        return self.kept.get((owner, name))

    async def set(self, owner: str, name: str, value: str) -> None:
        self.kept[owner, name] = value

    async def delete(self, owner: str, name: str) -> bool:
        return self.kept.pop((owner, name), None) is not None

    async def names(self, owner: str) -> list[str]:
        return [name for own, name in self.kept if own == owner]


class Notes(Workspace):
    """Documents that are not in the store."""

    def __init__(self) -> None:
        self.kept = {"ana": ["dear diary"], "bob": ["bob's"]}

    async def read(self, user_id: str, path: str) -> str | None:
        return None

    async def write(self, user_id: str, path: str, content: str, *, append: bool = False) -> None:
        self.kept.setdefault(user_id, []).append(content)

    async def list(self, user_id: str, prefix: str = "") -> list[str]:
        return []

    async def search(
        self, user_id: str, query: str, *, limit: int = 5
    ) -> Sequence[Mapping[str, Any]]:
        return []

    async def export(self, user_id: str) -> Sequence[Mapping[str, Any]]:
        return [{"kind": "note", "text": text} for text in self.kept.get(user_id, ())]

    async def forget(self, user_id: str) -> int:
        return len(self.kept.pop(user_id, ()))


class Plugin:
    HARDPOINT_API = 1

    def __init__(self) -> None:
        self.safe, self.notes = Safe(), Notes()

    @hookimpl
    def hardpoint_register_extensions(self, registry: Any) -> None:
        registry.register("secret_store", "safe", self.safe)
        registry.register("workspace", "notes", self.notes)


async def long() -> str:
    """Say a lot."""
    return "word " * 1000


@pytest.fixture
def plugin() -> Plugin:
    return Plugin()


@pytest.fixture
async def runtime(tmp_path: Path, plugin: Plugin, place: StoreConfig) -> AsyncIterator[Runtime]:
    """A runtime in which both users have left something everywhere."""
    config = Config(
        store=place,
        audit=AuditConfig(path=tmp_path / "audit"),
        output=OutputConfig(max_bytes=1000),
        limits=LimitsConfig(backend="sqlite"),
        secrets=SecretsConfig(stores=("safe",)),
        budget=BudgetConfig(user=Budget(money=Decimal(5)), session=Budget(calls=50)),
    )
    long_tool = tool(long, effects=(), approval="unless_auto_approved", rate_limit=None)
    async with Runtime(
        config,
        plugins={"acme": plugin},
        tools=[long_tool],
        approver=lambda request, context: Decision("session", by="person"),
    ) as made:
        for user in ("ana", "bob"):
            await made.services.secrets.set(user, "key", "synthetic-value/1")
            outcome = await made.run("long", {}, JobContext(user_id=user, session_id="s1"))
            assert outcome.result_ref is not None
            diary = made.services.store("diary", TABLES)
            diary.execute("INSERT INTO diary_lines VALUES (?, ?, ?)", (user, "dear", b"\x00\xff"))
        yield made


async def everything(runtime: Runtime, user: str) -> list[dict[str, Any]]:
    return [record async for record in export(runtime.services, user)]


async def test_all_of_a_user_is_given_out_as_json_and_no_secret_value(runtime: Runtime) -> None:
    records = await everything(runtime, "ana")
    kinds = {record["kind"] for record in records}
    text = "\n".join(json.dumps(record) for record in records)

    assert kinds >= {
        "approvals_grants", "audit", "budgets_accounts", "diary_lines", "note", "result", "secret",
    }  # fmt: skip
    assert "synthetic-value" not in text
    assert "bob" not in text
    [result] = [record for record in records if record["kind"] == "result"]
    assert result["content"] == "word " * 1000
    [line] = [record for record in records if record["kind"] == "diary_lines"]
    assert line["picture"] == "AP8="
    assert {r["record"] for r in records if r["kind"] == "audit"} == {"decided", "finished"}


async def test_all_of_a_user_but_the_audit_is_deleted_and_nothing_of_others(
    runtime: Runtime, plugin: Plugin
) -> None:
    before = await everything(runtime, "bob")

    counts = await delete(runtime.services, "ana")

    left = await everything(runtime, "ana")
    assert {record["kind"] for record in left} == {"audit"}
    assert await everything(runtime, "bob") == before
    assert plugin.notes.kept == {"bob": ["bob's"]}
    assert counts["diary_lines"] == counts["results"] == counts["secrets"] == counts["Notes"] == 1
    assert await delete(runtime.services, "ana") == {}


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_the_words_of_a_deleted_user_are_not_left_in_the_file(
    runtime: Runtime, tmp_path: Path
) -> None:
    diary = runtime.services.store("diary", TABLES)
    diary.execute("INSERT INTO diary_lines VALUES ('ana', 'unforgettable', NULL)")

    await delete(runtime.services, "ana")
    with diary.store.transaction(write=False):
        pass
    import sqlite3

    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    assert b"unforgettable" not in (tmp_path / "state.db").read_bytes()


# the command line ------------------------------------------------------------------------------


@pytest.fixture
def operator(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = home / "config" / "operator-token"
    token.parent.mkdir(parents=True)
    token.write_text("let-me")
    token.chmod(0o600)
    monkeypatch.setenv("HARDPOINT_OPERATOR_TOKEN", "let-me")
    monkeypatch.setenv("HARDPOINT_LOAD_PLUGINS", "builtin")


@pytest.mark.parametrize("command", [["export", "ana"], ["delete", "ana", "--yes"], ["prune"]])
def test_only_an_operator_reads_or_deletes_what_is_kept(home: Path, command: list[str]) -> None:
    assert run(["data", *command]) == 3


@pytest.mark.usefixtures("operator")
def test_a_user_is_exported_to_a_private_file_and_deleted(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["call", "echo", "message=hi", "--user", "ana"]) == 0
    capsys.readouterr()

    assert run(["data", "export", "ana", "--output", "ana.jsonl"]) == 0
    records = [json.loads(line) for line in Path("ana.jsonl").read_text().splitlines()]
    assert {record["kind"] for record in records} >= {"audit"}
    assert Path("ana.jsonl").stat().st_mode & 0o077 == 0

    assert run(["data", "delete", "ana", "--yes", "--json"]) == 0
    assert run(["data", "delete", "ana", "--yes"]) == 0
    assert "nothing is kept about ana" in capsys.readouterr().out


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("said", ["", "n\n"])
def test_without_a_yes_nothing_is_deleted(
    home: Path, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["call", "memory_write", "content=hi", "target=memory", "--user", "ana"]) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(said))

    assert run(["data", "delete", "ana"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert run(["call", "memory_read", "path=MEMORY.md", "--user", "ana"]) == 0
    assert "hi" in capsys.readouterr().out


@pytest.mark.usefixtures("operator")
def test_an_export_never_replaces_a_file(home: Path) -> None:
    Path("ana.jsonl").write_text("mine")

    assert run(["data", "export", "ana", "--output", "ana.jsonl"]) != 0
    assert Path("ana.jsonl").read_text() == "mine"


@pytest.mark.usefixtures("operator")
def test_pruning_deletes_what_is_past_its_time(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["call", "echo", "message=hi"]) == 0
    capsys.readouterr()

    assert run(["data", "prune", "--audit-days", "30"]) == 0
    assert "nothing is past its time" in capsys.readouterr().out
