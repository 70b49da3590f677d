"""The client's side of the wire: channels, eras, requests. Knows servers, not tools or rules."""
