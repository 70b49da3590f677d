"""Where records go, and what each session has read. What records say of a call is in `_facts`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import attrs

from hardpoint.calls import CallOutcome
from hardpoint.context import JobContext
from hardpoint.interfaces import AuditSink
from hardpoint.store import Store, StoreError

logger = logging.getLogger(__name__)


class Shared:
    """Facts that many records have in common. They are written as JSON once."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields
        self._encoded: str | None = None

    def encoded_by(self, audit: Any) -> str:
        if self._encoded is None:
            self._encoded = audit.encoded(self.fields)
        return self._encoded


@attrs.frozen
class Fact:
    """What one record says."""

    kind: str
    own: Mapping[str, Any]
    may_wait: bool = False
    """Whether the record may be written together with later ones."""
    shared: Shared | None = None

    def to_json(self) -> dict[str, Any]:
        shared = {} if self.shared is None else self.shared.fields
        return {"kind": self.kind, **shared, **self.own}


class Recorder:
    """Hands records to the audit and to the sinks of plugins."""

    def __init__(self, audit: Any, sinks: Sequence[AuditSink] = ()) -> None:
        self.audit = audit
        """The audit log; None when auditing is switched off."""
        self._sinks = sinks
        self.is_idle = audit is None and not sinks
        """Whether nobody reads records, so that none need be made."""

    def write(self, fact: Fact) -> None:
        """Write one record; it is in the file when this returns, unless it may wait in a batch.

        Raises:
            AuditError: It cannot be written.
        """
        if self.audit is not None:
            text = self.audit.encoded(fact.own)
            if fact.shared is not None:
                text = f"{fact.shared.encoded_by(self.audit)[:-1]},{text[1:]}"
            self.audit.append(fact.kind, text, batch=fact.may_wait)
        for sink in self._sinks:
            try:
                sink.write(fact.to_json())
            except Exception:  # a sink is foreign code and has no say
                logger.exception("audit sink %s failed", type(sink).__name__)

    def write_if_possible(self, fact: Fact) -> None:
        """Write a record of what has happened already; a failure is logged."""
        try:
            self.write(fact)
        except Exception:  # nothing can be undone any more
            logger.exception("a record of kind %s could not be written", fact.kind)


class Labels:
    """Which provenances each session has read, kept where rules depend on it."""

    def __init__(self, store: Store, *, active: bool = True) -> None:
        """Keep labels.

        Args:
            store: Where they survive the process.
            active: Whether anything asks for them; otherwise nothing is kept.
        """
        self._active = active
        self._tables = store.namespace("labels", _LABELS)
        self._added: dict[tuple[str, str], set[str]] = {}
        """What this process has seen itself; it holds also where the store failed."""

    def seen(self, context: JobContext) -> Collection[str]:
        """What a session has read so far, in any process."""
        if not self._active:
            return ()
        rows = self._tables.query(
            "SELECT label FROM labels_seen WHERE user_id = ? AND session_id = ?",
            (context.user_id, context.session_id),
        )
        added = self._added.get((context.user_id, context.session_id), ())
        return frozenset((*(row["label"] for row in rows), *added))

    def add(self, context: JobContext, outcome: CallOutcome) -> None:
        """Remember the provenance of what a call gave out; errors and partial output count too."""
        label = outcome.provenance
        if not self._active or label == "trusted":
            return
        session = (context.user_id, context.session_id)
        added = self._added.setdefault(session, set())
        if label in added:
            return
        added.add(label)
        try:
            self._tables.execute(
                "INSERT INTO labels_seen (user_id, session_id, label) VALUES (?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (*session, label),
            )
        except StoreError:  # this process at least remembers
            logger.exception("that session %s has read %s content is not kept", session[1], label)


_LABELS: Final = (
    """CREATE TABLE labels_seen (
        user_id TEXT NOT NULL, session_id TEXT NOT NULL, label TEXT NOT NULL,
        PRIMARY KEY (user_id, session_id, label)
    )""",
)
