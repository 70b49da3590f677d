"""Approvals put to clients of the stateless era: asked by a result, answered by the next request.

The request waits in the store, and the call has ended. What the client is given to come back with
names the request, sealed under a key that all gateways on one store share; so any of them takes the
answer, an operator may answer instead, and each request lets one call through, once.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

import attrs
from mcp.shared.exceptions import MCPError

from hardpoint import Decision
from hardpoint.errors import HardpointError
from hardpoint_mcp.gateway.approver import ASKED_AT_MOST, NO_ANSWER, QUESTION, form, read
from hardpoint_mcp.wire.channel import Message
from hardpoint_mcp.wire.errors import INVALID_PARAMS

MIGRATIONS: Final = ("CREATE TABLE gateway_keys (name TEXT NOT NULL PRIMARY KEY, value TEXT)",)
CLIENT: Final = "client"
_PREFIX: Final = "approval"
_SEALING: Final = "request-state"


def sealing_key(services: Any) -> bytes:
    """The key that states are sealed under: one for all processes on a store."""
    tables = services.store("gateway", MIGRATIONS)
    tables.execute(
        "INSERT INTO gateway_keys (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
        (_SEALING, secrets.token_hex(32)),
    )
    rows = tables.query("SELECT value FROM gateway_keys WHERE name = ?", (_SEALING,))
    return bytes.fromhex(rows[0]["value"])


@attrs.frozen
class State:
    """What a client comes back with."""

    approval_id: str
    user: str
    place: str
    """Which connection, or kind of it, the question went to."""
    times: int = 1
    """How often it was put."""

    def __str__(self) -> str:
        return "\n".join((_PREFIX, self.approval_id, self.user, self.place, str(self.times)))


def read_state(text: Any) -> State | None:
    """The state of an approval; None for what is none."""
    parts = text.split("\n") if isinstance(text, str) else ()
    if len(parts) != 5 or parts[0] != _PREFIX or not parts[4].isdecimal():
        return None
    return State(parts[1], parts[2], parts[3], int(parts[4]))


def question(approvals: Any, state: State) -> Message | None:
    """The result that asks; None where the question is not for a client."""
    found = approvals.get(state.approval_id)
    if found is None or found.request["origin"] == "tool":
        return None
    asked = {"method": "elicitation/create", "params": form(found.to_request())}
    return {
        "resultType": "input_required",
        "inputRequests": {QUESTION: asked},
        "requestState": str(state),
    }


def take_answer(
    approvals: Any, state: State, user: str, place: str, answers: Any
) -> Message | None:
    """Write down what a client came back with.

    Returns:
        The question again, where it was not answered; else None, and the call can be made.

    Raises:
        MCPError: The state was used already, is too old or another client's.
    """
    found = approvals.get(state.approval_id)
    if found is None or (state.user, state.place) != (user, place) or found.user_id != user:
        raise _invalid()
    if found.state in ("used", "denied") or found.answered_by == CLIENT:
        raise _invalid()
    answer = answers.get(QUESTION) if isinstance(answers, Mapping) else None
    decision = read(found.to_request(), answer)
    if found.state == "approved":
        # An operator was quicker; the person at the client can still say no to this request.
        if decision is not None and decision.verdict == "no":
            raise _invalid()
        return None
    if decision is None:
        if state.times < ASKED_AT_MOST:
            return question(approvals, attrs.evolve(state, times=state.times + 1))
        decision = Decision.no(NO_ANSWER)
    _write(approvals, state.approval_id, decision)
    return None


def _write(approvals: Any, approval_id: str, decision: Decision) -> None:
    try:
        if decision.verdict in ("session", "always"):
            approvals.answer_for(approval_id, decision.verdict, by=CLIENT)
            return
        approvals.answer(
            approval_id, decision.verdict != "no", by=CLIENT, message=decision.message, retry=True
        )
    except HardpointError as error:
        # Too old, or somebody answered a moment ago.
        raise _invalid() from error


def _invalid() -> MCPError:
    return MCPError(
        INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"}
    )
