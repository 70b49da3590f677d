"""Requests that wait for an answer, and the answers: each lets one call through, once.

They are in the store, so they survive a restart and any process can answer. Which answers are
remembered for longer is in `grants`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from hardpoint.errors import HardpointError, NotAuthorized
from hardpoint.interfaces import ApprovalRequest, Clock
from hardpoint.store import Namespace, Store, Transaction
from hardpoint.tools import ApprovalRequirement, Subject

VALID_SECONDS: Final = 3600.0
MAX_WAITING: Final = 1000
"""Of one user; an agent that asks on and on cannot fill the disk."""
MAX_REFUSALS: Final = 2
"""After so many answers of no the same call is refused without a question."""

MIGRATIONS: Final = (
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
    "ALTER TABLE approvals_pending ADD COLUMN project TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE approvals_pending ADD COLUMN retry BIGINT NOT NULL DEFAULT 0",
)

_COLUMNS: Final = "id, tool, user_id, session_id, state, request, created, answered_by, message"


@attrs.frozen
class PendingApproval:
    """A request that waits for an answer, or has one."""

    id: str
    tool: str
    user_id: str
    session_id: str
    state: Literal["pending", "approved", "denied", "used"]
    request: dict[str, Any]
    """The `ApprovalRequest` as plain data."""
    created: float
    answered_by: str | None = None
    message: str | None = None

    def to_request(self) -> ApprovalRequest:
        """The request as it was put."""
        fields = dict(self.request)
        fields["requirement"] = ApprovalRequirement(fields["requirement"])
        fields["subjects"] = tuple(Subject(**subject) for subject in fields["subjects"])
        for name in ("reasons", "verdicts"):
            fields[name] = tuple(fields[name])
        fields["effects"] = frozenset(fields["effects"])
        return ApprovalRequest(**fields)


class Queue:
    """The requests of one store, shared by all processes on it."""

    def __init__(self, store: Store, clock: Clock, *, valid_seconds: float = VALID_SECONDS) -> None:
        self._tables: Namespace = store.namespace("approvals", MIGRATIONS, durable=True)
        self._clock = clock
        self._valid = valid_seconds

    # asking ------------------------------------------------------------------------------------

    def park(self, request: ApprovalRequest, *, own_id: bool = False) -> str:
        """Keep a request until somebody answers it; the id that it waits under.

        Args:
            request: What to decide about.
            own_id: The approver chose the id, and will answer under it. Otherwise the same call
                again keeps its first id.

        Raises:
            NotAuthorized: Too many requests of this user wait, or the id is taken.
        """
        with self._tables.transaction() as transaction:
            waiting = transaction.query(
                "SELECT id, digest, session_id, project FROM approvals_pending"
                " WHERE user_id = ? AND state = 'pending' AND created > ?",
                (request.user_id, self._oldest()),
            )
            same = (request.digest, request.session_id, request.place)
            for row in waiting:
                known = (row["digest"], row["session_id"], row["project"])
                if known == same and (not own_id or row["id"] == request.id):
                    return str(row["id"])
            if len(waiting) >= MAX_WAITING:
                raise NotAuthorized(
                    f"{len(waiting)} requests of {request.user_id!r} wait for an answer already",
                    hint="`hardpoint approvals list` shows them",
                )
            self._insert(transaction, request, "pending")
        return request.id

    def refuse(
        self, request: ApprovalRequest, *, by: str, message: str | None, retry: bool
    ) -> None:
        """Remember that somebody said no to exactly this call.

        A request that waits under its id, or was answered with no, is the one that is refused.
        """
        with self._tables.transaction() as transaction:
            changed = transaction.execute(
                "UPDATE approvals_pending SET state = 'denied', answered_by = ?, message = ?,"
                " answered = ?, retry = ? WHERE id = ? AND digest = ? AND user_id = ?"
                " AND state IN ('pending', 'denied')",
                (
                    by,
                    message,
                    self._clock.now(),
                    int(retry),
                    request.id,
                    request.digest,
                    request.user_id,
                ),
            )
            if changed == 1:
                return
            self._insert(transaction, request, "denied", by=by, message=message, retry=retry)

    def _insert(
        self,
        transaction: Transaction,
        request: ApprovalRequest,
        state: str,
        *,
        by: str | None = None,
        message: str | None = None,
        retry: bool = False,
    ) -> None:
        shown = attrs.asdict(request, value_serializer=_plain)
        now = self._clock.now()
        added = transaction.execute(
            "INSERT INTO approvals_pending (id, digest, user_id, session_id, project, tool,"
            " request, created, state, answered_by, message, answered, retry)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            (
                request.id,
                request.digest,
                request.user_id,
                request.session_id,
                request.place,
                request.tool,
                json.dumps(shown, default=str),
                now,
                state,
                by,
                message,
                None if state == "pending" else now,
                int(retry),
            ),
        )
        if added != 1:
            raise NotAuthorized(f"the approval id {request.id!r} belongs to another request")

    # using answers -----------------------------------------------------------------------------

    def take(self, request: ApprovalRequest, approval_id: str | None) -> PendingApproval | None:
        """The answer that holds for exactly this call, used up if it is yes; None without one.

        The latest answer counts. A no counts as often as it is asked for, while it is valid; where
        the approver did not mind a second try, from the second no on, unless it is asked for by id.

        Args:
            request: The call. Its digest, user and project must be those of the answered request.
            approval_id: Take only the answer to this request.
        """
        with self._tables.transaction() as transaction:
            rows = transaction.query(
                f"SELECT {_COLUMNS}, retry FROM approvals_pending WHERE digest = ?"  # noqa: S608
                " AND user_id = ? AND project = ? AND state IN ('approved', 'denied')"
                " AND answered > ? ORDER BY answered DESC, state DESC",
                (request.digest, request.user_id, request.place, self._oldest()),
            )
            if approval_id is not None:
                rows = [row for row in rows if row["id"] == approval_id]
            for number, row in enumerate(rows, 1):
                retry = bool(row.pop("retry"))
                if row["state"] == "approved":
                    if number > 1:
                        return None
                    transaction.execute(
                        "UPDATE approvals_pending SET state = 'used' WHERE id = ?", (row["id"],)
                    )
                    return _pending(row)
                if not retry or number >= MAX_REFUSALS or approval_id is not None:
                    return _pending(row)
        return None

    # answering ---------------------------------------------------------------------------------

    def answer(
        self,
        approval_id: str,
        approve: bool,
        *,
        by: str,
        message: str | None = None,
        retry: bool = False,
    ) -> None:
        """Answer a pending request; the first answer wins.

        Args:
            approval_id: The request.
            approve: Yes or no.
            by: Who answers.
            message: What the model is told.
            retry: After a no: the same call may be asked about once more.

        Raises:
            HardpointError: There is no such request, it is too old, or it was answered already.
        """
        with self._tables.transaction() as transaction:
            self._answer(transaction, approval_id, approve, by, message, retry=retry)

    def _answer(
        self,
        transaction: Transaction,
        approval_id: str,
        approve: bool,
        by: str,
        message: str | None,
        *,
        retry: bool = False,
    ) -> PendingApproval:
        changed = transaction.execute(
            "UPDATE approvals_pending SET state = ?, answered_by = ?, message = ?, answered = ?,"
            " retry = ? WHERE id = ? AND state = 'pending' AND created > ?",
            (
                "approved" if approve else "denied",
                by,
                message,
                self._clock.now(),
                int(retry),
                approval_id,
                self._oldest(),
            ),
        )
        known = self.get(approval_id)
        if known is None:
            raise HardpointError(
                f"no approval {approval_id!r}", hint="`hardpoint approvals list` shows them"
            )
        if changed == 1:
            return known
        if known.state == "pending":
            raise HardpointError(f"approval {approval_id!r} is too old; call the tool again")
        who = f" by {known.answered_by}" if known.answered_by else ""
        raise HardpointError(f"approval {approval_id!r} was already {known.state}{who}")

    # looking -----------------------------------------------------------------------------------

    def pending(
        self, user_id: str | None = None, *, state: str = "pending"
    ) -> Sequence[PendingApproval]:
        """Requests in one state that are still valid, oldest first."""
        rows = self._tables.query(
            f"SELECT {_COLUMNS} FROM approvals_pending WHERE state = ? AND created > ?"  # noqa: S608
            " ORDER BY created, id",
            (state, self._oldest()),
        )
        return [_pending(row) for row in rows if user_id in (None, row["user_id"])]

    def get(self, approval_id: str) -> PendingApproval | None:
        """One request, whatever became of it."""
        rows = self._tables.query(
            f"SELECT {_COLUMNS} FROM approvals_pending WHERE id = ?",  # noqa: S608
            (approval_id,),
        )
        return _pending(rows[0]) if rows else None

    def is_open(self, approval_id: str) -> bool:
        """Whether a request can still be answered."""
        found = self.get(approval_id)
        return found is not None and found.state == "pending" and found.created > self._oldest()

    def withdraw(self, approval_id: str) -> bool:
        """Take back a request that nobody has answered; False when there is none."""
        return (
            self._tables.execute(
                "DELETE FROM approvals_pending WHERE id = ? AND state = 'pending'", (approval_id,)
            )
            == 1
        )

    def prune(self) -> int:
        """Delete requests that nobody can answer or use any more; how many."""
        oldest = self._oldest()
        return self._tables.execute(
            "DELETE FROM approvals_pending WHERE created <= ? AND COALESCE(answered, 0) <= ?",
            (oldest, oldest),
        )

    def _oldest(self) -> float:
        return self._clock.now() - self._valid


def _plain(_: Any, __: Any, value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value


def _pending(row: Mapping[str, Any]) -> PendingApproval:
    return PendingApproval(**{**row, "request": json.loads(row["request"])})
