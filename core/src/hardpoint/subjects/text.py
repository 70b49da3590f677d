"""Patterns over plain text: a glob in which letter case counts."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache

import attrs

from hardpoint.errors import ConfigError


@attrs.frozen
class TextPattern:
    """`*`, `?` and `[…]` as in file names; every other character is itself."""

    spec: str

    @classmethod
    def parse(cls, spec: str) -> TextPattern:
        """Read a pattern.

        Raises:
            ConfigError: It is empty.
        """
        if not spec:
            raise ConfigError("a text pattern is empty; write `*` for any text")
        return cls(spec)

    def matches(self, value: object, operation: str = "") -> bool:
        """Whether the whole text fits; what is no text fits nothing."""
        return isinstance(value, str) and _compiled(self.spec).fullmatch(value) is not None


@lru_cache(maxsize=512)
def _compiled(spec: str) -> re.Pattern[str]:
    # Several stars in a row mean one, and would only cost time.
    return re.compile(fnmatch.translate(re.sub(r"\*+", "*", spec)))
