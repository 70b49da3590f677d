"""Reduce HTML to tags that every parser reads alike, in one pass over it.

The converter behind `pages` takes quadratic time on some markup that no author writes, such as
thousands of tags that never end. What this pass lets through cannot do that: each token is taken
once, whatever follows, and no element is nested hundreds of times in itself.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from typing import Final

# Every alternative succeeds where it begins, if only by reaching the end of the text: no place is
# ever read twice.
_TOKEN: Final = re.compile(
    r"""
      <!--(?:-?>|.*?(?:--!?>|\Z))
    | <(?P<raw>script|style|title|textarea|template|noscript|iframe|noembed|noframes|xmp)
        (?=[\s/>]) .*?(?:</(?P=raw)[^>]*+(?:>|\Z)|\Z)
    | <(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*+)
        (?P<attributes>(?:[^>"']|"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))*+)(?:>|\Z)
    | <[!?/][^>]*+(?:>|\Z)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{0,30}\Z")
_LONGEST_ATTRIBUTES: Final = 4000
_NOT_SHOWN: Final = frozenset(("meta", "link", "base", "plaintext", "frameset", "frame", "param"))
# Elements that end by themselves; a page may hold any number of them.
_MAY_STAY_OPEN: Final = frozenset(
    """
    area base br col embed hr input link meta source track wbr html head body p li dt dd tr td th
    thead tbody tfoot colgroup option optgroup rp rt
    """.split()
)
_DEEPEST: Final = 200
_MOST_IMAGES: Final = 5000
_TITLE: Final = re.compile(r"<title\b[^<>]{0,200}>([^<]{0,2000})</title", re.IGNORECASE)
_ALL_TAGS: Final = re.compile(r"<[^<>]*+>")
_BLANKS: Final = re.compile(r"\s+")


def tidy(text: str) -> str:
    """The same page without comments, scripts, declarations and whatever else is not shown."""
    unclosed: Counter[str] = Counter()

    def one_token(token: re.Match[str]) -> str:
        name = (token["name"] or "").lower()
        if not _NAME.match(name) or name in _NOT_SHOWN:
            return ""
        if name not in _MAY_STAY_OPEN:
            unclosed[name] += -1 if token["slash"] else 1
            most = _MOST_IMAGES if name == "img" else _DEEPEST
            if not 0 <= unclosed[name] <= most:
                unclosed[name] = max(0, min(unclosed[name], most))
                return ""
        if token["slash"]:
            return f"</{name}>"
        attributes = token["attributes"]
        if len(attributes) > _LONGEST_ATTRIBUTES or not token[0].endswith(">"):
            return f"<{name}>"
        return f"<{name}{attributes.replace('<', '&lt;')}>"

    return _TOKEN.sub(one_token, text)


def title_of(text: str) -> str:
    """The title of a page, or an empty text."""
    found = _TITLE.search(text)
    return _in_one_line(html.unescape(found[1])) if found else ""


def text_of(tidied: str) -> str:
    """The bare text of a page that `tidy` has gone over."""
    return _in_one_line(html.unescape(_ALL_TAGS.sub(" ", tidied)))


def _in_one_line(text: str) -> str:
    return _BLANKS.sub(" ", text).strip()
