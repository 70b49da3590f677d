"""A job as data, and the contexts that its calls run in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Literal

import attrs

from hardpoint.context import JobContext
from hardpoint.interfaces import JobRequest, PlannedCall

__all__ = ["Job", "JobEvent", "JobRequest", "PlannedCall", "Prompt"]

State = Literal["pending", "in_progress", "waiting", "completed", "failed", "cancelled"]
STATES: Final[tuple[State, ...]] = (
    "pending",
    "in_progress",
    "waiting",
    "completed",
    "failed",
    "cancelled",
)
ACTIVE: Final[frozenset[State]] = frozenset(("pending", "in_progress", "waiting"))

MAX_CALLS: Final = 100
MAX_TITLE: Final = 200
MAX_TEXT: Final = 50_000
MAX_DEPTH: Final = 5
"""Jobs that start jobs that start jobs."""
PREVIEW: Final = 500
"""Characters of a result that an event shows."""


@attrs.frozen
class Job:
    """A job as it stands in the store."""

    id: str
    user_id: str
    session_id: str
    title: str
    description: str
    state: State
    worker: str | None
    calls: tuple[PlannedCall, ...]
    input: Any
    keep_going: bool
    context: Mapping[str, Any]
    depth: int
    created: float
    started: float | None
    finished: float | None
    done: float
    total: float | None
    message: str
    result: Any
    error: Mapping[str, Any] | None
    """`kind` and `message` of a job that failed."""
    cost: Decimal | None
    cancelling: bool
    owner: str | None = attrs.field(default=None, repr=False)
    lease_until: float | None = attrs.field(default=None, repr=False)
    approval: str | None = None
    """The request that a `waiting` job waits for, or that a resumed one waited for."""
    project_dir: str | None = None
    """The folder that was chosen for its tools, instead of the caller's workspace."""

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE


@attrs.frozen
class JobEvent:
    """Something that happened to a job."""

    number: int
    at: float
    kind: str
    """`created`, `started`, `call_started`, `call_finished`, `progress`, `prompt`, `note`,
    `waiting`, `resumed`, `cancelling`, `completed`, `failed`, `cancelled`."""
    data: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Prompt:
    """Something that somebody told a running worker."""

    content: str
    done: bool = False
    """Nothing more will come."""


# contexts --------------------------------------------------------------------------------------

_KEPT: Final = (
    "session_id",
    "project",
    "mode",
    "user_timezone",
    "conversation_id",
    "requester_id",
    "category",
)


def kept_context(context: JobContext) -> dict[str, Any]:
    """What of a caller's context its job keeps. Not `extra_env`, which may hold secrets."""
    auto = context.auto_approve
    kept = {name: getattr(context, name) for name in _KEPT}
    return kept | {
        "workspace": None if context.workspace is None else str(context.workspace),
        "credentials": dict(context.credentials),
        "auto_approve": auto if isinstance(auto, bool) else sorted(auto),
        "allowed_tools": sorted(context.allowed_tools),
        "metadata": json.loads(json.dumps(dict(context.metadata), default=str)),
    }


def context_of(user_id: str, kept: Mapping[str, Any], **fields: Any) -> JobContext:
    """The context that was kept, with nobody to ask."""
    return JobContext(user_id=user_id, interactive=False, **{**kept, **fields})


def asking_context(context: JobContext, *, autonomous: bool) -> JobContext:
    """The context that the calls of this caller's jobs have."""
    made = context_of(context.user_id, kept_context(context), autonomous=autonomous)
    return made.from_origin("job")


def job_context(job: Job, *, autonomous: bool = True) -> JobContext:
    """The caller's rights and no more, with nobody to ask."""
    context = context_of(
        job.user_id,
        job.context,
        autonomous=autonomous,
        job_id=job.id,
        title=job.title,
        description=job.description,
    )
    return context.from_origin("job")
