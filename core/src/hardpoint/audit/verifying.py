"""Check every audit file against its chain, and all of them against the index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from hardpoint.audit import chain
from hardpoint.audit.index import AuditFile, Index


@attrs.frozen
class AuditBreak:
    """The first thing wrong with one file."""

    file: str
    record: int
    """The number of the line, from 1; 0 for the file as a whole."""
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}, record {self.record}" if self.record else self.file
        return f"{place} {self.reason}"


@attrs.frozen
class AuditReport:
    """What `verify` found."""

    files: int
    records: int
    breaks: tuple[AuditBreak, ...]
    notes: tuple[str, ...] = ()
    """What is unusual and no break: a process that ended in the middle of a record."""

    @property
    def ok(self) -> bool:
        return not self.breaks


def verify(folder: Path) -> AuditReport:
    """Read all of a folder's records and say where the first break of each file is.

    Notices records that were changed, removed, added or reordered, files that were cut short,
    removed or put there, and an index that was removed.
    """
    folder = Path(folder)
    paths = {path.name: path for path in sorted(folder.glob("*.jsonl"))}
    if not (folder / "index.db").exists():
        missing = AuditBreak("index.db", 0, "is missing, so a removed file would not be noticed")
        known: dict[str, AuditFile] = {}
        breaks = [missing] if paths else []
    else:
        index = Index(folder)
        known = {file.name: file for file in index.files()}
        index.close()
        breaks = []
    notes: list[str] = []
    heads: dict[str, str] = {}
    records = 0
    for name, path in paths.items():
        count, found = _verify_file(path, known.get(name), heads, notes)
        records += count
        if found is None and known and name not in known:
            found = AuditBreak(name, 0, "is not in the index; it was put there, or the index back")
        if found is not None:
            breaks.append(found)
    for file in known.values():
        if file.name not in paths and file.pruned is None and file.records:
            breaks.append(
                AuditBreak(file.name, 0, f"is missing; it held at least {file.records} records")
            )
    return AuditReport(len(paths), records, tuple(breaks), tuple(notes))


def _verify_file(
    path: Path, known: AuditFile | None, heads: dict[str, str], notes: list[str]
) -> tuple[int, AuditBreak | None]:
    """The number of good records, and the first break."""
    count, previous = 0, chain.START
    for data in _lines(path):
        number = count + 1
        if not data.endswith(b"\n") and not (known and known.closed):
            notes.append(f"{path.name} ends in a half record: its process was killed")
            break
        try:
            line = chain.unseal(data)
        except ValueError as error:
            return count, AuditBreak(path.name, number, str(error))
        after = line.record.get("after") if number == 1 else None
        expected = heads.get(str(after), line.record.get("prev")) if after else previous
        if line.number != number or line.record.get("prev") != expected:
            reason = f"does not follow record {count}: something was removed, added or moved"
            return count, AuditBreak(path.name, number, reason)
        count, previous = number, line.hash
        if known is not None and number == known.records and line.hash != known.head:
            return count, AuditBreak(path.name, number, "is not what the index knows it to be")
    heads[path.name] = previous
    if known is not None and count < known.records:
        reason = f"is missing: the file was cut short, the index knows {known.records} records"
        return count, AuditBreak(path.name, count + 1, reason)
    if known is not None and known.closed and count > known.records:
        return count, AuditBreak(path.name, known.records + 1, "was added after the end")
    return count, None


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file
