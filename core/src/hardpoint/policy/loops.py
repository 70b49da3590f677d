"""Stop a caller that repeats the same failing call. A call that succeeds may be repeated."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import attrs

from hardpoint.calls import CallOutcome
from hardpoint.errors import NotAuthorized

WARN_AFTER: Final = 3
FORGET_SECONDS: Final = 600.0
MAX_REMEMBERED: Final = 10_000

# A refusal that waiting, a person or a mended configuration can change is no reason to stop.
_COUNTED: Final = frozenset(
    ("execution_failed", "external_service", "invalid_parameters", "sandbox", "timeout")
)

Key = tuple[str, str, str, str]
"""User, session, tool and the arguments as canonical JSON."""


@attrs.define
class _Failures:
    count: int
    at: float
    last: str


class LoopGuard:
    """Counts identical failures of each session."""

    def __init__(self, stop_after: int, clock: Callable[[], float]) -> None:
        """Make a guard.

        Args:
            stop_after: The same call is refused after so many failures; 0 never refuses.
            clock: Seconds that only go forward.
        """
        self._stop_after = stop_after
        self._clock = clock
        self._failures: OrderedDict[Key, _Failures] = OrderedDict()

    @property
    def is_idle(self) -> bool:
        """Whether nothing has failed lately, so that no key need be made."""
        return not self._failures

    def refuse_repetition(self, key: Key) -> None:
        """Refuse a call that has failed too often.

        Raises:
            NotAuthorized: The message says how often, and with what.
        """
        found = self._known(key)
        if found is not None and 0 < self._stop_after <= found.count:
            raise NotAuthorized(
                f"{key[2]!r} failed {found.count} times with exactly these arguments,"
                f" the last time: {found.last}",
                hint="Do not retry this call. Change the arguments, use another tool, or ask.",
            )

    def note(self, key: Key, outcome: CallOutcome) -> str | None:
        """Count how a call ended; a warning for the model when it begins to go in circles."""
        if outcome.error is None:
            self._failures.pop(key, None)
            return None
        if outcome.error.kind not in _COUNTED:
            return None
        found = self._known(key) or _Failures(0, 0.0, "")
        found.count += 1
        found.at = self._clock()
        found.last = outcome.error.message[:200]
        self._failures[key] = found
        self._failures.move_to_end(key)
        while len(self._failures) > MAX_REMEMBERED:
            self._failures.popitem(last=False)
        if found.count < WARN_AFTER:
            return None
        return f"this call has now failed {found.count} times with the same arguments"

    def _known(self, key: Key) -> _Failures | None:
        found = self._failures.get(key)
        if found is not None and self._clock() - found.at > FORGET_SECONDS:
            del self._failures[key]
            return None
        return found
