"""Background jobs as tools; the jobs themselves are the core's `services.jobs`."""

from hardpoint_builtin.jobs.create import CreateJobTool
from hardpoint_builtin.jobs.looking import JobEventsTool, JobStatusTool, ListJobsTool
from hardpoint_builtin.jobs.steering import CancelJobTool, JobPromptTool

__all__ = [
    "CancelJobTool",
    "CreateJobTool",
    "JobEventsTool",
    "JobPromptTool",
    "JobStatusTool",
    "ListJobsTool",
]
