"""Turn plain data (TOML, JSON) into our values and back. The one place that makes converters.

Converters here are strict: `5` does not become `"5"`, `"12"` does not become `12`, a text is no
list of letters, and an unknown key is an error that names the nearest known one. Values that were
set are not repeated in errors, because they may be secrets; numbers and listed words are.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from hardpoint.errors import ConfigError
from hardpoint.serde.plain import to_json

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["make_converter", "structure", "to_json"]

T = TypeVar("T")


def structure(value: Any, type_: type[T], where: str) -> T:
    """Turn plain data into a value of a type, or say everything that is wrong with it.

    Args:
        value: What was read: dicts, lists, text, numbers.
        type_: An attrs class or any annotation of the standard library.
        where: The name of the whole, for problems: `plugin.container`.

    Raises:
        ConfigError: `problems` holds each problem with its dotted path.

    Example:
        structure({"requests_per_minute": "5"}, ToolRateLimitConfig, "tools.http.rate_limit")
        # ConfigError: tools.http.rate_limit.requests_per_minute: expected a whole number, got text
    """
    try:
        return _shared_converter().structure(value, type_)
    except Exception as error:  # validators of a plugin's class are foreign code
        from hardpoint.serde.problems import problems

        raise ConfigError(problems(error, where)) from None


def make_converter() -> Converter:
    """A strict converter of one's own, to register more hooks on."""
    from hardpoint.serde.strict import make_strict_converter

    return make_strict_converter()


@cache
def _shared_converter() -> Converter:
    return make_converter()
