"""Extensions: found in catalogues, installed, logged in to, activated, upgraded and removed.

    search → tool_install → tool_auth → tool_activate → use

What is installed and how is decided by the `installer` extensions of other plugins. Here stands
what is the same for all kinds: catalogues, states, approvals and the tools.
"""

from __future__ import annotations

from hardpoint import Tool
from hardpoint_builtin.extensions.install import ToolInstallTool, ToolUpgradeTool
from hardpoint_builtin.extensions.lifecycle import (
    ExtensionInfoTool,
    ToolActivateTool,
    ToolAuthTool,
    ToolRemoveTool,
)
from hardpoint_builtin.extensions.states import list_extensions, search_catalogues

__all__ = [
    "ExtensionInfoTool",
    "ToolActivateTool",
    "ToolAuthTool",
    "ToolInstallTool",
    "ToolRemoveTool",
    "ToolUpgradeTool",
    "extension_tools",
    "list_extensions",
    "search_catalogues",
]


def extension_tools() -> list[Tool]:
    """The tools of this package."""
    return [
        ToolInstallTool(),
        ToolAuthTool(),
        ToolActivateTool(),
        ToolUpgradeTool(),
        ToolRemoveTool(),
        ExtensionInfoTool(),
    ]
