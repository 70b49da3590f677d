"""Background jobs: a list of tool calls, or a worker of the host program, run apart from any call.

`Jobs` is what tools, the command line and host programs use. A job is a row of the store, leased by
the process that runs it; which process that is, and when, a `JobExecutor` decides.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from hardpoint.jobs.model import Job, JobEvent, JobRequest, PlannedCall
    from hardpoint.jobs.service import Jobs

__all__ = ["Job", "JobEvent", "JobRequest", "Jobs", "PlannedCall"]

_EXPORTS = {
    "Job": "model",
    "JobEvent": "model",
    "JobRequest": "model",
    "Jobs": "service",
    "PlannedCall": "model",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
