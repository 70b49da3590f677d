"""What the policy says about one call, with every reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import attrs

from hardpoint.limits import ToolRateLimitConfig
from hardpoint.tools import ApprovalRequirement

DecisionWord = Literal["allow", "ask", "deny"]
RANK: Final = {"allow": 0, "ask": 1, "deny": 2}


@attrs.frozen
class Reason:
    """One thing that led to a verdict."""

    why: str
    rule: str | None = None
    """The rule as it is written."""
    source: str | None = None
    """File and line of the rule."""
    segment: str | None = None
    """The part of a command line, or the subject, that it is about."""

    def __str__(self) -> str:
        text = self.why
        if self.segment:
            text += f": {self.segment}"
        if self.rule:
            text += f" (rule {self.rule!r}" + (f", {self.source})" if self.source else ")")
        return text

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "source": self.source,
            "segment": self.segment,
            "why": self.why,
        }


@attrs.frozen
class Part:
    """One simple command of a line, and what it asks for by itself."""

    segment: str
    requirement: str
    """That of a tool, or `deny`."""
    why: tuple[str, ...] = ()


@attrs.frozen
class PolicyVerdict:
    """Allow, ask or deny."""

    decision: DecisionWord
    requirement: ApprovalRequirement = ApprovalRequirement.NEVER
    reasons: tuple[Reason, ...] = ()
    may_remember: bool = False
    """Whether `session` and `always` are answers that mean something."""
    retry: bool = True
    limits: tuple[tuple[str, ToolRateLimitConfig], ...] = ()
    """The rate limits of the rules that match: name of the counter, and limit."""
    parts: tuple[Part, ...] = ()
    """The simple commands of a command line, in their order."""

    def to_json(self, tool: str) -> dict[str, Any]:
        """The shape of `hardpoint policy check --json`."""
        shape: dict[str, Any] = {
            "tool": tool,
            "requirement": self.requirement.value,
            "decision": self.decision,
            "reasons": [reason.to_json() for reason in self.reasons],
        }
        if self.parts:
            shape["segments"] = [attrs.asdict(part) for part in self.parts]
        return shape

    def explain(self) -> str:
        """The reasons as one sentence."""
        return "; ".join(str(reason) for reason in self.reasons)


def strictest_decision(decisions: Sequence[DecisionWord]) -> DecisionWord:
    return max(decisions, key=RANK.__getitem__)
