"""Write audit records: one chained file for each writing process, rotated by size.

Records of calls with effects are in the file before the call runs. Records of calls without effects
may wait in a batch for a second; a killed process loses those, and nothing else.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from hardpoint.audit import chain
from hardpoint.audit.index import Index
from hardpoint.audit.recovery import close_left_over, lock
from hardpoint.errors import HardpointError
from hardpoint.redaction import redact_sensitive_json
from hardpoint.store import StoreError
from hardpoint.store.private import make_private_folder, open_private

logger = logging.getLogger(__name__)

BATCH_RECORDS = 64
BATCH_SECONDS = 1.0
INDEX_RECORDS = 256
INDEX_SECONDS = 5.0

_RESERVED = frozenset(("seq", "at", "kind", "prev", "hash"))
_NESTED = frozenset((dict, list, tuple))


_process = object()
"""This process, until it forks; quicker to compare than its number."""


def _now_another() -> None:
    global _process
    _process = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_now_another)


class AuditError(HardpointError):
    """A record could not be written; the call that it is about must not run."""


class Scanner(Protocol):
    """The part of the leak scanner that records go through."""

    def scan(self, text: str) -> Any: ...

    def redact_value(self, value: Any) -> tuple[Any, Any]: ...


class AuditLog:
    """Writes records into a folder. Safe to use from threads and on both sides of a fork.

    Example:
        log = AuditLog(folder)
        log.write("decided", {"tool": "http", "decision": "allow"}, batch=False)
        log.close()
    """

    def __init__(
        self,
        folder: Path,
        *,
        fsync: bool = False,
        max_bytes: int = 50_000_000,
        clock: Callable[[], float] = time.time,
        scanner: Scanner | None = None,
    ) -> None:
        """Describe a log; nothing is opened before the first record.

        Args:
            folder: Where the files and their index are; made when it is missing.
            fsync: Wait for the disk with every record that is not batched, so that it also
                survives the loss of power.
            max_bytes: A file that has grown to this size is closed and followed by another.
            clock: Gives unix time.
            scanner: Replaces secrets in records. May be set later, as `log.scanner`.
        """
        self.folder = Path(folder)
        self.scanner = scanner
        self._fsync = fsync
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._timer: threading.Timer | None = None
        self._failure: AuditError | None = None
        self._sequence = 0
        self._head = chain.START
        self._reset()
        atexit.register(_close, weakref.ref(self))

    def record(self, kind: str, **fields: Any) -> None:
        """`write` with the fields as arguments, not batched."""
        self.write(kind, fields)

    def write(self, kind: str, fields: Mapping[str, Any], *, batch: bool = False) -> None:
        """Write one record.

        Args:
            kind: What happened: `decided`, `finished`, `secret_revealed` …
            fields: JSON values. What is nested is redacted by its keys, all of it by the scanner.
            batch: The record may wait up to a second for others.

        Raises:
            AuditError: It could not be written, or an earlier batch could not.
        """
        self.append(kind, self.encoded(fields), batch=batch)

    def append(self, kind: str, text: str, *, batch: bool = False) -> None:
        """Write one record from the JSON that `encoded` made of its fields.

        Raises:
            AuditError: As for `write`.
        """
        if self._process is not _process:
            self._after_fork()
        with self._lock:
            if self._failure is not None:
                self._flush(sync=self._fsync)  # what an earlier failure left over
            now = self._clock()
            if self._descriptor < 0:
                self._open(now)
            elif self._size >= self._max_bytes:
                self._rotate(now)
            before = self._sequence, self._head
            self._append(kind, text, now)
            if batch and len(self._buffer) < BATCH_RECORDS:
                if self._timer is None:
                    self._start_timer()
                return
            try:
                self._flush(sync=self._fsync and not batch)
            except AuditError:
                # The call is refused now, so this record must not be written later.
                self._sequence, self._head = before
                self._buffer.pop()
                raise

    def flush(self) -> None:
        """Write what waits in the batch.

        Raises:
            AuditError: It could not be written.
        """
        with self._lock:
            if self._process is _process and self._descriptor >= 0:
                self._flush(sync=self._fsync)
                self._note(closed=False)

    def close(self) -> None:
        """Write what waits and seal the file; a later record begins another one."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._process is _process and self._descriptor >= 0:
                try:
                    self._flush(sync=self._fsync)
                    self._note(closed=True)
                finally:
                    os.close(self._descriptor)
                    self._reset()
            if self._index is not None and self._process is _process:
                self._index.close()
                self._index = None

    # under the lock ----------------------------------------------------------------------------

    def encoded(self, fields: Mapping[str, Any]) -> str:
        """Fields as the JSON of a record: redacted, and without anything that looks like a secret.

        Raises:
            AuditError: They are not JSON, or are named like something that a record sets itself.
        """
        if not _RESERVED.isdisjoint(fields):
            taken = ", ".join(sorted(_RESERVED.intersection(fields)))
            raise AuditError(f"an audit record sets {taken} itself; name these fields otherwise")
        try:
            # The names of a record's own fields are ours; what is nested came from elsewhere.
            clean = dict(fields)
            for name, value in fields.items():
                if type(value) in _NESTED:
                    clean[name] = redact_sensitive_json(value)
            text = chain.encode(clean)
            if self.scanner is not None and self.scanner.scan(text):
                text = chain.encode(self.scanner.redact_value(clean)[0])
        except (TypeError, ValueError, RecursionError) as error:
            raise AuditError(f"the audit record cannot be written as JSON: {error}") from error
        return text

    def _append(self, kind: str, text: str, now: float) -> None:
        self._sequence += 1
        head = f'{{"seq":{self._sequence},"at":"{_utc(now)}","kind":{_quoted(kind)}}}'
        line, self._head = chain.seal(head, text, self._head)
        self._buffer.append(line)
        self._last_at = now

    def _flush(self, *, sync: bool) -> None:
        if not self._buffer:
            return
        data = b"".join(self._buffer)
        try:
            written = os.write(self._descriptor, data)
            if written != len(data):
                raise OSError(28, "no space left for a whole record")
            if sync:
                os.fsync(self._descriptor)
        except OSError as error:
            # Only this process writes the file, so a half record can be taken back.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            self._failure = AuditError(
                f"the audit file {str(self._path)!r} cannot be written: {error.strerror}",
                hint="make room or correct the permissions; no call runs unrecorded meanwhile",
            )
            raise self._failure from error
        self._failure = None
        self._size += written
        self._buffer.clear()
        unnoted = self._sequence - self._noted
        if unnoted >= INDEX_RECORDS or self._last_at - self._noted_at >= INDEX_SECONDS:
            self._note(closed=False)

    def _note(self, *, closed: bool) -> None:
        """Tell the index how far the file reaches."""
        if self._index is None:
            return
        try:
            self._index.reached(
                self._path.name, self._sequence, self._head, self._last_at, closed=closed
            )
        except StoreError as error:
            # The file itself is whole; the index learns it with the next note.
            logger.warning("the audit index could not be updated: %s", error)
            return
        self._noted, self._noted_at = self._sequence, self._last_at

    def _open(self, now: float, *, after: str | None = None) -> None:
        try:
            if self._index is None:
                make_private_folder(self.folder)
                self._index = Index(self.folder)
                close_left_over(self.folder, self._index)
            stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S%f")
            name = f"audit-{stamp}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
            path = self.folder / name
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
            # The index first: a file that it does not know is taken for one that was put there.
            self._index.add(name, now)
            descriptor = open_private(path, flags)
            lock(descriptor)
        except (OSError, HardpointError) as error:
            raise AuditError(
                f"no audit file can be opened in {str(self.folder)!r}: {error}",
                hint="correct the permissions or set [audit] path to another folder",
            ) from error
        self._path, self._descriptor, self._size = path, descriptor, 0
        self._sequence, self._noted, self._noted_at = 0, 0, now
        opened = {"file": name, "pid": os.getpid()} | ({"after": after} if after else {})
        self._append("opened", chain.encode(opened), now)

    def _rotate(self, now: float) -> None:
        self._flush(sync=True)
        self._note(closed=True)
        os.close(self._descriptor)
        self._descriptor = -1
        self._open(now, after=self._path.name)

    def _after_fork(self) -> None:
        """What the parent process opened and has not written yet is the parent's."""
        self._lock = threading.Lock()
        self._index = None
        self._timer = None
        self._failure = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._reset()

    def _reset(self) -> None:
        self._process = _process
        self._path = self.folder
        self._descriptor = -1
        self._size = 0
        self._sequence = 0
        self._head = chain.START
        self._buffer: list[bytes] = []
        self._last_at = 0.0
        self._noted = 0
        self._noted_at = 0.0

    def _start_timer(self) -> None:
        self._timer = threading.Timer(BATCH_SECONDS, self._flush_later)
        self._timer.daemon = True
        self._timer.start()

    def _flush_later(self) -> None:
        with self._lock:
            self._timer = None
            if self._process is _process and self._descriptor >= 0:
                # Kept in `_failure`: the next record tries again and is refused with the reason.
                with contextlib.suppress(AuditError):
                    self._flush(sync=self._fsync)


def _utc(now: float) -> str:
    """A time as text, to the microsecond."""
    second, fraction = divmod(round(now * 1e6), 1_000_000)
    return f"{_whole_second(second)}.{fraction:06}Z"


_quoted = lru_cache(maxsize=64)(chain.encode)


@lru_cache(maxsize=2)
def _whole_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _close(reference: weakref.ref[AuditLog]) -> None:
    log = reference()
    if log is not None:
        try:
            log.close()
        except AuditError as error:
            logger.error("%s", error)
