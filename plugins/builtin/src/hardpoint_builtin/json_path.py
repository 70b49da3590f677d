"""Paths into a JSON value: `a.b[0].c`, `$["any key"][2]`. Reading, setting, deleting.

A path is names joined by dots, `[0]` for an index, `["key"]` or `['key']` with JSON escapes for any
key, and an optional leading `$`. The value itself is never changed: what changes is copied.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hardpoint import InvalidParameters
from hardpoint_builtin.refusals import refuse

MAX_LENGTH = 4096
MAX_PARTS = 256

Step = str | int
Path = tuple[Step, ...]

_NAME = re.compile(r"""[^.\[\]]+""")
_DOUBLE = re.compile(r'\["((?:[^"\\]|\\.)*+)"\]', re.DOTALL)
_SINGLE = re.compile(r"\['((?:[^'\\]|\\.)*+)'\]", re.DOTALL)
_INDEX = re.compile(r"\[([^\[\]\"']*)\]")
_PLAIN_NUMBER = re.compile(r"(?:0|[1-9][0-9]*)")
_IN_SINGLE = re.compile(r"\\'|\\.|\"", re.DOTALL)


def parse_path(text: str) -> Path:
    """The steps of a path; none for the whole value (`$` or an empty path).

    Raises:
        InvalidParameters: The path is not well formed.
    """
    if len(text) > MAX_LENGTH:
        raise _invalid(f"the path is longer than {MAX_LENGTH} characters")
    steps: list[Step] = []
    at = 1 if text.startswith("$") else 0
    may_start_with_name = at == 0
    while at < len(text):
        if len(steps) >= MAX_PARTS:
            raise _invalid(f"the path has more than {MAX_PARTS} parts")
        if text[at] == "[":
            step, at = _bracket(text, at)
        elif may_start_with_name or text[at] == ".":
            start = at if may_start_with_name else at + 1
            match = _NAME.match(text, start)
            if match is None:
                raise _invalid(f"a name is missing at character {start + 1} of the path")
            step, at = match[0], match.end()
        else:
            raise _invalid(f"unexpected {text[at]!r} at character {at + 1} of the path")
        may_start_with_name = False
        steps.append(step)
    return tuple(steps)


def read(value: Any, path: Path) -> Any:
    """What stands at the path.

    Raises:
        InvalidParameters: Nothing does; the message says which step failed.
    """
    for depth, step in enumerate(path):
        value = _child(value, step, path[:depth])
    return value


def replace(value: Any, path: Path, new: Any) -> Any:
    """A copy of the value with something else at the path.

    The last name may be new; the last index may be the end of its array, which appends.
    """
    if not path:
        return new
    *parents, last = path
    container = read(value, tuple(parents))
    if isinstance(last, str) and isinstance(container, dict):
        changed: Any = {**container, last: new}
    elif isinstance(last, int) and isinstance(container, list) and last <= len(container):
        changed = [*container[:last], new, *container[last + 1 :]]
    else:
        _child(container, last, tuple(parents))
        raise AssertionError(path)
    return replace(value, tuple(parents), changed)


def delete(value: Any, path: Path) -> Any:
    """A copy of the value without what stands at the path."""
    if not path:
        raise _invalid("the whole value cannot be deleted; name a key or an index")
    *parents, last = path
    container = read(value, tuple(parents))
    _child(container, last, tuple(parents))
    if isinstance(last, str):
        changed: Any = {key: each for key, each in container.items() if key != last}
    else:
        changed = [*container[:last], *container[last + 1 :]]
    return replace(value, tuple(parents), changed)


def show(path: Path) -> str:
    """The path as text that `parse_path` reads back."""
    parts = [
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if _is_plain(step)
        else f"[{_quote(step)}]"
        for step in path
    ]
    return "$" + "".join(parts)


def _bracket(text: str, at: int) -> tuple[Step, int]:
    if match := _DOUBLE.match(text, at):
        return _unquote(match[1]), match.end()
    if match := _SINGLE.match(text, at):
        # As a JSON string: the quote that ends it is the other one.
        body = _IN_SINGLE.sub(lambda m: {"\\'": "'", '"': '\\"'}.get(m[0], m[0]), match[1])
        return _unquote(body), match.end()
    match = _INDEX.match(text, at)
    if match is None:
        raise _invalid(f"the bracket at character {at + 1} of the path is not closed or not quoted")
    if not _PLAIN_NUMBER.fullmatch(match[1]):
        raise refuse(
            "path",
            "invalid_index",
            f"invalid array index: {match[1]!r}; an index is a plain whole number such as [0], "
            'and a key stands in quotes such as ["key"]; the operation `last` reads the end',
            expected="a whole number",
            received=repr(match[1]),
        )
    # Long digits stay text-sized: no array is that long, and int() would be slow.
    return int(match[1][:18]) if len(match[1]) <= 18 else 10**18, match.end()


def _unquote(body: str) -> str:
    try:
        key = json.loads(f'"{body}"', strict=False)
    except ValueError:
        raise _invalid(f"the quoted key {body!r} has an escape that JSON does not know") from None
    return str(key)


def _child(value: Any, step: Step, before: Path) -> Any:
    if isinstance(step, str):
        if not isinstance(value, dict):
            raise _not_indexable(value, f"the key {_quote(step)}", before, "objects have keys")
        if step not in value:
            raise _missing_key(value, step, before)
        return value[step]
    if not isinstance(value, list):
        raise _not_indexable(value, f"the index {step}", before, "arrays have indices")
    if step >= len(value):
        raise refuse(
            "path",
            "index_out_of_bounds",
            f"array index out of bounds: {step}; {show(before)} has {len(value)} items",
            expected=f"an index below {len(value)}",
            received=str(step),
        )
    return value[step]


def _missing_key(value: dict[str, Any], step: str, before: Path) -> InvalidParameters:
    from difflib import get_close_matches

    near = get_close_matches(step, list(value)[:1000], n=3) if len(step) < 200 else []
    listed = near or list(value)[:10]
    names = ", ".join(_quote(name) for name in listed)
    advice = (
        f"did you mean {names}?" if near else f"its keys are {names}" if names else "it is empty"
    )
    return refuse(
        "path",
        "field_not_found",
        f"field not found: {_printable(step)} in {show(before)}; {advice}",
        expected="a key that exists",
        received=_quote(step),
    )


def _not_indexable(value: Any, what: str, before: Path, rule: str) -> InvalidParameters:
    kinds = {
        dict: "an object",
        list: "an array",
        str: "text",
        bool: "a boolean",
        type(None): "null",
    }
    kind = kinds.get(type(value), "a number")
    return refuse(
        "path",
        "not_indexable",
        f"{show(before)} is {kind} and has no {what.removeprefix('the ')}; only {rule}",
        expected="a path that fits the value",
        received=kind,
    )


def _invalid(reason: str) -> InvalidParameters:
    return refuse(
        "path",
        "invalid_path",
        f'invalid path: {_printable(reason)}; write for example a.b[0].c or ["any key"]',
        expected="a path",
        received="another text",
    )


def _is_plain(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name.isprintable() and not name.startswith("$")


def _quote(name: str) -> str:
    return _printable(json.dumps(name, ensure_ascii=False))


def _printable(text: str) -> str:
    """Without lone surrogates, which no terminal or protocol can carry."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
