"""What every detector of the leak scan gives and needs: findings, boundaries, the needles."""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence

import attrs

from hardpoint.output.patterns import Action


@attrs.frozen
class Finding:
    """A stretch of text that holds a secret."""

    kind: str
    action: Action
    """`block`: must not leave the machine at all. `redact`: is replaced, and refuses nothing."""
    start: int
    end: int
    name: str | None = attrs.field(default=None, kw_only=True)
    """The name of a stored secret."""


Match = Callable[[bytes, int, int], Finding | None]
"""Looks at one hit of a needle, `data[start:end]`, and says what it belongs to."""


@attrs.frozen
class Detector:
    """Looks at the places where one of its needles stands."""

    kind: str
    title: str
    action: Action
    needles: Sequence[bytes]
    match: Match
    bounded: bool = False
    """A word that goes on at the needle's start is no hit."""


_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
# A letter in front is no letter when it ends an escape: "\n", "\u003d", "%3D", a terminal colour.
_ESCAPE = re.compile(
    rb"(?:\\[nrtbfv0]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2}"
    rb"|(?:\x1b|\\u001b|\\x1b|\\033|\\e)\[[0-9;]{0,12}m)\Z"
)
_ESCAPE_ENDS = frozenset(b"0123456789abcdefABCDEFm")
_MORE = re.compile(rb"[A-Za-z0-9+/=_.~%-]*")
LONGEST = 400


def at_boundary(data: bytes, start: int) -> bool:
    """Whether no word goes on at `start`."""
    if start == 0 or (last := data[start - 1]) not in _WORD:
        return True
    if last not in _ESCAPE_ENDS and (start < 2 or data[start - 2] != 92):
        return False
    return _ESCAPE.search(data, max(0, start - 24), start) is not None


def whole(data: bytes, start: int, end: int) -> int:
    """Where a token that was read up to the longest length really ends."""
    if end - start < LONGEST:
        return end
    more = _MORE.match(data, end)
    return more.end() if more else end


def decoded(text: bytes) -> bytes:
    """What base64 text stands for, in either alphabet; nothing when it is none."""
    text = text.rstrip(b"=")
    text = text[: len(text) - (len(text) % 4 == 1)]
    padded = text + b"=" * (-len(text) % 4)
    try:
        return urlsafe_b64decode(padded) if b"-" in text or b"_" in text else b64decode(padded)
    except Base64Error:
        return b""
