"""What goes to a model's provider and comes back: definitions, tool calls, results.

All of it is pure: a tool's own definition never changes, and arguments are always held against the
tool's own schema, whatever form a provider was given.
"""

from hardpoint.providers.calls import CUT_OFF, ProviderCall, parse_calls
from hardpoint.providers.definitions import FAMILIES, definitions_for, why_not_strict
from hardpoint.providers.messages import mcp_result, result_messages
from hardpoint.providers.names import NameMap

__all__ = [
    "CUT_OFF",
    "FAMILIES",
    "NameMap",
    "ProviderCall",
    "definitions_for",
    "mcp_result",
    "parse_calls",
    "result_messages",
    "why_not_strict",
]
