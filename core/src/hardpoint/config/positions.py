"""Say where each key and value of a TOML text stands. What they mean is read by `tomllib`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Final

import attrs

Path = tuple[str | int, ...]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRING: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_INLINE_BLANK: Final = re.compile(r"[ \t]*")
_PLAIN: Final = re.compile(r"[^\s,\]}#]+(?: [0-9][^\s,\]}#]*)?")


@attrs.frozen
class Span:
    """A stretch of the text, as offsets, and the line that it begins on."""

    start: int
    end: int
    line: int


class _Scanner:
    """Walks over a text that `tomllib` has accepted."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.spans: dict[Path, Span] = {}
        self.tables: dict[Path, Span] = {}
        self._line_at = 0
        self._line = 1

    def scan(self) -> None:
        table: Path = ()
        counts: dict[Path, int] = {}
        while True:
            self._skip(_BLANK)
            if self.at >= len(self.text):
                return
            if self.text[self.at] == "[":
                table = self._header(counts)
            else:
                self._pair(table)

    def _header(self, counts: dict[Path, int]) -> Path:
        start = self.at
        several = self.text.startswith("[[", self.at)
        self.at += 2 if several else 1
        path: Path = self._key()
        self.at = self.text.index("]", self.at) + (2 if several else 1)
        if several:
            counts[path] = counts.get(path, -1) + 1
            path = (*path, counts[path])
        span = Span(start, self.at, self._line_of(start))
        self.spans[path] = self.tables[path] = span
        return path

    def _pair(self, table: Path) -> None:
        start = self.at
        path = (*table, *self._key())
        self.at = self.text.index("=", self.at) + 1
        self._value(path)
        value = self.spans[path]
        self.spans[path] = Span(value.start, value.end, self._line_of(start))

    def _key(self) -> tuple[str, ...]:
        parts: list[str] = []
        while True:
            self._skip(_INLINE_BLANK)
            quoted = _STRING.match(self.text, self.at)
            found = quoted or _BARE.match(self.text, self.at)
            assert found is not None
            raw = found.group()
            parts.append(tomllib.loads(f"k = {raw}")["k"] if quoted else raw)
            self.at = found.end()
            self._skip(_INLINE_BLANK)
            if not self.text.startswith(".", self.at):
                return tuple(parts)
            self.at += 1

    def _value(self, path: Path) -> None:
        self._skip(_BLANK)
        start = self.at
        if self.text[start] == "[":
            self._array(path)
        elif self.text[start] == "{":
            self._inline_table(path)
        else:
            found = _STRING.match(self.text, start) or _PLAIN.match(self.text, start)
            assert found is not None
            self.at = found.end()
        self.spans[path] = Span(start, self.at, self._line_of(start))

    def _array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while True:
            self._skip(_BLANK)
            if self.text[self.at] == "]":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._value((*path, index))
            index += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while True:
            self._skip(_BLANK)
            if self.text[self.at] == "}":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._pair(path)

    def _skip(self, blank: re.Pattern[str]) -> None:
        found = blank.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def _line_of(self, offset: int) -> int:
        if offset < self._line_at:
            return self.text.count("\n", 0, offset) + 1
        self._line += self.text.count("\n", self._line_at, offset)
        self._line_at = offset
        return self._line


def spans_of(text: str) -> Mapping[Path, Span]:
    """Where each key's value, each array member and each table header of a valid TOML text stands.

    The span of a key covers its value; its line is the line of the key.
    """
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.spans


def tables_of(text: str) -> Mapping[Path, Span]:
    """Where each `[table]` header stands."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.tables
