"""Read JSON text strictly, and say where it goes wrong.

No NaN, no Infinity, no doubled keys, no lone surrogates, no comments; whole numbers keep every
digit; depth and number length are limited, so that hostile text is an error and never a crash.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from hardpoint import InvalidParameters
from hardpoint.errors import Issue

MAX_DEPTH = 200
MAX_DIGITS = 4000  # below CPython's own limit for turning text into a whole number

# Strings are consumed whole, so that brackets inside them do not count.
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_BRACKETS = re.compile(_STRING + r"|[\[{]|[\]}]", re.DOTALL)
_ESCAPES = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udfff]")


class InvalidJson(InvalidParameters):
    """The text is not JSON; `line` and `column` count from 1."""

    def __init__(
        self, reason: str, *, code: str = "invalid_json", line: int = 1, column: int = 1
    ) -> None:
        self.line = line
        self.column = column
        place = f"line {line}, column {column}"
        super().__init__(
            f"invalid JSON input: {reason} at {place}",
            issues=[Issue("/data", code, "JSON text", f"{reason} at {place}")],
        )


def parse(text: str) -> Any:
    """The value that a JSON text stands for.

    Raises:
        InvalidJson: The text is not strict JSON; it names the place.
    """
    _check_depth(text)
    if match := _SURROGATES.search(text):
        _fail(text, match.start(), "a lone surrogate")
    reader = _Reader(text)
    try:
        value = reader.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidJson(_reason(error), line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise InvalidJson("the nesting is too deep", code="too_deep") from None
    if "\\u" in text:
        _check_escapes(text)
    return value


def is_valid(text: str) -> bool:
    """Whether the text is strict JSON."""
    try:
        parse(text)
    except InvalidJson:
        return False
    return True


def write(value: Any, *, indent: int | None = 2) -> str:
    """JSON text of a value: keys in their order, every script readable.

    Raises:
        InvalidJson: A number has no JSON form.
    """
    separators = (",", ": ") if indent else (",", ":")
    try:
        return json.dumps(
            value, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False
        )
    except ValueError as error:
        raise InvalidJson(str(error), code="number_out_of_range") from None


class _Reader(json.JSONDecoder):
    """The standard reader, without its leniences."""

    def __init__(self, text: str) -> None:
        self._text = text
        super().__init__(
            object_pairs_hook=self._object,
            parse_int=self._integer,
            parse_float=self._float,
            parse_constant=self._constant,
        )

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            spelled = json.dumps(_first_doubled(pairs), ensure_ascii=False)
            at = self._text.rfind(spelled)
            _fail(self._text, at, f"the key {spelled} appears twice in one object", "duplicate_key")
        return value

    def _integer(self, digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            self._out_of_range(digits, f"a number has more than {MAX_DIGITS} digits")
        return int(digits)

    def _float(self, digits: str) -> float:
        number = float(digits)
        if number in (float("inf"), float("-inf")):
            self._out_of_range(digits, "a number is too large")
        return number

    def _out_of_range(self, digits: str, reason: str) -> NoReturn:
        _fail(self._text, self._place(digits), reason, "number_out_of_range")

    def _constant(self, word: str) -> NoReturn:
        _fail(self._text, self._place(word), f"{word} is not JSON")

    def _place(self, word: str) -> int:
        """Where a number or word first stands outside a string."""
        outside = re.compile(rf"{_STRING}|(?<![\w.+-])({re.escape(word)})(?![\w.+-])", re.DOTALL)
        return next((m.start() for m in outside.finditer(self._text) if m[1]), 0)


def _fail(text: str, at: int, reason: str, code: str = "invalid_json") -> NoReturn:
    before = text[: max(at, 0)]
    line = before.count("\n") + 1
    raise InvalidJson(reason, code=code, line=line, column=len(before) - before.rfind("\n"))


def _reason(error: json.JSONDecodeError) -> str:
    return error.msg[:1].lower() + error.msg[1:]


def _check_depth(text: str) -> None:
    """Refuse deep nesting before a recursive reader sees it."""
    depth = 0
    for match in _BRACKETS.finditer(text):
        character = match[0][0]
        if character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                _fail(text, match.start(), f"more than {MAX_DEPTH} levels of nesting", "too_deep")
        elif character != '"':
            depth -= 1


def _check_escapes(text: str) -> None:
    """Refuse half of a surrogate pair written as an escape: it stands for no character."""
    waiting: re.Match[str] | None = None
    for match in _ESCAPES.finditer(text):
        unit = int(match[1], 16) if match[1] else 0
        completes = waiting is not None and waiting.end() == match.start()
        if 0xDC00 <= unit <= 0xDFFF and completes:
            waiting = None
            continue
        if waiting is not None or 0xDC00 <= unit <= 0xDFFF:
            _fail(text, (waiting or match).start(), "a lone surrogate")
        waiting = match if 0xD800 <= unit <= 0xDBFF else None
    if waiting is not None:
        _fail(text, waiting.start(), "a lone surrogate")


def _first_doubled(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    return next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
