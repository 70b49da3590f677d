"""Shell and files for agents, in containers: the public names of hardpoint-container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpoint_container.apply_patch import ApplyPatchTool
    from hardpoint_container.config import ContainerConfig
    from hardpoint_container.domain import ContainerDomain
    from hardpoint_container.files import FileReadTool, FileWriteTool, ListDirTool
    from hardpoint_container.search import GlobTool, GrepTool
    from hardpoint_container.shell import ShellTool

    ReadFileTool = FileReadTool
    WriteFileTool = FileWriteTool

__all__ = [
    "ApplyPatchTool",
    "ContainerConfig",
    "ContainerDomain",
    "FileReadTool",
    "FileWriteTool",
    "GlobTool",
    "GrepTool",
    "ListDirTool",
    "ReadFileTool",
    "ShellTool",
    "WriteFileTool",
    "container_tools",
]

# Imported when first used: listing plugins must stay quick.
_HOMES = {
    "ApplyPatchTool": "apply_patch",
    "ContainerConfig": "config",
    "ContainerDomain": "domain",
    "FileReadTool": "files",
    "FileWriteTool": "files",
    "GlobTool": "search",
    "GrepTool": "search",
    "ListDirTool": "files",
    "ShellTool": "shell",
}
_ALIASES = {"ReadFileTool": "FileReadTool", "WriteFileTool": "FileWriteTool"}


def container_tools(config: Any = None) -> list[Any]:
    """One of each tool of this plugin; what `ToolRegistry.register_container_tools` registers."""
    from hardpoint_container.apply_patch import ApplyPatchTool
    from hardpoint_container.files import FileReadTool, FileWriteTool, ListDirTool
    from hardpoint_container.search import GlobTool, GrepTool
    from hardpoint_container.shell import ShellTool

    plain = (FileReadTool, FileWriteTool, ListDirTool, ApplyPatchTool, GrepTool, GlobTool)
    return [ShellTool(config), *(made() for made in plain)]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = _HOMES.get(_ALIASES.get(name, name))
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), _ALIASES.get(name, name))
