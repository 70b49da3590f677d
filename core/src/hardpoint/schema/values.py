"""Which Python values are JSON values at all, within bounds. What a schema says is not asked here.

Everything that walks arguments or schemas (validator, coercion, hashing, JSON text) relies on these
bounds: without them a cycle or a deeply nested value ends a native library, and the whole process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

MAX_DEPTH: Final = 128
"""Deepest nesting of arguments."""
MAX_VALUES: Final = 250_000
"""Most values in one call's arguments."""
SHALLOW: Final = 6
"""Levels that ordinary arguments have."""
MAX_DIGITS: Final = 4000
"""Longest whole number; Python refuses to print longer ones by default."""

_HUGE: Final[int] = 10**MAX_DIGITS
_PLAIN: Final = frozenset({bool, type(None)})

Path = tuple[str | int, ...]


def pointer(path: Path) -> str:
    """The path as a JSON Pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def describe(value: Any, longest: int = 60) -> str:
    """A value in a few words, for messages. Containers are counted, never shown."""
    if isinstance(value, dict):
        return f"object with {_count(len(value), 'field')}"
    if isinstance(value, list | tuple):
        return f"array of {_count(len(value), 'item')}"
    if isinstance(value, str):
        return "string " + shorten(json.dumps(value), longest)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int) and not -_HUGE < value < _HUGE:
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, int | float):
        return shorten(repr(value), longest)
    return f"a Python {type(value).__name__}"


def same_json(a: Any, b: Any) -> bool:
    """Equality as JSON has it: numbers by value, booleans never equal to numbers."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_json(a[key], b[key]) for key in a)
    return bool(a == b)


def shorten(text: str, longest: int = 80) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def is_clean_text(text: str) -> bool:
    """Whether a text can be written as UTF-8; a lone surrogate cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def clean_size(container: dict[str, Any] | list[Any], levels: int = SHALLOW) -> int:
    """How many values ordinary arguments hold; 0 when only `unusable` can tell if they are JSON."""
    size = 1 + len(container)
    if container.__class__ is dict:
        for key in container:
            if key.__class__ is not str or not (key.isascii() or is_clean_text(key)):
                return 0
        members: Iterable[Any] = container.values()
    else:
        members = container
    for member in members:
        kind = member.__class__
        if kind is str:
            if not (member.isascii() or is_clean_text(member)):
                return 0
        elif kind is int:
            if not -_HUGE < member < _HUGE:
                return 0
        elif kind is float:
            if member - member != 0.0:  # NaN and both infinities
                return 0
        elif kind is dict or kind is list:
            inner = clean_size(member, levels - 1) if levels else 0
            if not inner:
                return 0
            size += inner
        elif kind not in _PLAIN:
            return 0
    return size


def is_small_json(value: Any, most: int) -> bool:
    """The quick answer for schemas: built of JSON's types alone, with at most so many values."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        most -= len(item)
        if most < 0:
            return False
        if item.__class__ is dict:
            for key in item:
                if key.__class__ is not str:
                    return False
            item = item.values()
        for member in item:
            kind = member.__class__
            if kind is dict or kind is list:
                waiting.append(member)
            elif kind is float:
                if member - member != 0.0:
                    return False
            elif kind is not str and kind is not int and kind not in _PLAIN:
                return False
    return True


def unusable(
    value: Any, *, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES
) -> Iterator[tuple[Path, str, str]]:
    """Everything that keeps a value from being JSON: its place, what was expected, what is there.

    Ends after the first breach of a bound, since cycles and shared parts have no end.
    """
    left = max_values
    # Paths are linked backwards and only spelled out for a problem.
    stack: list[tuple[Any, int, _Link | None]] = [(value, 0, None)]
    while stack:
        item, depth, link = stack.pop()
        left -= 1
        if left < 0:
            yield (), f"at most {max_values} values", "more"
            return
        kind = item.__class__
        if kind in _PLAIN:
            continue
        if isinstance(item, str):
            if not is_clean_text(item):
                yield _spell(link), "Unicode text", "text with a lone surrogate"
        elif isinstance(item, int):
            if not -_HUGE < item < _HUGE:
                yield _spell(link), f"a whole number of at most {MAX_DIGITS} digits", "a longer one"
        elif isinstance(item, float):
            if item - item != 0.0:
                yield _spell(link), "a finite number", str(item)
        elif isinstance(item, dict | list):
            if depth >= max_depth:
                yield _spell(link)[:1], f"at most {max_depth} levels of nesting", "deeper nesting"
                return
            if len(item) > left:
                yield (), f"at most {max_values} values", "more"
                return
            if isinstance(item, dict):
                for key, member in item.items():
                    if not isinstance(key, str) or not is_clean_text(key):
                        named = "a text" if isinstance(key, str) else describe(key)
                        yield _spell(link), "Unicode text as key", named
                    else:
                        stack.append((member, depth + 1, (link, key)))
            else:
                stack.extend((member, depth + 1, (link, n)) for n, member in enumerate(item))
        else:
            yield _spell(link), "a JSON value", describe(item)


_Link = tuple["_Link | None", str | int]


def _spell(link: _Link | None) -> Path:
    steps: list[str | int] = []
    while link is not None:
        link, step = link
        steps.append(step)
    return tuple(reversed(steps))


def count_by_depth(
    value: Any, *, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES
) -> list[int] | None:
    """How many values stand at each depth; None when they are too deep or too many."""
    counts: list[int] = []
    level = [value]
    while level:
        counts.append(len(level))
        max_values -= len(level)
        if len(counts) > max_depth + 1 or max_values < 0:
            return None
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        level = deeper
    return counts


def text_length(value: Any) -> int:
    """Characters in all texts of a value that is known to be JSON, keys included."""
    total = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, dict):
            total += sum(map(len, item))
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return total
