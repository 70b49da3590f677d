"""What plugins implement, and what they are handed. Import it from here."""

from hardpoint.context import CallHandle, ExecResult, FileEntry, JobContext, Sandbox, Services
from hardpoint.interfaces.agents import (
    Channel,
    Delivery,
    EmbeddingProvider,
    JobExecutor,
    JobRequest,
    JobWorker,
    LlmProvider,
    LlmReply,
    Message,
    PlannedCall,
    Workspace,
)
from hardpoint.interfaces.approval import (
    ApprovalRequest,
    Approver,
    Decision,
    Pending,
    Verdict,
)
from hardpoint.interfaces.clock import Clock, SystemClock
from hardpoint.interfaces.domains import ExecutionDomain, Invocation
from hardpoint.interfaces.installers import (
    CatalogueEntry,
    Check,
    CheckResult,
    Installer,
    InstallState,
    LockEntry,
    WasmToolRegistration,
)
from hardpoint.interfaces.limits import LimitRequest, RateLimiterBackend
from hardpoint.interfaces.output import AuditSink, OutputFilter
from hardpoint.interfaces.secrets import SYSTEM, SecretStore
from hardpoint.interfaces.toolsets import Toolset
from hardpoint.parts import Provenance

__all__ = [
    "SYSTEM",
    "ApprovalRequest",
    "Approver",
    "AuditSink",
    "CallHandle",
    "CatalogueEntry",
    "Channel",
    "Check",
    "CheckResult",
    "Clock",
    "Decision",
    "Delivery",
    "EmbeddingProvider",
    "ExecResult",
    "ExecutionDomain",
    "FileEntry",
    "InstallState",
    "Installer",
    "Invocation",
    "JobContext",
    "JobExecutor",
    "JobRequest",
    "JobWorker",
    "LimitRequest",
    "LlmProvider",
    "LlmReply",
    "LockEntry",
    "Message",
    "OutputFilter",
    "Pending",
    "PlannedCall",
    "Provenance",
    "RateLimiterBackend",
    "Sandbox",
    "SecretStore",
    "Services",
    "SystemClock",
    "Toolset",
    "Verdict",
    "WasmToolRegistration",
    "Workspace",
]
