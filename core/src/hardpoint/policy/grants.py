"""Remember answers for a session or for good: by user, project, tool, definition and pattern.

A grant covers the pattern that was shown and nothing else, in the mode it was given in and more
permissive ones. Answers for one call are in `pending`.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import Final, Literal

import attrs

from hardpoint.errors import HardpointError
from hardpoint.interfaces import ApprovalRequest
from hardpoint.policy.pending import MIGRATIONS, VALID_SECONDS, PendingApproval, Queue
from hardpoint.store import Transaction

__all__ = [
    "MIGRATIONS",
    "VALID_SECONDS",
    "Grant",
    "PendingApproval",
    "StoredGrants",
    "strictest_mode",
]

Scope = Literal["session", "always"]

_STRICTNESS: Final = {"auto": 0, "default": 1, "locked": 2, "plan": 3}


def strictest_mode(modes: Collection[str]) -> str:
    return max(modes, key=_STRICTNESS.__getitem__)


@attrs.frozen
class Grant:
    """An answer that is remembered."""

    id: str
    scope: Scope
    user_id: str
    session_id: str | None
    project: str
    tool: str
    pattern: str
    mode: str
    created: float


class CallerApprovals:
    """What a running call sees of its user's requests: it looks, and cannot answer."""

    def __init__(self, grants: StoredGrants, user_id: str) -> None:
        self._grants = grants
        self._user_id = user_id

    def list(self) -> Sequence[PendingApproval]:
        """What waits, oldest first."""
        return self._grants.pending(self._user_id)

    def get(self, approval_id: str) -> PendingApproval | None:
        """One request, whatever became of it."""
        found = self._grants.get(approval_id)
        return found if found is not None and found.user_id == self._user_id else None


class StoredGrants(Queue):
    """Grants and pending requests in the store, shared by all processes on it."""

    def of(self, user_id: str) -> CallerApprovals:
        return CallerApprovals(self, user_id)

    def covers(self, request: ApprovalRequest) -> str | None:
        """The id of the grant that covers a call, or None."""
        if request.pattern is None:
            return None
        rows = self._tables.query(
            "SELECT id, scope, session_id, mode FROM approvals_grants WHERE user_id = ?"
            " AND tool = ? AND definition = ? AND pattern = ? AND project = ?",
            (
                request.user_id,
                request.tool,
                request.definition_hash,
                request.pattern,
                request.place,
            ),
        )
        for row in rows:
            holds = row["scope"] == "always" or row["session_id"] == request.session_id
            if holds and _STRICTNESS[row["mode"]] >= _STRICTNESS[request.mode]:
                return str(row["id"])
        return None

    def remember(self, scope: Scope, request: ApprovalRequest) -> str:
        """Keep an answer; it is on disk when this returns. The grant's id."""
        with self._tables.transaction() as transaction:
            return self._remember(transaction, scope, request)

    def _remember(self, transaction: Transaction, scope: Scope, request: ApprovalRequest) -> str:
        grant_id = "gr_" + secrets.token_hex(6)
        transaction.execute(
            "INSERT INTO approvals_grants (id, scope, user_id, session_id, project, tool,"
            " definition, pattern, mode, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                grant_id,
                scope,
                request.user_id,
                request.session_id if scope == "session" else None,
                request.place,
                request.tool,
                request.definition_hash,
                request.pattern,
                request.mode,
                self._clock.now(),
            ),
        )
        return grant_id

    def answer_for(
        self, approval_id: str, scope: Scope, *, by: str, message: str | None = None
    ) -> str:
        """Answer a pending request with yes, and remember it; the first answer wins.

        Returns:
            The grant's id.

        Raises:
            HardpointError: As for `answer`; or the call is one that is asked about every time.
        """
        with self._tables.transaction() as transaction:
            answered = self._answer(transaction, approval_id, True, by, message)
            request = answered.to_request()
            if scope not in request.verdicts or request.pattern is None:
                raise HardpointError(
                    f"{request.tool!r} is asked about every time; only `yes` and `no` are answers"
                )
            return self._remember(transaction, scope, request)

    def list(self, user_id: str | None = None) -> Sequence[Grant]:
        """What is remembered, oldest first."""
        rows = self._tables.query(
            "SELECT id, scope, user_id, session_id, project, tool, pattern, mode, created"
            " FROM approvals_grants ORDER BY created, id"
        )
        return [Grant(**row) for row in rows if user_id in (None, row["user_id"])]

    def revoke(self, grant_id: str) -> bool:
        """Forget a remembered answer, or one to a single call; False when there is none."""
        with self._tables.transaction() as transaction:
            return (
                transaction.execute("DELETE FROM approvals_grants WHERE id = ?", (grant_id,))
                + transaction.execute(
                    "DELETE FROM approvals_pending WHERE id = ?"
                    " AND state IN ('approved', 'denied')",
                    (grant_id,),
                )
            ) == 1
