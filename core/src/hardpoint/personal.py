"""Everything that is kept about one user: give it out, delete it.

A table that holds a user's rows has a column `user_id`, so no table can be forgotten here, whoever
made it. What an extension keeps elsewhere it gives out and deletes itself, with the coroutine
methods `export(user_id)` and `forget(user_id)`. Secrets are named, never shown. The audit is given
out but not rewritten, as its chain would break; its files go by age.
"""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from hardpoint.errors import HardpointError
from hardpoint.registrars import EXTENSION_KINDS
from hardpoint.store import Row, Store, Transaction

_TABLES: Final = {
    "sqlite": "SELECT m.name AS name FROM sqlite_master AS m, pragma_table_info(m.name) AS p"
    " WHERE m.type = 'table' AND p.name = 'user_id' ORDER BY m.name",
    "postgresql": "SELECT table_name AS name FROM information_schema.columns"
    " WHERE table_schema = current_schema() AND column_name = 'user_id' ORDER BY table_name",
}


async def export(services: Any, user: str) -> AsyncIterator[dict[str, Any]]:
    """Every record about a user, each with its `kind`."""
    store = _store(services)
    for record in await _in_thread(lambda: list(_rows(store, user))):
        yield record
    for name in await services.secrets.names(user):
        yield {"kind": "secret", "name": name}
    for kept in await services.results.owned(user=user):
        yield await _result(services.results, kept.ref, user)
    for value in _extensions(services):
        give = getattr(value, "export", None)
        if inspect.iscoroutinefunction(give):
            for record in await give(user):
                yield dict(record)
    if services.audit is not None:
        services.audit.flush()
        for record in _audited(services.audit.folder, user):
            yield record


async def delete(services: Any, user: str) -> Mapping[str, int]:
    """Delete everything about a user but the audit; how much there was, by where it was.

    Raises:
        HardpointError: Nothing of the store was deleted; what stands elsewhere may be.
    """
    counts: dict[str, int] = {}
    for value in _extensions(services):
        forget = getattr(value, "forget", None)
        if inspect.iscoroutinefunction(forget):
            counts[type(value).__name__] = await forget(user)
    counts["results"] = await services.results.delete(user=user)
    names = await services.secrets.names(user)
    counts["secrets"] = sum([await services.secrets.delete(user, name) for name in names])
    counts |= await _in_thread(lambda: _delete_rows(_store(services), user))
    return {place: count for place, count in counts.items() if count}


# the store -------------------------------------------------------------------------------------


def _rows(store: Store, user: str) -> Iterator[dict[str, Any]]:
    with store.transaction(write=False) as transaction:
        for table in _tables(store, transaction):
            for row in transaction.query(f"SELECT * FROM {table} WHERE user_id = ?", (user,)):  # noqa: S608
                yield {"kind": table, **_plain(row)}
        for row in _accounts(store, transaction, user):
            yield {"kind": "budgets_accounts", **_plain(row)}


def _delete_rows(store: Store, user: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    with store.transaction(durable=True) as transaction:
        if store.dialect == "sqlite":
            transaction.query("PRAGMA secure_delete = ON")  # deleted is overwritten, not unlinked
        for table in _tables(store, transaction):
            counts[table] = transaction.execute(f"DELETE FROM {table} WHERE user_id = ?", (user,))  # noqa: S608
        for row in _accounts(store, transaction, user):
            counts["budgets_accounts"] = counts.get("budgets_accounts", 0) + transaction.execute(
                "DELETE FROM budgets_accounts WHERE account = ? AND dimension = ?",
                (row["account"], row["dimension"]),
            )
    return counts


def _tables(store: Store, transaction: Transaction) -> list[str]:
    return [row["name"] for row in transaction.query(_TABLES[store.dialect])]


def _accounts(store: Store, transaction: Transaction, user: str) -> list[Row]:
    """The budget accounts of a user, who stands in their names."""
    there = {
        "sqlite": "SELECT name FROM sqlite_master WHERE name = 'budgets_accounts'",
        "postgresql": "SELECT table_name AS name FROM information_schema.tables"
        " WHERE table_schema = current_schema() AND table_name = 'budgets_accounts'",
    }
    if not transaction.query(there[store.dialect]):
        return []
    rows = transaction.query("SELECT account, dimension, used, reserved FROM budgets_accounts")
    return [row for row in rows if _owner(row["account"]) == user]


def _owner(account: str) -> str | None:
    _, found, owner = account.partition("[")
    return None if not found else str(json.loads(found + owner)[0])


def _plain(row: Row) -> dict[str, Any]:
    return {
        key: base64.b64encode(bytes(value)).decode()
        if isinstance(value, bytes | bytearray | memoryview)
        else value
        for key, value in row.items()
    }


# beside the store ------------------------------------------------------------------------------


async def _result(results: Any, ref: str, user: str) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": "result", "result_ref": ref}
    offset: int | None = 0
    pieces: list[str] = []
    while offset is not None:
        try:
            page = await results.read(ref, offset, 1_000_000, user=user)
        except HardpointError as error:  # it went while we read
            return {**record, "error": error.message}
        if "base64" in page:
            pieces.append(page["base64"])
            record["encoding"] = "base64"
        else:
            pieces.append(page["text"])
        offset = page["next_offset"]
    joined: Any = "".join(pieces) if "encoding" not in record else pieces
    return {**record, "name": page.get("name"), "content": joined}


def _audited(folder: Any, user: str) -> Iterator[dict[str, Any]]:
    from hardpoint.audit import read

    calls: set[str] = set()
    for record in read(folder):
        if record.get("user") == user:
            calls.add(str(record.get("call_id")))
        elif record.get("user") is not None or str(record.get("call_id")) not in calls:
            continue
        yield {"record": record["kind"], **record, "kind": "audit"}


def _extensions(services: Any) -> Iterator[Any]:
    for kind in EXTENSION_KINDS:
        yield from services.extensions(kind).values()


def _store(services: Any) -> Store:
    store: Store = services.store("personal").store
    return store


async def _in_thread(function: Any) -> Any:
    import asyncio

    return await asyncio.to_thread(function)
