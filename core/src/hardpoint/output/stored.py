"""Detectors for the values of stored secrets, in the spellings in which they may come back.

A value is found as it is, escaped for JSON any number of times, URL-encoded, in HTML, in base64
(every alignment, both alphabets, wrapped) and in hexadecimal.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from functools import cache, cached_property

from hardpoint.output.detection import Detector, Finding, Match
from hardpoint.output.patterns import Action
from hardpoint.output.randomness import is_random

Matcher = tuple[list[bytes], Match]

SHORTEST = 4
"""Shorter values are not searched for: they would be found everywhere."""
SURE = 8
"""From here on a value is found in any surroundings and is `block`; below it must stand alone."""

LONG = 240
PART = 96
NEEDLE = 16

_RUN = re.compile(r"[A-Za-z0-9]+")
_WORDS = re.compile(r"[^\s\"'\\,:;{}\[\]]{16,}")
_NAMED = {'"': "quot", "&": "amp", "'": "apos", "<": "lt", ">": "gt"}
_CONTROL = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_ALNUM = re.compile(rb"[A-Za-z0-9]")
_WRAP = rb"(?:\\{0,4}[\r\n]|\\{1,4}[rn]){0,2}\\{0,4}"


def stored_detectors(name: str, value: str) -> list[Detector]:
    """The detectors for one secret; none for a value that is too short to be searched for."""
    detectors: list[Detector] = []
    for piece in _pieces(value.strip()):
        action: Action = "block" if len(piece) >= SURE else "redact"
        matchers = [_TextForm(name, piece, action).matcher()]
        matchers += [_encoded_matcher(name, action, form) for form in _encoded_forms(piece)]
        detectors += [
            Detector("stored_secret", "Stored secrets", action, needles, match)
            for needles, match in matchers
        ]
    return detectors


def _pieces(value: str) -> list[str]:
    """The value, or the random parts of a long one, such as a key file or a JSON document."""
    if len(value) < SHORTEST:
        return []
    if len(value) <= LONG:
        return [value]
    parts = [
        part[at : at + PART]
        for part in _WORDS.findall(value)
        for at in range(0, max(1, len(part) - 15), PART)
        if is_random(part[at : at + PART].encode("utf-8", "surrogatepass"))
    ]
    return parts or [value[:LONG]]


class _TextForm:
    """A value as text, however it was escaped.

    A stretch of letters and digits stays as it is in every escaping, so it is the needle; what
    stands around it is compared character by character.
    """

    def __init__(self, name: str, value: str, action: Action) -> None:
        self._name = name
        self._value = value
        self._action = action
        run = max(_RUN.finditer(value), key=lambda run: len(run[0]), default=None)
        self._seed = run.span() if run is not None and len(run[0]) >= 3 else (0, 0)

    def matcher(self) -> Matcher:
        first, last = self._seed
        if last:
            return [self._value[first:last].encode()], self.match
        # Only marks or another script: the first character, in each of its spellings.
        return sorted(set(_spellings(self._value[0]))), self.match

    def match(self, data: bytes, start: int, end: int) -> Finding | None:
        before, seed = self._seed
        tail = self._tail.match(data, end if seed else start)
        if tail is None:
            return None
        head = self._head.search(data, max(0, start - 16 * before - 16), start)
        if head is None:
            return None
        span = head.start(), tail.end()
        if len(self._value) < SURE and not _stands_alone(data, *span):
            return None
        return Finding("stored_secret", self._action, *span, name=self._name)

    @cached_property
    def _tail(self) -> re.Pattern[bytes]:
        return re.compile(b"".join(map(_any_spelling, self._value[self._seed[1] :])))

    @cached_property
    def _head(self) -> re.Pattern[bytes]:
        before = self._value[: self._seed[0]]
        return re.compile(b"".join(map(_any_spelling, before)) + rb"\Z")


def _encoded_forms(value: str) -> Iterable[bytes]:
    """The value in base64 and hexadecimal, without what depends on its neighbours."""
    raw = value.encode("utf-8", "surrogatepass")
    for shift in (0, 1, 2) if len(value) >= SURE else (0,):
        encoded = b64encode(b"\0" * shift + raw)
        # Characters that also hold bits of a neighbour are left out.
        core = encoded[-(-8 * shift // 6) : 8 * (shift + len(raw)) // 6]
        yield core
        yield core.replace(b"+", b"-").replace(b"/", b"_")
    yield raw.hex().encode()
    yield raw.hex().upper().encode()


def _encoded_matcher(name: str, action: Action, form: bytes) -> Matcher:
    """Compares what follows the first characters of a form, across wrapped lines."""

    @cache
    def pattern() -> re.Pattern[bytes]:
        rest = b"".join(_WRAP + re.escape(form[i : i + 1]) for i in range(NEEDLE, len(form)))
        return re.compile(rest + rb"[A-Za-z0-9+/_-]?(?:=|%3[dD]){0,2}")

    def match(data: bytes, start: int, end: int) -> Finding | None:
        found = pattern().match(data, end)
        if found is None or (action == "redact" and not _stands_alone(data, start, found.end())):
            return None
        return Finding("stored_secret", action, start, found.end(), name=name)

    return [form[:NEEDLE]], match


def _stands_alone(data: bytes, start: int, end: int) -> bool:
    before, after = data[max(0, start - 1) : start], data[end : end + 1]
    return not _ALNUM.match(before) and not _ALNUM.match(after)


def _any_spelling(char: str) -> bytes:
    """A pattern for every way in which one character may come back."""
    if char.isascii() and char.isalnum():
        return char.encode()
    if char == "\\":
        return rb"(?:\\{1,16}|(?:%(?:25){0,3}5[cC])+)"
    code = ord(char)
    raw = char.encode("utf-8", "surrogatepass")
    ways = [rb"\\{0,8}" + re.escape(raw)]
    ways.append(b"".join(rb"%%(?:25){0,3}(?i:%02x)" % byte for byte in raw))
    units = char.encode("utf-16-be", "surrogatepass")
    pairs = [units[i : i + 2].hex().encode() for i in range(0, len(units), 2)]
    ways.append(b"".join(rb"\\{1,8}u(?i:" + pair + b")" for pair in pairs))
    if char in _CONTROL:
        ways.append(rb"\\{1,8}" + _CONTROL[char].encode())
    if char == " ":
        ways.append(rb"\+")
    if char == "\n":
        ways.append(rb"\r\n")
        ways.append(rb"\\{1,8}r\\{1,8}n")
    if char in _NAMED:
        names = (_NAMED[char].encode(), code, code)
        ways.append(rb"&(?:amp;){0,2}(?:%s|#0{0,3}%d|#[xX]0{0,3}(?i:%x));" % names)
    return b"(?:" + b"|".join(ways) + b")"


def _spellings(char: str) -> Iterable[bytes]:
    """The beginnings of every spelling of a character, as needles."""
    raw = char.encode("utf-8", "surrogatepass")
    yield raw
    for percent in (b"%", b"%25", b"%2525"):
        yield b"%b%02X" % (percent, raw[0])
        yield b"%b%02x" % (percent, raw[0])
    unit = char.encode("utf-16-be", "surrogatepass")[:2].hex().encode()
    yield b"\\u" + unit
    yield b"\\u" + unit.upper()
    if char in _CONTROL:
        yield b"\\" + _CONTROL[char].encode()
    if char in _NAMED:
        yield b"&" + _NAMED[char].encode() + b";"
