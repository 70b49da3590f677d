"""Variables in a server's settings: `${NAME}`, `${NAME:-default}`; `$${NAME}` stands for itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hardpoint.errors import ConfigError

_VARIABLE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def expand(value: Any, variables: Mapping[str, str], where: str) -> Any:
    """The value with every variable in every text replaced.

    Raises:
        ConfigError: Names all variables that are missing, not the first alone.
    """
    missing: dict[str, None] = {}

    def one(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return match[0][1:]
        found = variables.get(name)
        # As in a shell, `:-` also replaces what is empty.
        if default is not None and not found:
            return default
        if found is None:
            missing[name] = None
            return ""
        return found

    def walk(node: Any) -> Any:
        if isinstance(node, str):
            return _VARIABLE.sub(one, node) if "${" in node else node
        if isinstance(node, Mapping):
            return {key: walk(item) for key, item in node.items()}
        if isinstance(node, list | tuple):
            return type(node)(walk(item) for item in node)
        return node

    made = walk(value)
    if missing:
        names = ", ".join(missing)
        raise ConfigError(
            f"{where} uses variables that are not set: {names}",
            hint="set them, or give defaults: ${NAME:-default}",
        )
    return made
