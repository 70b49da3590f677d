"""Where the registry's group methods find the tools of installed first-party plugins."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

from hardpoint.errors import MissingPlugin

_GROUPS: Final = {
    "builtin": ("hardpoint-builtin", "builtin_tools"),
    "memory": ("hardpoint-builtin", "memory_tools"),
    "job": ("hardpoint-builtin", "job_tools"),
    "container": ("hardpoint-container", "container_tools"),
    "wasm": ("hardpoint-wasm", "wasm_tool"),
}


def group_function(group: str) -> tuple[Callable[..., Any], str]:
    """The function of a plugin's package that makes a group of tools, and its distribution.

    Raises:
        MissingPlugin: The plugin is not installed; the hint says what to install.
    """
    distribution, function = _GROUPS[group]
    module = distribution.replace("-", "_")
    try:
        package = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise MissingPlugin(
            distribution.removeprefix("hardpoint-"),
            f"the {group} tools are not installed",
            distribution=distribution,
            hint=f"pip install {distribution}",
        ) from error
    return getattr(package, function), distribution
