"""One call on its way: what is known of it between the steps. The steps are in `_call`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from hardpoint._core import Core
from hardpoint._family import Family
from hardpoint._plan import Plan
from hardpoint.calls import ToolCall, call_digest
from hardpoint.context import JobContext, Origin
from hardpoint.errors import ToolError
from hardpoint.interfaces import LimitRequest
from hardpoint.parts import Part, ToolOutput
from hardpoint.policy.loops import Key, key_of
from hardpoint.policy.verdict import PolicyVerdict
from hardpoint.redaction import redact_params
from hardpoint.tools import ApprovalRequirement, Subject

_numbers = itertools.count(1)
ALLOWED = PolicyVerdict("allow")


@attrs.define(eq=False)
class Watch:
    """Who follows a call while it runs, and what it gave out early."""

    progress: Any = None
    emitted: Any = None
    parts: list[Part] = attrs.field(factory=list)
    room: int = 1_000_000

    def emit(self, part: Part) -> None:
        size = sum(len(v) for v in attrs.asdict(part).values() if isinstance(v, str | bytes))
        if size <= self.room:
            self.room -= size
            self.parts.append(part)
        if self.emitted is not None:
            self.emitted(part)


class Call:
    """One call on its way."""

    __slots__ = (
        "began",
        "canonical",
        "context",
        "core",
        "decided_written",
        "digest",
        "edits",
        "effects",
        "error",
        "family",
        "generation",
        "id",
        "imposed",
        "judged",
        "limits",
        "notes",
        "outcome_extra",
        "output",
        "params",
        "partial",
        "plan",
        "request",
        "requirement",
        "reservation",
        "seen",
        "started",
        "subjects",
        "verdict",
        "watch",
    )

    def __init__(
        self,
        core: Core,
        request: ToolCall,
        context: JobContext,
        family: Family | None,
        watch: Watch | None,
    ) -> None:
        self.core = core
        self.request = request
        self.context = context
        self.family = family
        self.watch = watch
        self.id = request.id or f"call_{core.boot_id}_{next(_numbers)}"
        self.started = time.perf_counter()
        self.params: dict[str, Any] = request.params
        self.plan: Plan = None  # type: ignore[assignment]  # set by `find`, before all else
        self.subjects: tuple[Subject, ...] = ()
        self.effects: Any = ()
        self.requirement = ApprovalRequirement.NEVER
        self.imposed = ApprovalRequirement.NEVER
        """What of the requirement the configuration and plugins ask for."""
        self.seen: Collection[str] = ()
        """The provenances that the session had read when the call was judged."""
        self.limits: Sequence[LimitRequest] = ()
        self.verdict = ALLOWED
        self.judged: str | None = None
        """What the policy said, before earlier answers and people."""
        self.digest: str | None = None
        self.edits = 0
        self.reservation: Any = None
        self.generation = core.generation
        """Of the configuration that it counts for."""
        self.began = False
        """Whether the tool was handed to its domain, and may have done anything."""
        self.decided_written = False
        self.notes: list[str] = []
        self.output: ToolOutput | None = None
        self.partial: ToolOutput | None = None
        self.error: ToolError | None = None
        self.outcome_extra: dict[str, Any] = {}

    def make_digest(self) -> str:
        """What the approval of this call belongs to."""
        plan = self.plan
        return call_digest(
            plan.entry.name,
            plan.definition.hash,
            self.params,
            plan.domain_name,
            self.context.user_id,
        )

    @property
    def root_origin(self) -> Origin:
        """Where the root of the call comes from: a job, or what the runtime is used by."""
        return "job" if self.context.origin == "job" else self.core.origin

    @property
    def origins(self) -> frozenset[str]:
        """Where the call comes from; one that a tool makes also comes from where its root does."""
        if self.context.handle is None:
            return frozenset((self.root_origin,))
        return frozenset((self.root_origin, "tool"))

    @property
    def ancestors(self) -> Sequence[str]:
        """The names of the tools whose calls led to this one, the nearest first."""
        names: list[str] = []
        handle = self.context.handle
        while handle is not None:
            names.append(handle.state.plan.entry.name)
            handle = handle.parent
        return names

    @property
    def loop_key(self) -> Key:
        """What makes two calls the same one for the loop guard."""
        context, request = self.context, self.request
        return key_of(context.user_id, context.session_id, request.tool, request.params)

    @property
    def redacted_params(self) -> Mapping[str, Any]:
        """The arguments as records may show them; the very arguments where nothing is sensitive."""
        if not isinstance(self.params, dict):
            return {}
        sensitive = self.plan.sensitive if self.plan is not None else ()
        return redact_params(self.params, sensitive) if sensitive else self.params

    @property
    def redacted(self) -> ToolCall:
        """The call as plugins may see it; what they do to it changes nothing."""
        return ToolCall(self.request.tool, dict(self.redacted_params), self.id)
