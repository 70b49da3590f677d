"""Finding one's way among many tools: search, look at, list and call them by name."""

from hardpoint_builtin.discovery.calling import ToolCallTool
from hardpoint_builtin.discovery.looking import ToolInfoTool, ToolListTool
from hardpoint_builtin.discovery.searching import ToolSearchTool

__all__ = ["ToolCallTool", "ToolInfoTool", "ToolListTool", "ToolSearchTool"]
