"""Memory: documents that outlive a conversation, per user, searched by words and by meaning."""

from hardpoint_builtin.memory.tools import (
    MemoryReadTool,
    MemorySearchTool,
    MemoryTreeTool,
    MemoryWriteTool,
)
from hardpoint_builtin.memory.workspace import MemoryWorkspace

__all__ = [
    "MemoryReadTool",
    "MemorySearchTool",
    "MemoryTreeTool",
    "MemoryWorkspace",
    "MemoryWriteTool",
]
