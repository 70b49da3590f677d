"""Remember answers: single-use grants by digest, patterns for a session or for good, pending requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal

import attrs

from hardpoint.context import JobContext
from hardpoint.errors import HardpointError
from hardpoint.interfaces import ApprovalRequest, Clock
from hardpoint.store import Store

VALID_SECONDS: Final = 3600.0
# A grant given in a mode counts in that mode and in more permissive ones only.
_STRICTNESS: Final = {"auto": 0, "default": 1, "locked": 2, "plan": 3}

_MIGRATIONS: Final = (
    """CREATE TABLE approvals_pending (
        id TEXT NOT NULL PRIMARY KEY, digest TEXT NOT NULL, user_id TEXT NOT NULL,
        session_id TEXT NOT NULL, tool TEXT NOT NULL, request TEXT NOT NULL,
        created REAL NOT NULL, state TEXT NOT NULL, answered_by TEXT, message TEXT,
        answered REAL
    )""",
    "CREATE INDEX approvals_pending_digest ON approvals_pending (digest, state)",
    """CREATE TABLE approvals_grants (
        id TEXT NOT NULL PRIMARY KEY, scope TEXT NOT NULL, user_id TEXT NOT NULL,
        session_id TEXT, project TEXT NOT NULL, tool TEXT NOT NULL, definition TEXT NOT NULL,
        pattern TEXT NOT NULL, mode TEXT NOT NULL, created REAL NOT NULL
    )""",
    "CREATE INDEX approvals_grants_tool ON approvals_grants (user_id, tool)",
)


@attrs.frozen
class PendingApproval:
    """A request that waits for an answer, or has one that was not used yet."""

    id: str
    tool: str
    user_id: str
    session_id: str
    state: Literal["pending", "approved", "denied", "used"]
    request: dict[str, Any]
    created: float
    answered_by: str | None = None
    message: str | None = None


@attrs.frozen
class Grant:
    """An answer that is remembered."""

    id: str
    scope: Literal["session", "always"]
    user_id: str
    session_id: str | None
    project: str
    tool: str
    pattern: str
    mode: str
    created: float


class StoredGrants:
    """Grants and pending requests in the store, shared by all processes on it."""

    def __init__(self, store: Store, clock: Clock, *, valid_seconds: float = VALID_SECONDS) -> None:
        self._tables = store.namespace("approvals", _MIGRATIONS, durable=True)
        self._clock = clock
        self._valid = valid_seconds

    # patterns ----------------------------------------------------------------------------------

    def covers(
        self, tool: str, definition_hash: str, pattern: str, mode: str, context: JobContext
    ) -> bool:
        """Whether an earlier `session` or `always` answer covers a call."""
        rows = self._tables.query(
            "SELECT scope, session_id, mode FROM approvals_grants WHERE user_id = ? AND tool = ?"
            " AND definition = ? AND pattern = ? AND project = ?",
            (context.user_id, tool, definition_hash, pattern, context.project or ""),
        )
        return any(
            (row["scope"] == "always" or row["session_id"] == context.session_id)
            and _STRICTNESS[row["mode"]] >= _STRICTNESS[mode]
            for row in rows
        )

    def remember(
        self,
        scope: Literal["session", "always"],
        tool: str,
        definition_hash: str,
        pattern: str,
        mode: str,
        context: JobContext,
    ) -> None:
        """Keep an answer; it is on disk when this returns."""
        import secrets

        self._tables.execute(
            "INSERT INTO approvals_grants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                "gr_" + secrets.token_hex(6),
                scope,
                context.user_id,
                context.session_id if scope == "session" else None,
                context.project or "",
                tool,
                definition_hash,
                pattern,
                mode,
                self._clock.now(),
            ),
        )

    def list(self, user_id: str | None = None) -> Sequence[Grant]:
        """What is remembered, oldest first."""
        rows = self._tables.query(
            "SELECT id, scope, user_id, session_id, project, tool, pattern, mode, created"
            " FROM approvals_grants ORDER BY created, id"
        )
        return [Grant(**row) for row in rows if user_id in (None, row["user_id"])]

    def revoke(self, grant_id: str) -> bool:
        """Forget an answer; False when there is none of this id."""
        return self._tables.execute("DELETE FROM approvals_grants WHERE id = ?", (grant_id,)) == 1

    # pending -----------------------------------------------------------------------------------

    def park(self, request: ApprovalRequest) -> str:
        """Keep a request until somebody answers it; the same call again keeps its first id."""
        shown = attrs.asdict(request, value_serializer=_plain)
        now = self._clock.now()
        with self._tables.transaction() as transaction:
            waiting = transaction.query(
                "SELECT id FROM approvals_pending WHERE digest = ? AND session_id = ?"
                " AND state = 'pending' AND created > ? LIMIT 1",
                (request.digest, request.session_id, now - self._valid),
            )
            if waiting:
                return str(waiting[0]["id"])
            transaction.execute(
                "INSERT INTO approvals_pending (id, digest, user_id, session_id, tool, request,"
                " created, state) VALUES (?, ?, ?, ?, ?, ?, ?, 'pending')",
                (
                    request.id,
                    request.digest,
                    request.user_id,
                    request.session_id,
                    request.tool,
                    json.dumps(shown, default=str),
                    now,
                ),
            )
        return request.id

    def refused(self, digest: str, context: JobContext) -> PendingApproval | None:
        """The latest answer to exactly this call, where it was no and is still valid."""
        rows = self._tables.query(
            "SELECT id, tool, user_id, session_id, state, request, created, answered_by, message"
            " FROM approvals_pending WHERE digest = ? AND user_id = ? AND answered > ?"
            " ORDER BY answered DESC LIMIT 1",
            (digest, context.user_id, self._clock.now() - self._valid),
        )
        return _pending(rows[0]) if rows and rows[0]["state"] == "denied" else None

    def pending(
        self, user_id: str | None = None, *, state: str = "pending"
    ) -> Sequence[PendingApproval]:
        """Requests in one state that are still valid, oldest first."""
        rows = self._tables.query(
            "SELECT id, tool, user_id, session_id, state, request, created, answered_by, message"
            " FROM approvals_pending WHERE state = ? AND created > ? ORDER BY created, id",
            (state, self._clock.now() - self._valid),
        )
        return [_pending(row) for row in rows if user_id in (None, row["user_id"])]

    def get(self, approval_id: str) -> PendingApproval | None:
        rows = self._tables.query(
            "SELECT id, tool, user_id, session_id, state, request, created, answered_by, message"
            " FROM approvals_pending WHERE id = ?",
            (approval_id,),
        )
        return _pending(rows[0]) if rows else None

    def prune(self) -> int:
        """Delete requests that nobody can answer or use any more; how many."""
        oldest = self._clock.now() - self._valid
        return self._tables.execute(
            "DELETE FROM approvals_pending WHERE created <= ? AND COALESCE(answered, 0) <= ?",
            (oldest, oldest),
        )

    def answer(
        self, approval_id: str, approve: bool, *, by: str, message: str | None = None
    ) -> None:
        """Answer a pending request; the first answer wins.

        Raises:
            HardpointError: There is no such request, it is too old, or it was answered already.
        """
        now = self._clock.now()
        changed = self._tables.execute(
            "UPDATE approvals_pending SET state = ?, answered_by = ?, message = ?, answered = ?"
            " WHERE id = ? AND state = 'pending' AND created > ?",
            (
                "approved" if approve else "denied",
                by,
                message,
                now,
                approval_id,
                now - self._valid,
            ),
        )
        if changed == 1:
            return
        known = self.get(approval_id)
        if known is None:
            raise HardpointError(
                f"no approval {approval_id!r}", hint="`hardpoint approvals list` shows them"
            )
        if known.state == "pending":
            raise HardpointError(f"approval {approval_id!r} is too old; call the tool again")
        raise HardpointError(f"approval {approval_id!r} was already {known.state}")

    def use(self, digest: str, context: JobContext) -> bool:
        """Use up one approved request for exactly this call; False when there is none."""
        oldest = self._clock.now() - self._valid
        wanted = "AND id = ?" if context.approval else ""
        extra = (context.approval,) if context.approval else ()
        with self._tables.transaction() as transaction:
            rows = transaction.query(
                "SELECT id FROM approvals_pending WHERE digest = ? AND user_id = ?"
                f" AND state = 'approved' AND answered > ? {wanted} ORDER BY answered LIMIT 1",
                (digest, context.user_id, oldest, *extra),
            )
            if not rows:
                return False
            return (
                transaction.execute(
                    "UPDATE approvals_pending SET state = 'used'"
                    " WHERE id = ? AND state = 'approved'",
                    (rows[0]["id"],),
                )
                == 1
            )


def _plain(_: Any, __: Any, value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value


def _pending(row: dict[str, Any]) -> PendingApproval:
    return PendingApproval(**{**row, "request": json.loads(row["request"])})
