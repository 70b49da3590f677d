"""Hide known secret values in what comes back, however a server spelled them."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

MASK: Final = "[REDACTED]"
_SHORTEST_ENCODED: Final = 4


class Masker:
    """Replaces secret values by `[REDACTED]`: as they are, URL-encoded, in base64 and hexadecimal,
    and as JSON and HTML escape them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(value for value in values if value.strip())
        forms = {form for value in self._values for form in _forms(value)}
        # Longest first, so that no form hides only the middle of another.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))

    def __or__(self, other: Masker) -> Masker:
        """A masker for the values of both."""
        return Masker(self._values | other._values) if other._values - self._values else self

    @property
    def longest(self) -> int:
        """The length in bytes of the longest form."""
        return len(self._forms[0]) if self._forms else 0

    def mask(self, data: bytes) -> bytes:
        for form in self._forms:
            if form in data:
                data = data.replace(form, MASK.encode())
        return data

    def mask_text(self, text: str) -> str:
        if not self._forms:
            return text
        return self.mask(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def finds(self, text: str) -> bool:
        """Whether a text holds one of the values in any form."""
        data = text.encode("utf-8", "surrogatepass")
        return any(form in data for form in self._forms)


def _forms(value: str) -> Iterator[bytes]:
    raw = value.encode()
    yield raw
    for escaped in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield escaped.encode()
        yield escaped.replace("/", "\\/").encode()
    yield html.escape(value).encode()
    for encoded in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield encoded.encode()
        yield _lower_escapes(encoded).encode()
    if len(raw) >= _SHORTEST_ENCODED:
        yield raw.hex().encode()
        yield raw.hex().upper().encode()
        yield from _base64_forms(raw)


def _lower_escapes(text: str) -> str:
    head, *escapes = text.split("%")
    return head + "".join(f"%{escape[:2].lower()}{escape[2:]}" for escape in escapes)


def _base64_forms(raw: bytes) -> Iterator[bytes]:
    """The characters that stand for `raw` alone at each of the three places in a longer text."""
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + raw)
        own = encoded[-(-offset * 8 // 6) : (offset + len(raw)) * 8 // 6]
        yield own
        yield own.translate(bytes.maketrans(b"+/", b"-_"))
