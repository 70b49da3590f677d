"""The tool names that no stranger may take, and who provides each of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final, Literal

_BY_DISTRIBUTION: Final[dict[str | None, str]] = {
    "hardpoint": "result_read",
    "hardpoint-builtin": (
        "echo time json http web_fetch message"
        " memory_search memory_write memory_read memory_tree"
        " create_job list_jobs job_status cancel_job job_events job_prompt"
        " secret_list secret_delete"
        " tool_search tool_install tool_auth tool_activate tool_list tool_remove tool_info"
        " tool_upgrade tool_call extension_info"
        " routine_create routine_list routine_update routine_delete routine_fire routine_history"
        " event_emit"
    ),
    "hardpoint-container": "shell read_file write_file list_dir apply_patch grep glob",
    "hardpoint-builder": "build_software",
    # Reserved: nobody provides them yet.
    None: (
        "skill_list skill_search skill_install skill_remove restart"
        " image_generate image_edit image_analyze"
    ),
}

FIRST_PARTY: Final = frozenset({"builtin", "container", "wasm", "mcp", "redis", "builder"})
"""The plugins of this project, by name; each is the distribution `hardpoint-NAME`."""

PROTECTED_OWNERS: Final[dict[str, str | None]] = {
    name: owner for owner, names in _BY_DISTRIBUTION.items() for name in names.split()
}
"""The distribution that provides each protected name; None where the name is only reserved."""

PROTECTED_TOOL_NAMES: Final = frozenset(PROTECTED_OWNERS)

PROTECTED_KINDS: Final[dict[str, Literal["command", "path", "url", "text"]]] = {
    "shell": "command",
    **dict.fromkeys(("read_file", "write_file", "list_dir", "apply_patch", "grep", "glob"), "path"),
    "http": "url",
    "web_fetch": "url",
}
"""The kind of subject of each protected name that has one, so that rules can be read without it."""


def canonical_name(name: str) -> str:
    """One spelling for names that a reader could confuse: `My-Tool` and `my_tool` are one name."""
    return name.replace("-", "_").casefold()


def install_hint(plugin: str, known: Iterable[str] = ()) -> str:
    """What to do about a plugin that is not there. Never to install a name that may be misspelt."""
    if plugin in FIRST_PARTY:
        return f"pip install hardpoint-{plugin}"
    near = difflib.get_close_matches(plugin, sorted({*known, *FIRST_PARTY}), n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return "install the distribution that brings it, or remove the setting"
