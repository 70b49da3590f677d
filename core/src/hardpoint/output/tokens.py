"""Detectors for the tokens of the table in `patterns`."""

from __future__ import annotations

from hardpoint.output.detection import Detector, Finding, Match, whole
from hardpoint.output.lazy import Lazy
from hardpoint.output.patterns import PROVIDERS, TokenPattern
from hardpoint.output.randomness import is_random, is_stand_in

# A checksum may hold anything, also the beginning of a token.
_DIGEST = Lazy(rb"(?:sha(?:1|224|256|384|512)|md5)[-=:][A-Za-z0-9+/_-]{0,120}\Z")


def token_detectors() -> list[Detector]:
    """One detector for each row."""
    return [
        Detector(
            row.kind,
            row.title,
            row.action,
            row.begins.encode().split(),
            _matcher(row),
            bounded=not row.before,
        )
        for row in PROVIDERS
    ]


def _matcher(row: TokenPattern) -> Match:
    rest = Lazy(row.rest.encode())
    before = Lazy(rf"(?:{row.before})\Z".encode()) if row.before else None
    narrowed = "(?P<secret>" in row.rest
    kind, action, loose = row.kind, row.action, row.loose

    def match(data: bytes, start: int, end: int) -> Finding | None:
        if before is not None:
            front = before.search(data, max(0, start - 100), start)
            if front is None:
                return None
            start = front.start()
            # A look at one character only is a stricter boundary, not part of the token.
            if front.end() - start == 1 and not chr(data[start]).isalnum():
                start += 1
        found = rest.match(data, end)
        if found is None:
            return None
        if _DIGEST.search(data, max(0, start - 130), start):
            return None
        body = found.group("secret") if narrowed else found.group()
        if is_stand_in(body or data[start:end]) or (loose and not is_random(body)):
            return None
        if narrowed:
            return Finding(kind, action, *found.span("secret"))
        return Finding(kind, action, start, whole(data, start, found.end()))

    return match
