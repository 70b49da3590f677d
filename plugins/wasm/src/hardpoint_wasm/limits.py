"""How much one execution of a tool may use. `slot` and `host` decide where the numbers bite."""

from __future__ import annotations

import attrs
from attrs.validators import ge, optional

MIB = 1 << 20


@attrs.frozen(kw_only=True)
class Limits:
    """What one execution may use. Every limit has a default; none can be switched off but fuel."""

    memory: int = attrs.field(default=64 * MIB, validator=ge(65536))
    """Bytes of a linear memory, of which a tool has at most two: the second one is for adapters,
    and empty in practice. A Python tool needs 14 MiB to start."""
    timeout: float = attrs.field(default=30.0, validator=attrs.validators.gt(0))
    """Seconds of wall clock, waiting for host functions included."""
    fuel: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Instructions, roughly; off by default, since fuel does not see host calls or waiting."""
    stack: int = attrs.field(default=512 * 1024, validator=[ge(65536), attrs.validators.le(MIB)])
    """Bytes of stack. The engine cannot see how large the thread's own stack is: at most 1 MiB."""
    table_elements: int = attrs.field(default=100_000, validator=ge(1))
    """Elements of one table; a tool has at most 16 tables."""
    host_calls: int = attrs.field(default=10_000, validator=ge(0))
    """Calls of host functions of every kind."""
    logs: int = attrs.field(default=1000, validator=ge(0))
    log_bytes: int = attrs.field(default=4096, validator=ge(16))
    http_requests: int = attrs.field(default=50, validator=ge(0))
    tool_invocations: int = attrs.field(default=20, validator=ge(0))
    output_bytes: int = attrs.field(default=MIB, validator=ge(1))
    """Bytes of the answer: the output text of a component, the standard output of a command."""
    stderr_bytes: int = attrs.field(default=16 * 1024, validator=ge(0))
    """Bytes of standard error that are kept, for the message of a failure."""


# What a guest may have beside its memory; no real tool comes near.
MEMORIES = 2
TABLES = 16
INSTANCES = 64
LIST_ITEMS = 200_000
"""Items of lists (byte lists aside) that one execution may hand to the host."""
