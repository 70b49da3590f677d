"""Ask whether a call may run. That it must is decided in `decide`; answers are kept in `grants`.

No approver, no answer, an exception, an answer that was not offered: no.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol

import attrs

from hardpoint.context import JobContext
from hardpoint.errors import ApprovalRequired, NotAuthorized
from hardpoint.interfaces import ApprovalRequest, Approver, Decision, Pending

logger = logging.getLogger(__name__)

MAX_EDITS: Final = 3
"""How often one call may be edited before it is refused; an approver cannot loop for ever."""


def new_approval_id() -> str:
    """An id that cannot be guessed."""
    return "ap_" + secrets.token_hex(8)


class Requests(Protocol):
    """Where requests wait and refusals are remembered."""

    def park(self, request: ApprovalRequest, *, own_id: bool = False) -> str: ...

    def refuse(
        self, request: ApprovalRequest, *, by: str, message: str | None, retry: bool
    ) -> None: ...


@attrs.frozen
class Approved:
    """Somebody said yes."""

    scope: Literal["once", "session", "always"]
    by: str


@attrs.frozen
class Edited:
    """Somebody changed the arguments; they start again at step 2."""

    params: dict[str, Any]
    by: str
    message: str | None = None


class QueueApprover(Approver):
    """The approver `queue`: the request waits until any process answers it."""

    async def decide(self, request: ApprovalRequest, context: JobContext) -> Pending:
        return Pending(request.id)


async def ask(
    request: ApprovalRequest,
    context: JobContext,
    approvers: Sequence[tuple[str, Approver]],
    requests: Requests,
) -> Approved | Edited:
    """Ask the approvers in turn.

    Raises:
        ApprovalRequired: Nobody can be asked now; the request waits under its id.
        NotAuthorized: Somebody, or the lack of anybody, said no.
    """
    if not context.interactive:
        raise _waiting(request, requests.park(request))
    if not approvers:
        raise NotAuthorized(
            f"{request.tool!r} needs approval and there is no approver",
            hint="give the Runtime an approver, name some in [approval] approvers, or add an allow"
            " rule",
        )
    for name, approver in approvers:
        try:
            answer = await approver.decide(request, context)
        except Exception as error:  # an approver is foreign code; its failure means no
            logger.warning("approver %s failed: %s", name, error)
            raise NotAuthorized(
                f"approver {name!r} failed, so the answer is no: {type(error).__name__}: {error}"
            ) from error
        if isinstance(answer, Pending):
            chosen = attrs.evolve(request, id=str(answer.id))
            raise _waiting(request, requests.park(chosen, own_id=chosen.id != request.id))
        if answer is not None:
            return _accept(request, answer, name, requests)
    raise _waiting(request, requests.park(request))


def _waiting(request: ApprovalRequest, approval_id: str) -> ApprovalRequired:
    why = "; ".join(request.reasons) or request.requirement.value
    return ApprovalRequired(
        f"{request.tool!r} needs approval: {why}",
        approval_id=approval_id,
        hint=f"answer it with `hardpoint approvals answer {approval_id}`, then call again"
        " with the same arguments",
    )


def _accept(
    request: ApprovalRequest, answer: Any, name: str, requests: Requests
) -> Approved | Edited:
    if not isinstance(answer, Decision) or answer.verdict not in (*request.verdicts, "no"):
        shown = answer.verdict if isinstance(answer, Decision) else type(answer).__name__
        raise NotAuthorized(f"approver {name!r} gave an answer that was not offered: {shown!r}")
    by = answer.by or name
    if answer.verdict == "no":
        requests.refuse(request, by=by, message=answer.message, retry=answer.retry)
        said = f": {answer.message}" if answer.message else ""
        raise NotAuthorized(
            f"{by} said no{said}",
            hint="Do not retry this call."
            if not answer.retry
            else "Do not repeat this call as it is; what was said shows what to do instead.",
        )
    if answer.verdict == "edit":
        if not isinstance(answer.params, dict):
            raise NotAuthorized(f"approver {name!r} edited the call without giving arguments")
        return Edited(answer.params, by, answer.message)
    return Approved(answer.verdict, by)
