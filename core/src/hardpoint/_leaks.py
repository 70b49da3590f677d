"""The leak scanner of a runtime: it learns secrets as they become known."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any


class Leaks:
    """A scanner that every value is added to that was handed out; scans never wait for that."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        self._known = dict(secrets or {})
        self._scanner: Any = None
        self._lock = threading.Lock()

    def learn(self, name: str, value: str) -> None:
        """Find this value too, from now on."""
        with self._lock:
            if self._known.get(name) != value:
                # A replaced value is still a secret: both are kept.
                self._known[name if name not in self._known else f"{name}#{len(self._known)}"] = (
                    value
                )
                self._scanner = None

    def _current(self) -> Any:
        scanner = self._scanner
        if scanner is None:
            from hardpoint.output.leaks import LeakScanner

            with self._lock:
                scanner = self._scanner = LeakScanner(dict(self._known))
        return scanner

    def scan(self, text: str | bytes) -> Any:
        """As `LeakScanner.scan`."""
        scanner = self._scanner
        return (self._current() if scanner is None else scanner).scan(text)

    def __getattr__(self, name: str) -> Any:
        # scan_value, redact, redact_value, redact_bytes
        return getattr(self._current(), name)
