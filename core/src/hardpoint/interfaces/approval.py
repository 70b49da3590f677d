"""Asking somebody whether a call may run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from hardpoint.context import JobContext
from hardpoint.tools import ApprovalRequirement, Subject

Verdict = Literal["once", "session", "always", "edit", "no"]


@attrs.frozen
class ApprovalRequest:
    """What a person has to decide about."""

    id: str
    digest: str
    tool: str
    params: dict[str, Any]
    """The canonical arguments; sensitive ones redacted."""
    requirement: ApprovalRequirement
    user_id: str
    session_id: str
    project: str | None = None
    description: str = ""
    reasons: tuple[str, ...] = ()
    """Why it is asked: the rule with file and line, the tool's requirement."""
    subjects: tuple[Subject, ...] = ()
    effects: frozenset[str] = frozenset()
    domain: str = "orchestrator"
    verdicts: tuple[Verdict, ...] = ("once", "no")
    """The answers that are offered; `session` and `always` are missing where they mean nothing."""
    pattern: str | None = None
    """The rule that `session` or `always` will remember, exactly as it is shown."""
    origin: str = "library"
    workspace: str | None = None
    """The host folder that the call works in."""
    mode: str = "default"
    """The strictest mode in force; an answer does not count in a stricter one."""
    definition_hash: str = ""
    """Whose tool it is and what it said of itself; an answer ends when that changes."""

    @property
    def place(self) -> str:
        """The project, or else the workspace, that an answer belongs to."""
        return self.project or self.workspace or ""


@attrs.frozen
class Decision:
    """An answer."""

    verdict: Verdict
    params: dict[str, Any] | None = None
    """The new arguments of an `edit`; they are checked from the start."""
    message: str | None = None
    """What the model is told."""
    retry: bool = True
    """False: the model is told not to try again."""
    by: str | None = None

    @classmethod
    def once(cls, **fields: Any) -> Decision:
        return cls("once", **fields)

    @classmethod
    def session(cls, **fields: Any) -> Decision:
        return cls("session", **fields)

    @classmethod
    def always(cls, **fields: Any) -> Decision:
        return cls("always", **fields)

    @classmethod
    def no(cls, message: str | None = None, **fields: Any) -> Decision:
        return cls("no", message=message, **fields)

    @classmethod
    def edit(cls, params: Mapping[str, Any], **fields: Any) -> Decision:
        return cls("edit", params=dict(params), **fields)


@attrs.frozen
class Pending:
    """Nobody could answer now; the request waits under this id."""

    id: str


class Approver(ABC):
    """Somebody, or something, that answers for a person."""

    @abstractmethod
    async def decide(
        self, request: ApprovalRequest, context: JobContext
    ) -> Decision | Pending | None:
        """Answer, or None to leave it to the next approver. An exception means no."""


ApproverChain = Sequence[Approver]
