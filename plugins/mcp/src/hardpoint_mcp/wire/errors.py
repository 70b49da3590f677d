"""How talking to a server fails: it answered with an error, or it is gone. Nothing about tools."""

from __future__ import annotations

import re
from typing import Any

from hardpoint.errors import ExternalService

# JSON-RPC and MCP error codes that decide what happens next.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042


class WireError(ExternalService):
    """A request to a server came to nothing."""


class BadAnswer(WireError):
    """What came back is no answer; the connection itself is fine."""


class RpcError(WireError):
    """The server answered a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(plain(message) or f"error {code}")
        self.code = code
        self.said = message
        """The message exactly as it came, for passing on."""
        self.data = data

    @classmethod
    def from_wire(cls, error: Any) -> RpcError:
        if not isinstance(error, dict):
            return cls(INTERNAL_ERROR, "the server sent an error of an unknown shape")
        code = error.get("code")
        message = error.get("message")
        return cls(
            code if isinstance(code, int) else INTERNAL_ERROR,
            message if isinstance(message, str) else "",
            error.get("data"),
        )


class ConnectionLost(WireError):
    """The server is gone, or was never there.

    `sent` is False only when the request certainly never left, so that trying again is safe.
    """

    def __init__(self, message: str, *, sent: bool = True, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.sent = sent


class SessionLost(ConnectionLost):
    """An HTTP server no longer knows the session; a new one must be made."""


class AuthRequired(ConnectionLost):
    """The server wants credentials that it was not given."""

    def __init__(self, message: str, *, challenge: str = "", hint: str | None = None) -> None:
        super().__init__(message, sent=False, hint=hint)
        self.challenge = challenge


_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]{0,500}>", re.IGNORECASE | re.DOTALL)


def plain(text: str, limit: int = 300) -> str:
    """Text of a stranger for one line of ours: no markup, no control characters, not long."""
    text = text[:20_000]
    if "<" in text:
        text = _TAG.sub(" ", text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
