"""For tests of plugins: fakes of time and people, a runtime in one line, checks of interfaces."""

from hardpoint.testing.checks import check_domain, check_plugin, check_tool
from hardpoint.testing.fakes import FakeClock, MemorySecrets, ScriptedApprover
from hardpoint.testing.runtimes import make_context, make_runtime

__all__ = [
    "FakeClock",
    "MemorySecrets",
    "ScriptedApprover",
    "check_domain",
    "check_plugin",
    "check_tool",
    "make_context",
    "make_runtime",
]
