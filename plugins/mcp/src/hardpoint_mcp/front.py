"""Who stands in front of a call: the client whose request it serves, while it is served.

A tool of a server finds here whom to pass questions, progress and log lines to. Calls that no
client stands in front of (library, command line, jobs) find nothing, and the server is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import attrs

from hardpoint import ToolOutput
from hardpoint_mcp.wire.channel import Message
from hardpoint_mcp.wire.session import Asker


@attrs.define(eq=False)
class Front:
    """One request of a client."""

    asker: Asker | None = None
    on_log: Callable[[Message], None] | None = None
    meta: Mapping[str, Any] = attrs.field(factory=dict)
    """What the client sent along that is meant for the server too."""
    first_answers: Any = None
    """Answers that it sent with its first request; for the server, never for an approval."""
    may_approve: bool = True
    """Whether the client's person may answer approvals."""
    approvals: Any = None
    """The runtime's, where a question waits for whoever answers first."""
    raw: Message | None = None
    """What the server answered, exactly."""
    output: ToolOutput | None = None
    """What the tool made of it: while the pipeline left it as it was, `raw` may be given out."""


current_front: ContextVar[Front | None] = ContextVar("hardpoint_mcp_front", default=None)
