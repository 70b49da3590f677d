"""Ask whether a call may run, and remember answers. That it must ask is decided in `decide`."""

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


class Grants(Protocol):
    """What is remembered of answers: single-use grants by digest, and patterns."""

    def covers(
        self, tool: str, definition_hash: str, pattern: str, mode: str, context: JobContext
    ) -> bool:
        """Whether an earlier `session` or `always` answer covers the call."""
        ...

    def remember(
        self,
        scope: Literal["session", "always"],
        tool: str,
        definition_hash: str,
        pattern: str,
        mode: str,
        context: JobContext,
    ) -> None: ...

    def use(self, digest: str, context: JobContext) -> bool:
        """Use up the single-use grant of this digest, or of `context.approval`; False without one."""
        ...

    def refused(self, digest: str, context: JobContext) -> Any:
        """The request for exactly this call, where somebody said no to it; its `message` says why."""
        ...

    def park(self, request: ApprovalRequest) -> str:
        """Keep a request that nobody could answer, until somebody does; the id that it waits under."""
        ...


@attrs.frozen
class Approved:
    """Somebody said yes."""

    scope: Literal["once", "session", "always"]
    by: str | None = None


@attrs.frozen
class Edited:
    """Somebody changed the arguments; they start again at step 2."""

    params: dict[str, Any]
    by: str | None = None
    message: str | None = None


async def ask(
    request: ApprovalRequest,
    context: JobContext,
    approvers: Sequence[tuple[str, Approver]],
    grants: Grants,
) -> Approved | Edited:
    """Ask the approvers in turn. No approver, no answer, an exception, a wrong answer: no.

    Raises:
        ApprovalRequired: Nobody can be asked now; the request waits under its id.
        NotAuthorized: Somebody, or the lack of anybody, said no.
    """
    pending: Pending | None = None
    if context.interactive:
        for name, approver in approvers:
            try:
                answer = await approver.decide(request, context)
            except Exception as error:  # an approver is foreign code; its failure means no
                logger.warning("approver %s failed: %s", name, error)
                raise NotAuthorized(
                    f"approver {name!r} failed, so the answer is no: {type(error).__name__}: {error}"
                ) from error
            if answer is None:
                continue
            if isinstance(answer, Pending):
                pending = answer
                break
            return _accept(request, answer, name)
    if pending is None and context.interactive and not approvers:
        raise NotAuthorized(
            f"{request.tool!r} needs approval and there is no approver",
            hint="give the Runtime an approver, add an allow rule, or answer with"
            " `hardpoint approvals answer`",
        )
    approval_id = grants.park(request)
    raise ApprovalRequired(
        f"{request.tool!r} needs approval: {'; '.join(request.reasons) or request.requirement.value}",
        approval_id=approval_id,
        hint=f"answer it with `hardpoint approvals answer {approval_id}`, then call again"
        " with the same arguments",
    )


def _accept(request: ApprovalRequest, answer: Any, name: str) -> Approved | Edited:
    by = getattr(answer, "by", None) or name
    if not isinstance(answer, Decision) or answer.verdict not in (*request.verdicts, "no"):
        raise NotAuthorized(f"approver {name!r} gave an answer that was not offered: {answer!r}")
    if answer.verdict == "no":
        text = f"{by} said no" + (f": {answer.message}" if answer.message else "")
        raise NotAuthorized(text, hint=None if answer.retry else "Do not retry this call.")
    if answer.verdict == "edit":
        if answer.params is None:
            raise NotAuthorized(f"approver {name!r} edited the call without giving arguments")
        return Edited(answer.params, by, answer.message)
    return Approved(answer.verdict, by)
