"""The tool names that no stranger may take, and who provides each of them."""

from __future__ import annotations

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

PROTECTED_OWNERS: Final[dict[str, str | None]] = {
    name: owner for owner, names in _BY_DISTRIBUTION.items() for name in names.split()
}
"""The distribution that provides each protected name; None where the name is only reserved."""

PROTECTED_TOOL_NAMES: Final = frozenset(PROTECTED_OWNERS)

PROTECTED_KINDS: Final[dict[str, Literal["command", "path", "url", "text"]]] = {
    "shell": "command",
    **dict.fromkeys(
        ("read_file", "write_file", "list_dir", "apply_patch", "grep", "glob"), "path"
    ),
    "http": "url",
    "web_fetch": "url",
}
"""The kind of subject of each protected name that has one, so that rules are readable without it."""


def canonical_name(name: str) -> str:
    """One spelling for names that a reader could confuse: `My-Tool` and `my_tool` are one name."""
    return name.replace("-", "_").casefold()
