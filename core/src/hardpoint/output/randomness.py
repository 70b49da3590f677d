"""Tell random text from words, placeholders and references, one candidate at a time.

What a candidate is, and what follows from the answer, is up to the patterns.
"""

from __future__ import annotations

import re
from itertools import pairwise

# Enough to judge by, so that hostile text cannot make each look expensive.
JUDGED = 80

UPPER, LOWER, DIGIT = re.compile(rb"[A-Z]"), re.compile(rb"[a-z]"), re.compile(rb"[0-9]")
MARK = re.compile(rb"[!#$%&*+./:;=?@^_~|-]")
WORD = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
SEPARATORS = re.compile(rb"[^A-Za-z0-9]+")
PLAIN_PART = re.compile(rb"(?:[A-Z]?[a-z]*|[A-Z]*)[0-9]{0,2}|[0-9]+|v?[0-9]+[a-z]?")
STAND_IN = re.compile(
    rb"your|example|placeholder|change.?me|replace|insert|redacted|dummy|sample|fake|goes.?here"
    rb"|\bhere\b|todo|deadbeef|\bfoo|\bbar\b|lorem",
    re.IGNORECASE,
)
STAND_IN_WORDS = re.compile(
    rb"your|example|placeholder|change|replace|insert|redacted|dummy|sample|fake|goes|here|todo"
    rb"|deadbeef|lorem|foo|bar|this|with|from|please|the|real|actual|valid|value|string|long"
    rb"|openai|anthropic|github|gitlab|google|slack|stripe|aws|azure|api|key|token|secret|access"
    rb"|password|pass|client|account|user|test|live|prod|proj|own|my|me|in|id|is|a|x{3,}",
    re.IGNORECASE,
)
REFERENCE = re.compile(
    rb"[$%{<*]|\[REDACTED|\(|(?:process\.env|os\.environ|os\.getenv|import\.meta|secrets?\.|env[:.]"
    rb"|vars?\.|vault:|secret:|keyring:|arn:|op:|ref:|file:|https?:)",
    re.IGNORECASE,
)


def is_stand_in(text: bytes) -> bool:
    """Whether the text only stands where a secret would: `xxxx`, `1234567890`, `your-key-here`."""
    text = text[:JUDGED]
    size = len(text)
    if len(set(text)) < min(8, size // 3 + 1):
        return True
    # Letters and digits that mostly repeat or follow each other: abcdef, 0123, xxxx.
    steps = sum(0 <= after - before <= 1 for before, after in pairwise(text))
    if steps * 2 > size:
        return True
    parts = SEPARATORS.split(text)
    if len(parts) > 2 and all(map(PLAIN_PART.fullmatch, parts)):
        return True
    # What is left beside the words must be too little for a secret; a word alone proves nothing.
    return bool(STAND_IN.search(text)) and _without_words(text) < min(16, size * 0.6)


def _without_words(text: bytes) -> int:
    return len(SEPARATORS.sub(b"", STAND_IN_WORDS.sub(b"", text)))


def is_words(text: bytes) -> bool:
    """Whether the text reads as words and numbers, however they are joined."""
    text = text[:JUDGED]
    if all(map(PLAIN_PART.fullmatch, SEPARATORS.split(text))):
        return True
    words = WORD.findall(text)
    # One letter case makes long runs of letters also in random text.
    usual = 4 if text.lower() != text != text.upper() else 6
    return not words or sum(map(len, words)) >= usual * len(words)


def is_random(text: bytes) -> bool:
    """Whether the text looks as if a machine had drawn it."""
    kinds = sum(kind.search(text) is not None for kind in (UPPER, LOWER, DIGIT))
    return kinds >= 2 and not is_stand_in(text) and not is_words(text)


def is_strong_password(text: bytes) -> bool:
    """Whether somebody would choose the text as a password, and not to describe one."""
    if not DIGIT.search(text) or text.upper() == text.lower() or is_stand_in(text):
        return False
    mixed = text != text.lower() and text != text.upper()
    return is_random(text) or (mixed and (MARK.search(text) is not None or len(text) >= 10))


def is_reference(text: bytes) -> bool:
    """Whether the text names a place where the secret is kept, or a variable."""
    return REFERENCE.match(text) is not None or b"${" in text or b"{{" in text
