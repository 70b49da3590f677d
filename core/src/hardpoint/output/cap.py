"""Cut a text that is too long to give at once: its head and its tail stay.

What is kept of the rest, and for how long, is decided in `results`.
"""

from __future__ import annotations

import attrs

TAIL_SHARE = 5
"""One part in so many goes to the tail: errors and totals stand at the end of an output."""
LINE = 200
"""How far a cut may move to fall on a line's end."""


@attrs.frozen
class Cut:
    """A text without its middle."""

    head: str
    tail: str
    head_bytes: int
    """Where the left-out part begins."""
    left_out: int
    """Its length in bytes."""
    total: int

    def with_notice(self, notice: str) -> str:
        """The text, with the notice in the place of what was left out."""
        return f"{self.head}\n[{notice}]\n{self.tail}"


def cut(text: str, max_bytes: int) -> Cut | None:
    """Cut a text to about `max_bytes` of UTF-8, never inside a character; None when it fits."""
    if len(text) * 4 <= max_bytes:
        return None
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= max_bytes:
        return None
    head_end = boundary(data, max_bytes - max_bytes // TAIL_SHARE)
    line_end = data.rfind(b"\n", max(0, head_end - LINE), head_end) + 1
    head_end = line_end or head_end
    tail_start = boundary(data, len(data) - max_bytes // TAIL_SHARE)
    line_start = data.find(b"\n", tail_start, tail_start + LINE) + 1
    tail_start = line_start or tail_start
    return Cut(
        head=data[:head_end].decode("utf-8", "surrogatepass"),
        tail=data[tail_start:].decode("utf-8", "surrogatepass"),
        head_bytes=head_end,
        left_out=tail_start - head_end,
        total=len(data),
    )


def boundary(data: bytes, at: int) -> int:
    """The beginning of the character that holds byte `at` of UTF-8 text."""
    if at >= len(data):
        return len(data)
    # Four steps at most, so that bytes that are no text cannot move it far.
    for back in range(min(4, at + 1)):
        if data[at - back] & 0xC0 != 0x80:
            return at - back
    return at
