"""MCP for Hardpoint."""
