"""Exact text replacement: every edit must match once, or say how often. Touches no file."""

from __future__ import annotations

import difflib
import itertools
import unicodedata
from collections.abc import Sequence
from typing import Final

import attrs

from hardpoint.errors import ExecutionFailed, InvalidParameters

CONTEXT: Final = 2
PREVIEW_LINES: Final = 120
HINT_LINES: Final = 20_000
CLOSE: Final = 0.6


@attrs.frozen
class Edit:
    """Replace one text by another."""

    old: str
    new: str
    everywhere: bool = False


@attrs.frozen
class Patched:
    """A changed text."""

    data: bytes
    replacements: int
    preview: str
    """What changed, as lines with `-` and `+`."""


@attrs.frozen
class _Span:
    start: int
    end: int
    new: bytes
    edit: int


def apply_edits(data: bytes, edits: Sequence[Edit], path: str) -> Patched:
    """Apply all edits, each to the original text, or none.

    Bytes that no edit touches stay as they are, whatever their encoding. In a file with CRLF line
    ends a text with plain line ends matches too, and its replacement gets CRLF.

    Raises:
        ExecutionFailed: A text is not there, or there more than once; the hint helps to mend it.
        InvalidParameters: The edits overlap, or one is empty.
    """
    crlf = b"\r\n" in data and data.count(b"\r\n") == data.count(b"\n")
    spans: list[_Span] = []
    for number, edit in enumerate(edits):
        spans += _spans_of(data, edit, number, path, crlf, len(edits) > 1)
    spans.sort(key=lambda span: span.start)
    for before, after in itertools.pairwise(spans):
        if after.start < before.end:
            raise InvalidParameters(
                f"edits {before.edit + 1} and {after.edit + 1} overlap in {path!r}",
                hint="make one edit of both",
            )
    pieces, at = [], 0
    for span in spans:
        pieces += [data[at : span.start], span.new]
        at = span.end
    pieces.append(data[at:])
    return Patched(b"".join(pieces), len(spans), _preview(data, spans))


def _spans_of(
    data: bytes, edit: Edit, number: int, path: str, crlf: bool, several: bool
) -> list[_Span]:
    which = f"edit {number + 1}: " if several else ""
    if not edit.old:
        raise InvalidParameters(
            f"{which}old_string is empty", hint="to make or replace a whole file use write_file"
        )
    if edit.old == edit.new:
        raise InvalidParameters(f"{which}old_string and new_string are the same")
    old, new = _encode(edit.old, crlf), _encode(edit.new, crlf)
    starts = _find_all(data, old)
    if not starts:
        raise ExecutionFailed(
            f"{which}old_string matched 0 times in {path!r}; it must match exactly,"
            " blanks and line ends included",
            hint=_closest(data, edit.old),
        )
    if len(starts) > 1 and not edit.everywhere:
        lines = ", ".join(str(data.count(b"\n", 0, start) + 1) for start in starts[:10])
        raise ExecutionFailed(
            f"{which}old_string matched {len(starts)} times in {path!r} (lines {lines});"
            " set replace_all=true or provide a unique old_string"
        )
    return [_Span(start, start + len(old), new, number) for start in starts]


def _encode(text: str, crlf: bool) -> bytes:
    if crlf and "\r" not in text:
        text = text.replace("\n", "\r\n")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidParameters("old_string and new_string must be valid Unicode text") from None


def _find_all(data: bytes, old: bytes) -> list[int]:
    starts, at = [], data.find(old)
    while at >= 0:
        starts.append(at)
        at = data.find(old, at + len(old))
    return starts


# helping -----------------------------------------------------------------------------------------


def _closest(data: bytes, old: str) -> str:
    """Where the text nearly is, or what else to do."""
    lines = data.decode(errors="replace").splitlines()
    wanted = old.splitlines() or [old]
    if len(lines) > HINT_LINES or len(wanted) > 400:
        return "read the file again and copy the text from it"
    exact_but_spaces = _find_lines([_plain(line) for line in lines], [_plain(w) for w in wanted])
    if exact_but_spaces is not None:
        return (
            f"lines {exact_but_spaces + 1} to {exact_but_spaces + len(wanted)} differ only in"
            f" blanks or look-alike characters: {_quoted(lines, exact_but_spaces, len(wanted))}"
        )
    first = max(wanted, key=lambda line: len(line.strip()))
    near = difflib.get_close_matches(first, set(lines), n=1, cutoff=CLOSE)
    if near:
        at = max(0, lines.index(near[0]) - wanted.index(first))
        return f"the closest text is at line {at + 1}: {_quoted(lines, at, len(wanted))}"
    return "nothing in the file is like it; read the file again"


def _plain(line: str) -> str:
    folded = unicodedata.normalize("NFKC", line).translate(_LOOK_ALIKES)
    return " ".join(folded.split())


_LOOK_ALIKES: Final = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "\u200b": None}
)


def _find_lines(lines: list[str], wanted: list[str]) -> int | None:
    for start in range(len(lines) - len(wanted) + 1):
        if lines[start] == wanted[0] and lines[start : start + len(wanted)] == wanted:
            return start
    return None


def _quoted(lines: list[str], start: int, count: int) -> str:
    text = "\n".join(lines[start : start + min(count, 12)])
    return repr(text[:600])


def _preview(data: bytes, spans: Sequence[_Span]) -> str:
    """Each change with two lines around it."""
    shown: list[str] = []
    for span in spans:
        if len(shown) > PREVIEW_LINES:
            shown.append(f"… and {len(spans)} changes in all")
            break
        start = data.rfind(b"\n", 0, span.start) + 1
        end = data.find(b"\n", span.end)
        end = len(data) if end < 0 else end
        number = data.count(b"\n", 0, start) + 1
        before = _text(data[:start][-4096:]).splitlines()[-CONTEXT:]
        after = _text(data[end + 1 :][:4096]).splitlines()[:CONTEXT]
        old = _text(data[start:end]).splitlines()
        new = _text(data[start : span.start] + span.new + data[span.end : end]).splitlines()
        shown.append(f"@@ line {number} @@")
        shown += [f" {line}" for line in before]
        shown += [f"-{line}" for line in old[:40]] + [f"+{line}" for line in new[:40]]
        shown += [f" {line}" for line in after]
    return "\n".join(shown)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
