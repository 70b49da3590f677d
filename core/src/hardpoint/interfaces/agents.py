"""Models, channels and workers that plugins bring."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from hardpoint.context import JobContext
from hardpoint.tools import ToolDefinition


@attrs.frozen
class LlmReply:
    """What a model answered."""

    text: str = ""
    tool_calls: Sequence[Mapping[str, Any]] = ()
    """`{"id", "name", "arguments"}` each."""
    stop_reason: str | None = None
    usage: Mapping[str, int] = attrs.field(factory=dict)


class LlmProvider(ABC):
    """A language model."""

    @abstractmethod
    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[ToolDefinition] = (),
        max_tokens: int | None = None,
        **options: Any,
    ) -> LlmReply:
        """One reply to a chat of `{"role", "content"}` messages."""


class EmbeddingProvider(ABC):
    """Turns texts into vectors."""

    dimension: int
    model: str

    @abstractmethod
    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector of `dimension` numbers for each text."""


@attrs.frozen
class Message:
    """A message to a person."""

    content: str
    target: str | None = None
    attachments: Sequence[Any] = ()
    """`Blob` parts, already read and checked."""


@attrs.frozen
class Delivery:
    """Proof that a channel took a message."""

    channel: str
    target: str | None = None
    detail: str = ""


class Channel(ABC):
    """A way to reach a person."""

    @abstractmethod
    async def send(self, message: Message, context: JobContext) -> Delivery:
        """Deliver, or raise `ExternalService`; never claim a delivery that did not happen."""


class JobWorker(ABC):
    """Runs one kind of background job, for example the host application's own agent."""

    @abstractmethod
    async def run(self, job: Mapping[str, Any], context: JobContext) -> Any:
        """Do the job; the returned JSON value is its result. Cancelled when the job is."""


@attrs.frozen
class PlannedCall:
    """One tool call that a job will make."""

    tool: str
    params: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class JobRequest:
    """What a job is to do: `calls` one after the other, or a worker with an `input`."""

    title: str
    description: str = ""
    calls: Sequence[PlannedCall] = ()
    worker: str | None = None
    input: Any = None
    """Any JSON value, for the worker."""
    keep_going: bool = False
    """Whether the calls after a failed one are made all the same."""
    project_dir: str | None = None
    """The workspace of its calls: a folder below `[jobs] projects`, or below the caller's own."""
    credentials: Mapping[str, str] = attrs.field(factory=dict)
    """Environment variables by secret: its commands in a sandbox hold a stand-in there."""


class JobExecutor(ABC):
    """Decides where and when pending jobs run, and runs them there with `services.jobs`.

    `jobs.claim()` takes a pending job under a lease, `await jobs.run_claimed(job)` runs it to its
    end, `jobs.renew()` keeps the leases of this process.
    """

    @abstractmethod
    async def start(self, jobs: Any) -> None:
        """Begin to work off `jobs`."""

    @abstractmethod
    async def stop(self) -> None:
        """End what runs here."""

    @abstractmethod
    def wake(self) -> None:
        """There may be something new to do."""

    @abstractmethod
    def cancel(self, job_id: str) -> None:
        """End a job soon, if it runs here; its row in the store says so to others."""


class Workspace(ABC):
    """Documents of one user, as the memory tools and WASM modules read them."""

    @abstractmethod
    async def read(self, user_id: str, path: str) -> str | None: ...

    @abstractmethod
    async def write(
        self, user_id: str, path: str, content: str, *, append: bool = False
    ) -> None: ...

    async def describe(self, user_id: str, path: str) -> Mapping[str, Any]:
        """What the workspace knows about a document: `updated` (unix time), `version` …"""
        return {}

    @abstractmethod
    async def list(self, user_id: str, prefix: str = "") -> Sequence[str]: ...

    @abstractmethod
    async def search(
        self, user_id: str, query: str, *, limit: int = 5
    ) -> Sequence[Mapping[str, Any]]: ...
