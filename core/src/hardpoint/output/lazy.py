"""A regular expression that is compiled when it is first used: most are not, in most processes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Method = Callable[..., re.Match[bytes] | None]


class Lazy:
    """Stands for a compiled pattern of bytes."""

    match: Method
    search: Method
    fullmatch: Method

    def __init__(self, pattern: bytes, flags: int = 0) -> None:
        self._pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # Only for what is not there yet: the methods are put in their places, so that the next use
        # is as quick as that of a compiled pattern.
        if name not in ("match", "search", "fullmatch"):
            raise AttributeError(name)
        compiled = re.compile(self._pattern, self._flags)
        self.match = compiled.match
        self.search = compiled.search
        self.fullmatch = compiled.fullmatch
        return getattr(compiled, name)
