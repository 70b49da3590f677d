"""Turn JSON and TOML into values and back: the one place that makes cattrs converters."""

from __future__ import annotations

import base64
import difflib
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from hardpoint.errors import ConfigError

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")


def make_converter() -> Converter:
    """A strict converter: `5` is not `"5"`, `"12"` is not `12`, an unknown key is refused."""
    from cattrs import Converter

    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    for scalar in (int, float, str, bool):
        converter.register_structure_hook(scalar, _strict(scalar))
    converter.register_structure_hook(Path, _path)
    converter.register_structure_hook(Decimal, _decimal)
    converter.register_structure_hook(timedelta, _timedelta)
    converter.register_structure_hook_func(_is_any_mapping, lambda value, _: _mapping(value))
    converter.register_structure_hook_func(_is_scalar_union, _structure_union)
    return converter


_converter: Converter | None = None


def structure(value: Any, type_: type[T], where: str) -> T:
    """A value of the type from plain data.

    Args:
        value: What a JSON or TOML reader gave.
        type_: An attrs class, or any type made of those, scalars and collections.
        where: The dotted path of the value, for messages.

    Raises:
        ConfigError: Every problem, each with its dotted path.
    """
    global _converter
    if _converter is None:
        _converter = make_converter()
    try:
        made: T = _converter.structure(value, type_)
    except Exception as error:  # cattrs raises groups, and lets validators' errors through
        raise ConfigError(list(dict.fromkeys(_problems(error, where)))) from error
    return made


def to_json(value: Any) -> Any:
    """A value as JSON: attrs classes as objects, bytes in base64, decimals as text, sets sorted."""
    if attrs.has(type(value)) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in attrs.fields(type(value))}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((to_json(each) for each in value), key=str)
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal | Path):
        return str(value)
    return value


# hooks -----------------------------------------------------------------------------------------


def _strict(scalar: type) -> Callable[[Any, Any], Any]:
    def hook(value: Any, _: Any) -> Any:
        if scalar is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if type(value) is not scalar:
            raise TypeError(f"expected {_name(scalar)}, got {_shown(value)}")
        return value

    return hook


def _name(scalar: type) -> str:
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false"}[scalar]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _path(value: Any, _: Any) -> Path:
    if not isinstance(value, str) or not value or "\0" in value:
        raise TypeError(f"expected a path, got {_shown(value)}")
    return Path(value).expanduser()


def _decimal(value: Any, _: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"expected an amount, got {_shown(value)}")
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        raise TypeError(f"expected an amount, got {_shown(value)}") from None
    if not amount.is_finite():
        raise TypeError(f"expected a finite amount, got {_shown(value)}")
    return amount


def _timedelta(value: Any, _: Any) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected a number of seconds, got {_shown(value)}")
    return timedelta(seconds=value)


def _is_any_mapping(type_: Any) -> bool:
    return type_ in (Mapping[str, Any], dict[str, Any])


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a table, got {_shown(value)}")
    return dict(value)


def _members(type_: Any) -> tuple[Any, ...]:
    return tuple(member for member in getattr(type_, "__args__", ()) if member is not type(None))


def _is_scalar_union(type_: Any) -> bool:
    from types import UnionType
    from typing import Union, get_origin

    if get_origin(type_) not in (Union, UnionType):
        return False
    return len(_members(type_)) > 1


def _structure_union(value: Any, type_: Any) -> Any:
    if value is None and type(None) in type_.__args__:
        return None
    reasons = []
    for member in _members(type_):
        try:
            return (_converter or make_converter()).structure(value, member)
        except Exception as error:  # the next member may fit
            reasons.append(error)
    raise reasons[0]


# problems --------------------------------------------------------------------------------------


def _problems(error: BaseException, where: str) -> Iterator[str]:
    """The leaves of what cattrs raised, each with the dotted path that its notes tell."""
    from cattrs import AttributeValidationNote, ForbiddenExtraKeysError, IterableValidationNote

    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            here = where
            for note in getattr(inner, "__notes__", ()):
                if isinstance(note, AttributeValidationNote):
                    here = f"{where}.{note.name}"
                elif isinstance(note, IterableValidationNote):
                    here = f"{where}[{note.index}]" if isinstance(note.index, int) else f"{where}.{note.index}"
            yield from _problems(inner, here)
        return
    if isinstance(error, ForbiddenExtraKeysError):
        known = [field.name for field in attrs.fields(error.cl)] if attrs.has(error.cl) else []
        for key in sorted(error.extra_fields):
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known) or 'none'}"
            yield f"{where}.{key}: unknown key; {hint}"
        return
    text = str(error.args[0]) if error.args else type(error).__name__
    if isinstance(error, KeyError):
        text = f"missing {text}"
    yield f"{where}: {text}"
