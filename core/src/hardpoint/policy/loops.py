"""Stop a caller that repeats the same failing call. A call that succeeds may be repeated."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

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

Key = tuple[str, str, str, bytes]
"""User, session, tool and a hash of the arguments."""


def key_of(user: str, session: str, tool: str, params: Any) -> Key:
    """What makes two calls the same one. Whatever was sent as arguments has a key."""
    try:
        text = json.dumps(params, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):  # mixed keys, circles, a million brackets
        text = f"{type(params).__name__} that is no JSON"
    return user, session, str(tool), sha256(text.encode("utf-8", "surrogatepass")).digest()


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
        self._forget_old()
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
        self._forget_old()
        return self._failures.get(key)

    def _forget_old(self) -> None:
        """Without this one failure would cost every later call the making of its key."""
        before = self._clock() - FORGET_SECONDS
        while self._failures:
            key, oldest = next(iter(self._failures.items()))
            if oldest.at >= before:
                return
            del self._failures[key]
