"""Write calls down: the audit's `decided` and `finished` records, and what a session has read."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hardpoint.calls import CallOutcome
from hardpoint.context import JobContext
from hardpoint.interfaces import AuditSink

if TYPE_CHECKING:
    from hardpoint._call import Call

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
            "requirement": call.requirement.value,
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
    """Which provenances each session has read, so that rules can depend on it."""

    def __init__(self, store: Any = None) -> None:
        self._seen: dict[tuple[str, str], set[str]] = {}
        self._store = store

    def seen(self, context: JobContext) -> Collection[str]:
        return self._seen.get((context.user_id, context.session_id), ())

    def add(self, context: JobContext, outcome: CallOutcome) -> None:
        if not outcome.ok or outcome.provenance == "trusted":
            return
        key = (context.user_id, context.session_id)
        known = self._seen.get(key)
        if known is None:
            self._seen[key] = {outcome.provenance}
        else:
            known.add(outcome.provenance)
