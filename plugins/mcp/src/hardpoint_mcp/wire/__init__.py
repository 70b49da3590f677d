"""The client's side of the MCP wire: channels, eras, requests. Knows servers, not tools or rules."""
