"""The protocol revisions this client speaks. The names of the envelope that newer ones carry."""

from __future__ import annotations

from typing import Final

HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions that open with `initialize`, oldest first."""
MODERN: Final = ("2026-07-28",)
"""Revisions without a handshake: version and capabilities travel with every request."""

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
ENVELOPE: Final = frozenset((VERSION_KEY, CLIENT_KEY, CAPABILITIES_KEY, "progressToken"))
"""Keys of `_meta` that belong to one hop and are never passed on."""
