"""Answer questions about what happened, from the records of every process."""

from __future__ import annotations

import heapq
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from hardpoint.audit.index import Index

Record = dict[str, Any]


def read(
    folder: Path,
    *,
    since: float | None = None,
    until: float | None = None,
    **fields: Any,
) -> Iterator[Record]:
    """The records in the order of their time.

    Args:
        folder: The audit folder.
        since: Unix time of the earliest record.
        until: Unix time before which records end.
        fields: Only records that have these values, for example `kind="decided", tool="http"`.
    """
    earliest = _stamp(since) if since is not None else ""
    latest = _stamp(until) if until is not None else "~"
    files = (_read_file(path) for path in _files(Path(folder), since, until))
    for record in heapq.merge(*files, key=lambda record: str(record["at"])):
        if earliest <= record["at"] < latest and _fits(record, fields):
            yield record


def show(folder: Path, call_id: str) -> list[Record]:
    """Every record of one call."""
    return list(read(folder, call_id=call_id))


@attrs.frozen
class Stats:
    """How often what happened."""

    records: int
    calls: int
    tools: Mapping[str, int]
    decisions: Mapping[str, int]
    errors: Mapping[str, int]
    users: Mapping[str, int]
    first: str | None = None
    last: str | None = None


def stats(folder: Path, *, since: float | None = None, until: float | None = None) -> Stats:
    """Count the records of a span of time; calls by their `decided` records."""
    tools: Counter[str] = Counter()
    decisions: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    users: Counter[str] = Counter()
    count, first, last = 0, None, None
    for record in read(folder, since=since, until=until):
        count += 1
        first, last = first or record["at"], record["at"]
        if record["kind"] == "decided":
            tools[str(record.get("tool"))] += 1
            decisions[str(record.get("decision"))] += 1
            users[str(record.get("user"))] += 1
        error = record.get("error")
        if record["kind"] == "finished" and isinstance(error, Mapping):
            errors[str(error.get("kind"))] += 1
    return Stats(count, tools.total(), tools, decisions, errors, users, first, last)


def prune(folder: Path, *, before: float, now: float | None = None) -> int:
    """Delete closed files that ended before a time, and remember that it was on purpose.

    Returns:
        How many were deleted.
    """
    folder = Path(folder)
    if not (folder / "index.db").exists():
        return 0
    index = Index(folder)
    try:
        old = [
            file
            for file in index.files()
            if file.closed and file.pruned is None and file.ended < before
        ]
        for file in old:
            index.mark_pruned(file.name, time.time() if now is None else now)
            (folder / file.name).unlink(missing_ok=True)
        return len(old)
    finally:
        index.close()


def _files(folder: Path, since: float | None, until: float | None) -> list[Path]:
    """The files that may hold records of a span of time."""
    skipped: set[str] = set()
    if (since is not None or until is not None) and (folder / "index.db").exists():
        index = Index(folder)
        for file in index.files():
            too_old = since is not None and file.closed and file.ended < since
            too_new = until is not None and file.started >= until
            if too_old or too_new:
                skipped.add(file.name)
        index.close()
    return [path for path in sorted(folder.glob("*.jsonl")) if path.name not in skipped]


def _read_file(path: Path) -> Iterator[Record]:
    with path.open("rb") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue  # a half or damaged line; `verify` names it
            if isinstance(record, dict) and isinstance(record.get("at"), str):
                yield record


def _fits(record: Record, fields: Mapping[str, Any]) -> bool:
    return all(record.get(name) == value for name, value in fields.items())


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
