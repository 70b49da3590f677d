"""Say what is wrong with plain data: every problem with its dotted path."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import attrs


def problems(error: BaseException, where: str) -> list[str]:
    """Everything that an error of a converter says about the value called `where`."""
    from cattrs.errors import (
        ClassValidationError,
        ForbiddenExtraKeysError,
        IterableValidationError,
    )

    if isinstance(error, ClassValidationError):
        named, others = error.group_exceptions()
        found = [p for e, note in named for p in problems(e, _join(where, note.name))]
        return found + [p for e in others for p in _of_class(e, where, error.cl)]
    if isinstance(error, IterableValidationError):
        placed, others = error.group_exceptions()
        found = [p for e, note in placed for p in problems(e, _inside(where, note.index))]
        return found + [p for e in others for p in problems(e, where)]
    if isinstance(error, ForbiddenExtraKeysError):
        return _of_class(error, where, error.cl)
    if isinstance(error, KeyError):
        return [f"{where}: missing"]
    return [f"{where}: {error or type(error).__name__}"]


def _inside(where: str, index: int | str) -> str:
    return f"{where}[{index}]" if isinstance(index, int) else _join(where, str(index))


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _of_class(error: BaseException, where: str, owner: Any) -> list[str]:
    from cattrs.errors import ForbiddenExtraKeysError

    known = [field.alias or field.name for field in attrs.fields(owner)] if attrs.has(owner) else []
    if isinstance(error, ForbiddenExtraKeysError):
        return [
            f"{_join(where, key)}: unknown key{_nearest(key, known)}"
            for key in sorted(map(str, error.extra_fields))
        ]
    # Validators of attrs begin their message with the field: "'port' must be >= 1: 0".
    text = str(error.args[0]) if error.args else type(error).__name__
    for name in known:
        if text.startswith(f"'{name}' "):
            return [f"{_join(where, name)}: {text.removeprefix(repr(name)).strip()}"]
    return problems(error, where) if not known else [f"{where}: {text}"]


def _nearest(key: str, known: Sequence[str]) -> str:
    near = get_close_matches(key, known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known are {', '.join(sorted(known))}" if known else ""
