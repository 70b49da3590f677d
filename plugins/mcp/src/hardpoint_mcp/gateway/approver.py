"""Ask the person at the client whether a call may run. What must be asked is decided in the core.

An answer counts only when it comes back through the question that was put: over the stream of the
call, or with the sealed state that the call is parked under. What it says is taken literally.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from hardpoint import ApprovalRequest, Approver, Decision, JobContext, Pending
from hardpoint.errors import HardpointError
from hardpoint_mcp.front import current_front
from hardpoint_mcp.wire.errors import RpcError
from hardpoint_mcp.wire.session import Asker

QUESTION: Final = "hardpoint_approval"
_LONGEST_ARGUMENTS: Final = 1500
ASKED_AT_MOST: Final = 2
NO_ANSWER: Final = "the client gave no answer that can be used"
_LOOK_EVERY: Final = 1.0
_SAID: Final = {
    "once": "Yes, this once",
    "session": "Yes, and do not ask again in this session",
    "always": "Yes, and never ask again",
    "no": "No",
}


class FrontApprover(Approver):
    """Asks by elicitation where the client declared it; leaves every other call to an operator.

    A client of the stateless era is asked by the result of its request (see `questions`), except
    about what a running tool calls: that call cannot be repeated without repeating the tool.
    Wherever a question is put, an operator may answer it instead; the first answer counts.
    """

    async def decide(
        self, request: ApprovalRequest, context: JobContext
    ) -> Decision | Pending | None:
        front = current_front.get()
        asker = None if front is None or not front.may_approve else front.asker
        if front is None or asker is None or not can_fill_in_a_form(asker.capabilities):
            return None
        if asker.era == "modern" and request.origin != "tool":
            return None
        return await _first_answer(front.approvals, request, asker)


async def _first_answer(approvals: Any, request: ApprovalRequest, asker: Asker) -> Decision:
    """What the client's person or an operator says first, through the store."""
    approval_id = approvals.park(request)
    asking = asyncio.ensure_future(_ask_client(request, asker))
    answered = asyncio.ensure_future(_answered(approvals, approval_id))
    try:
        await asyncio.wait((asking, answered), return_when=asyncio.FIRST_COMPLETED)
        said = asking.result() if asking.done() else Decision.once()
        if asking.done():
            # Where an operator was a moment earlier, his answer is what is taken below.
            with contextlib.suppress(HardpointError):
                yes = said.verdict != "no"
                approvals.answer(
                    approval_id, yes, by=said.by or "client", message=said.message, retry=True
                )
        found = approvals.take(request, approval_id)
    finally:
        for task in (asking, answered):
            task.cancel()
        await asyncio.gather(asking, answered, return_exceptions=True)
    if found is None:
        return Decision.no("the answer came too late")
    if found.state == "denied":
        return Decision.no(found.message, by=found.answered_by)
    if said.verdict != "no" and found.answered_by == said.by:
        return said
    return Decision.once(by=found.answered_by)


async def _ask_client(request: ApprovalRequest, asker: Asker) -> Decision:
    question = {"method": "elicitation/create", "params": form(request)}
    for _ in range(ASKED_AT_MOST):
        try:
            answers = await asker.ask({QUESTION: question})
        except RpcError as error:
            return Decision.no(f"the client did not answer: {error.message}")
        decision = read(request, answers.get(QUESTION))
        if decision is not None:
            return decision
    return Decision.no(NO_ANSWER)


async def _answered(approvals: Any, approval_id: str) -> None:
    """Wait until an operator has answered, in whatever process."""
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        found = await asyncio.to_thread(approvals.get, approval_id)
        if found is None or found.state != "pending":
            return


def can_fill_in_a_form(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client can put a question to its person."""
    elicitation = capabilities.get("elicitation")
    if not isinstance(elicitation, Mapping):
        return False
    # Before modes existed, elicitation meant forms; a client that offers URLs alone says so.
    return "form" in elicitation or "url" not in elicitation


def form(request: ApprovalRequest) -> dict[str, Any]:
    """The question as a form with one choice."""
    arguments = json.dumps(request.params, ensure_ascii=False, indent=1)
    if len(arguments) > _LONGEST_ARGUMENTS:
        arguments = arguments[:_LONGEST_ARGUMENTS] + " …"
    lines = [f"Hardpoint: may {request.tool!r} run for {request.user_id!r}?", arguments]
    lines += request.reasons
    if request.pattern is not None and {"session", "always"} & set(request.verdicts):
        lines.append(f"Not asking again covers: {request.pattern}")
    choices = [verdict for verdict in request.verdicts if verdict in _SAID and verdict != "no"]
    options = [{"const": verdict, "title": _SAID[verdict]} for verdict in (*choices, "no")]
    return {
        "mode": "form",
        "message": "\n".join(lines),
        "requestedSchema": {
            "type": "object",
            "properties": {"decision": {"type": "string", "title": "Decision", "oneOf": options}},
            "required": ["decision"],
        },
    }


def read(request: ApprovalRequest, answer: Any) -> Decision | None:
    """An answer as a decision; None where nothing that can be used was said."""
    if not isinstance(answer, Mapping):
        return None
    action, content = answer.get("action"), answer.get("content")
    if action in ("decline", "cancel"):
        return Decision.no("declined" if action == "decline" else "the question was closed")
    if action != "accept" or not isinstance(content, Mapping):
        return None
    said = content.get("decision")
    if said == "no":
        return Decision.no()
    if said in request.verdicts and said in _SAID:
        return Decision(said, by="client")
    return None
