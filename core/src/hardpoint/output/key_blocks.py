"""Detectors for private keys in blocks of text: PEM, OpenSSH, PGP, PuTTY; also in base64."""

from __future__ import annotations

from hardpoint.output.detection import Detector, Finding, decoded
from hardpoint.output.lazy import Lazy

_BEGIN = Lazy(rb"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}\Z")
_END = Lazy(rb"-{4,5} ?END [A-Z0-9 ]{0,40}\Z")
_DASHES = Lazy(rb"(?: BLOCK)? ?-{4,5}")
_KEY_LINE = Lazy(rb"[A-Za-z0-9+/]{24}")
_KEY_HEAD = Lazy(
    rb"(?:(?:\s|\\+[nr])*+(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash)[^\n\\]{0,200}+)*+"
)
_KEY_LINES = Lazy(
    rb"(?:(?:[\s>|+]|\\+[nrt])*+[A-Za-z0-9+/=]{16,}+)*+"
    rb"(?:(?:\s|\\+[nr])++[A-Za-z0-9+/=]{1,76}+(?=\s|\\|[\"']|\Z))?"
)
_PUTTY = Lazy(rb"\s*\d+(?:\s|\\+[nr])*+(?:[A-Za-z0-9+/=]{16,}+(?:\s|\\+[nr])*+)++")
_BASE64_LINES = Lazy(rb"(?:[A-Za-z0-9+/=_-]++|(?:\s|\\+[nr])++(?=[A-Za-z0-9+/]{60}))*+")


def find_private_key(data: bytes, start: int, end: int) -> Finding | None:
    begin = _BEGIN.search(data, max(0, start - 60), start)
    dashes = _DASHES.match(data, end)
    if begin is None or dashes is None:
        return None
    body = dashes.end()
    following = data.find(b"PRIVATE KEY", body)
    limit = len(data) if following < 0 else following
    closing = _END.search(data, max(body, limit - 60), limit) if following >= 0 else None
    if closing is not None:
        stop = limit + len(b"PRIVATE KEY")
        dashes = _DASHES.match(data, stop)
        stop = dashes.end() if dashes else stop
        held = _KEY_LINE.search(data, body, closing.start())
    else:
        # Cut off, or two beginnings: as far as lines of a key go.
        head = _KEY_HEAD.match(data, body, limit)
        lines = _KEY_LINES.match(data, head.end() if head else body, limit)
        stop = lines.end() if lines else body
        held = _KEY_LINE.search(data, body, stop)
    # The words of the first line alone, as documentation has them, are no key.
    return Finding("private_key", "block", begin.start(), stop) if held else None


def find_putty_key(data: bytes, start: int, end: int) -> Finding | None:
    lines = _PUTTY.match(data, end)
    return Finding("private_key", "block", start, lines.end()) if lines else None


def find_encoded_private_key(data: bytes, start: int, end: int) -> Finding | None:
    if b"PRIVATE KEY" not in decoded(data[start : start + 80]):
        return None
    lines = _BASE64_LINES.match(data, start)
    return Finding("private_key", "block", start, lines.end() if lines else end)


def key_block_detectors() -> list[Detector]:
    """Every detector of this module."""
    return [
        Detector(
            "private_key",
            "Private keys: PEM, OpenSSH, PGP, SSH2",
            "block",
            [b"PRIVATE KEY"],
            find_private_key,
        ),
        Detector(
            "private_key",
            "Private keys of PuTTY",
            "block",
            [b"Private-Lines:"],
            find_putty_key,
        ),
        Detector(
            "private_key",
            "Private keys in base64",
            "block",
            [b"LS0tLS1CRUdJTi"],
            find_encoded_private_key,
        ),
    ]
