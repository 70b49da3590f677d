"""A second, independent reading of a line, by the tree-sitter grammar for Bash.

Our own reading decides what runs where; this one can only add doubt. A line that the grammar cannot
read, or in which it sees a command at a place where we saw none, is never ordinary.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Parser, Query

_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
# Nothing here has a meaning to a shell beyond separating words.
# Words that our reading takes for syntax, and the grammar sometimes for commands.
_KEYWORDS: Final = frozenset({"}", "{", "then", "else", "elif", "fi", "do", "done", "esac", "time"})
_PLAIN: Final = re.compile(r"[\w ./:=@%+,-]*", re.ASCII)


@lru_cache(maxsize=1)
def _grammar() -> tuple[Parser, Query]:
    import tree_sitter_bash
    from tree_sitter import Language, Parser, Query

    language = Language(tree_sitter_bash.language())
    return Parser(language), Query(language, "(command_name) @name")


def second_reading(
    text: str,
    starts: Collection[int],
    inner: Sequence[tuple[int, int]],
    documents: Sequence[tuple[int, int]] = (),
) -> str | None:
    """Compare a reading with the grammar's.

    Args:
        text: The line.
        starts: Where commands start by our reading.
        inner: Stretches that were read as texts of their own, in which places do not compare.
        documents: Stretches of here-documents, which the grammar often misreads; left out.

    Returns:
        Why the line is doubtful, or None when both readings agree.
    """
    if _PLAIN.fullmatch(text):
        return None
    from tree_sitter import QueryCursor

    parser, query = _grammar()
    for start, end in documents:
        blank = re.sub(r"[^\n]", " ", text[start:end])
        text = text[:start] + blank + text[end:]
    # Its scanner asks the C library about every character, which knows ASCII and crashes on others.
    # To a shell they are all parts of words, as the full stop is.
    root = parser.parse(_NOT_ASCII.sub(".", text).encode()).root_node
    if root.has_error:
        return "a second reader of the shell grammar finds a syntax error"
    stretches = sorted(inner)
    for node in QueryCursor(query).captures(root).get("name", ()):
        at = node.start_byte
        if text[at : at + 5].split("\n", 1)[0].split(" ", 1)[0].rstrip(";") in _KEYWORDS:
            continue
        if at not in starts and not _lies_in(at, stretches):
            return f"a second reader of the shell grammar sees a command at {text[at : at + 20]!r}"
    return None


def _lies_in(at: int, stretches: Sequence[tuple[int, int]]) -> bool:
    """Whether a place lies in one of the stretches, which do not overlap."""
    index = bisect_right(stretches, (at, sys.maxsize)) - 1
    return index >= 0 and at < stretches[index][1]
