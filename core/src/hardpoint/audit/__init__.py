"""What happened, written down so that a later change is noticed.

`AuditLog` writes, `verify` checks every file, `read`, `show` and `stats` answer questions. What is
recorded about a call is decided by the pipeline.
"""

from hardpoint.audit.log import AuditError, AuditLog
from hardpoint.audit.reading import Stats, prune, read, show, stats
from hardpoint.audit.verifying import AuditBreak, AuditReport, verify

__all__ = [
    "AuditBreak",
    "AuditError",
    "AuditLog",
    "AuditReport",
    "Stats",
    "prune",
    "read",
    "show",
    "stats",
    "verify",
]
