"""The `http` tool: what a model may ask for, what is sent, and how the answer is shown."""

from hardpoint_builtin.http.tool import HttpTool

__all__ = ["HttpTool"]
