"""Write calls down: the audit's `decided` and `finished` records, and what a session has read."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hardpoint.calls import CallOutcome
from hardpoint.context import JobContext
from hardpoint.interfaces import AuditSink
from hardpoint.tools import strictest

if TYPE_CHECKING:
    from hardpoint._call import Call
    from hardpoint.store import Store

logger = logging.getLogger(__name__)

HARMLESS = frozenset(("read",))


class Recorder:
    """Turns calls into audit records."""

    def __init__(self, audit: Any, sinks: Sequence[AuditSink] = ()) -> None:
        self.audit = audit
        """The audit log; None when auditing is switched off."""
        self._sinks = sinks

    def decided(self, call: Call) -> None:
        """Write what was decided about a call. An exception here denies it."""
        if self.audit is None and not self._sinks:
            return
        error = call.error
        context = call.context
        record: dict[str, Any] = {
            "call_id": call.id,
            "tool": call.request.tool,
            "user": context.user_id,
            "session": context.session_id,
            "project": context.project,
            "origin": call.core.origin if context.handle is None else "tool",
            "parent": None if context.handle is None else context.handle.call_id,
            "mode": context.mode,
            "decision": _decision(call),
            "policy": call.judged,
            "requirement": strictest((call.requirement, call.verdict.requirement)).value,
            "reasons": [reason.to_json() for reason in call.verdict.reasons],
            "params": call.redacted.params,
            "subjects": [
                {"kind": s.kind, "value": s.value, "operation": s.operation} for s in call.subjects
            ],
            "effects": sorted(call.effects),
        }
        if call.plan is not None:
            record["domain"] = call.plan.domain_name
            record["owner"] = call.plan.entry.owner
        if call.digest is not None:
            record["digest"] = call.digest
        if error is not None:
            record["error"] = {"kind": error.kind, "message": error.message}
        self._write("decided", record, batch=HARMLESS.issuperset(call.effects))

    def finished(self, call: Call, outcome: CallOutcome) -> None:
        """Write how a call ended. A failure here cannot undo the call; it is logged."""
        if self.audit is None and not self._sinks:
            return
        record: dict[str, Any] = {
            "call_id": call.id,
            "tool": call.request.tool,
            "ok": outcome.ok,
            "duration_ms": round(outcome.duration.total_seconds() * 1000, 3),
            "provenance": outcome.provenance,
            "truncated": outcome.truncated,
        }
        if outcome.output is not None and outcome.output.cost is not None:
            record["cost"] = str(outcome.output.cost)
        if outcome.error is not None:
            record["error"] = {"kind": outcome.error.kind, "message": outcome.error.message}
        try:
            self._write("finished", record, batch=HARMLESS.issuperset(call.effects))
        except Exception:  # the call has happened; its outcome is what counts now
            logger.exception("the end of call %s could not be recorded", call.id)

    def cancelled(self, call: Call, error: BaseException) -> None:
        record = {"call_id": call.id, "tool": call.request.tool, "error": type(error).__name__}
        try:
            self._write("cancelled", record, batch=False)
        except Exception:  # the cancellation must go on
            logger.exception("the cancellation of call %s could not be recorded", call.id)

    def _write(self, kind: str, record: Mapping[str, Any], *, batch: bool) -> None:
        if self.audit is not None:
            self.audit.write(kind, record, batch=batch)
        for sink in self._sinks:
            try:
                sink.write({"kind": kind, **record})
            except Exception:  # a sink is foreign code and has no say
                logger.exception("audit sink %s failed", type(sink).__name__)


def _decision(call: Call) -> str:
    if call.error is None:
        return call.verdict.decision
    return {"not_authorized": "deny", "approval_required": "ask"}.get(call.error.kind, "refused")


class Labels:
    """Which provenances each session has read, where rules depend on it; shared through the store."""

    def __init__(self, store: Store, *, active: bool = True) -> None:
        """Keep labels.

        Args:
            store: Where they survive the process.
            active: Whether anything asks for them; otherwise nothing is kept.
        """
        self._active = active
        self._tables = store.namespace("labels", _LABELS)
        self._seen: dict[tuple[str, str], set[str]] = {}

    def seen(self, context: JobContext) -> Collection[str]:
        """What a session has read so far, in any process."""
        if not self._active:
            return ()
        rows = self._tables.query(
            "SELECT label FROM labels_seen WHERE user_id = ? AND session_id = ?",
            (context.user_id, context.session_id),
        )
        return frozenset(row["label"] for row in rows)

    def add(self, context: JobContext, outcome: CallOutcome) -> None:
        """Remember the provenance of an outcome that was given out."""
        if not self._active or not outcome.ok or outcome.provenance == "trusted":
            return
        known = self._seen.setdefault((context.user_id, context.session_id), set())
        if outcome.provenance in known:
            return
        self._tables.execute(
            "INSERT INTO labels_seen (user_id, session_id, label) VALUES (?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (context.user_id, context.session_id, outcome.provenance),
        )
        known.add(outcome.provenance)


_LABELS: Final = (
    """CREATE TABLE labels_seen (
        user_id TEXT NOT NULL, session_id TEXT NOT NULL, label TEXT NOT NULL,
        PRIMARY KEY (user_id, session_id, label)
    )""",
)
