"""Stand-ins for time, people and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardpoint.context import JobContext
from hardpoint.interfaces import ApprovalRequest, Approver, Decision, Pending, SecretStore


class FakeClock:
    """A clock that moves only when it is told to."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class ScriptedApprover(Approver):
    """Gives these answers in turn, and remembers what it was asked.

    An answer is a verdict (`"once"`, `"no"` …), a `Decision`, a `Pending` or None. Without answers
    left it says no.
    """

    def __init__(self, *answers: str | Decision | Pending | None) -> None:
        self._answers = list(answers)
        self.requests: list[ApprovalRequest] = []

    async def decide(
        self, request: ApprovalRequest, context: JobContext
    ) -> Decision | Pending | None:
        self.requests.append(request)
        if not self._answers:
            return Decision.no("the script has ended", by="script")
        answer = self._answers.pop(0)
        if isinstance(answer, str):
            return Decision("no" if answer == "deny" else answer, by="script")  # type: ignore[arg-type]
        return answer


class MemorySecrets(SecretStore):
    """Secrets in a dictionary: `{owner: {name: value}}`."""

    def __init__(self, secrets: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._secrets: dict[str, dict[str, str]] = {
            owner: {name.lower(): value for name, value in named.items()}
            for owner, named in (secrets or {}).items()
        }

    async def get(self, owner: str, name: str) -> str | None:
        return self._secrets.get(owner, {}).get(name.lower()) or None

    async def names(self, owner: str) -> Sequence[str]:
        return sorted(self._secrets.get(owner, {}))

    async def set(self, owner: str, name: str, value: str) -> None:
        self._secrets.setdefault(owner, {})[name.lower()] = value

    async def delete(self, owner: str, name: str) -> bool:
        return self._secrets.get(owner, {}).pop(name.lower(), None) is not None


def call_log() -> tuple[list[tuple[str, Any]], Any]:
    """A list, and a plugin object that writes every started and finished call into it."""
    from hardpoint.hookspecs import API_VERSION, hookimpl

    seen: list[tuple[str, Any]] = []

    class Log:
        HARDPOINT_API = API_VERSION

        @hookimpl
        def hardpoint_call_started(self, call: Any) -> None:
            seen.append(("started", call))

        @hookimpl
        def hardpoint_call_finished(self, call: Any, outcome: Any) -> None:
            seen.append(("finished", outcome))

    return seen, Log()
