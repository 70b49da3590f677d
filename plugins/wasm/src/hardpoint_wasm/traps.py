"""Say why a guest ended: the engine's text becomes one of our errors with one sentence."""

from __future__ import annotations

import logging
import re
from datetime import timedelta

from hardpoint.errors import ExecutionFailed, SandboxError, ToolError, ToolTimeout
from hardpoint_wasm.execution import Execution

logger = logging.getLogger(__name__)

# What the engine says after its last "Caused by:", in the order of looking, and what it means.
_MEANINGS: tuple[tuple[str, str, str | None], ...] = (
    (
        "all fuel consumed",
        "used up its fuel of {fuel} units",
        "give it more with `fuel` in [plugin.wasm.tools.NAME]",
    ),
    (
        "call stack exhausted",
        "recursed until its stack of {stack} bytes was full",
        "give it more with `stack` in [plugin.wasm.tools.NAME]",
    ),
    (
        "exceeds memory limits",
        "needs more memory to start than its limit of {memory} bytes",
        "give it more with `memory` in [plugin.wasm.tools.NAME]",
    ),
    ("maximum concurrent", "needs more instances, memories or tables than a tool may have", None),
    (
        "resource limit exceeded",
        "needs more instances, memories or tables than a tool may have",
        None,
    ),
    ("table minimum size", "needs a larger table than a tool may have", None),
    ("unreachable", "aborted: an uncaught exception, a panic or a failed assertion", None),
    ("out of bounds memory access", "accessed memory that it does not have", None),
    ("memory fault", "accessed memory that it does not have", None),
    ("too much data is being copied", "passed more data at once than the engine moves", None),
    ("invalid utf-8", "passed text that is not UTF-8", None),
    ("string pointer/length out of bounds", "passed text from outside its memory", None),
    ("list pointer/length out of bounds", "passed a list from outside its memory", None),
    ("discriminant", "passed a value that its type does not have", None),
    ("cannot enter component instance", "called itself in a way that components may not", None),
)


def explain(error: BaseException, execution: Execution, tool: str = "the tool") -> ToolError:
    """The error to raise for a guest that ended by `error`."""
    if isinstance(error, ToolError):
        return error
    limits = execution.limits
    if execution.reason == "timeout":
        return ToolTimeout(
            timedelta(seconds=limits.timeout),
            f"{tool} was stopped after {limits.timeout:g} s",
            hint="give it more time with `timeout` in [plugin.wasm.tools.NAME], or ask for less",
        )
    if execution.reason == "host_calls":
        return SandboxError(
            f"{tool} used up its {limits.host_calls} host calls",
            hint="allow more with `host_calls` in [plugin.wasm.tools.NAME]",
        )
    if execution.reason is not None:
        return SandboxError(f"{tool} was stopped: {execution.reason}")

    if execution.fault is not None:
        logger.error("a host function of %s failed", tool, exc_info=execution.fault)
        return SandboxError(f"{tool} was stopped: a function of its host failed")

    text = getattr(error, "message", None) or str(error)
    logger.debug("guest of %s ended: %s", tool, text)
    cause = text.rsplit("Caused by:", 1)[-1].strip()
    values = {"fuel": limits.fuel, "stack": limits.stack, "memory": limits.memory}
    for piece, meaning, hint in _MEANINGS:
        if piece in cause:
            return _error(f"{tool} {meaning.format(**values)}", hint, execution)
    # A trap's own words are the engine's; anything else may quote the guest and is kept short.
    cause = re.sub(r"^\d+: ", "", " ".join(cause.split()))[:200]
    return _error(f"{tool} was stopped by the sandbox: {cause}", None, execution)


def failed_command(code: int, execution: Execution, tool: str) -> ToolError:
    """The error for a command that ended with an exit code other than 0."""
    return _with_stderr(ExecutionFailed(f"{tool} ended with exit code {code}"), execution)


def _error(message: str, hint: str | None, execution: Execution) -> ToolError:
    return _with_stderr(SandboxError(message, hint=hint), execution)


def _with_stderr(error: ToolError, execution: Execution) -> ToolError:
    """Add the end of standard error, where most languages explain a crash."""
    tail = execution.stderr.decode("utf-8", "replace").strip()[-1000:]
    if not tail:
        return error
    return type(error)(f"{error.message}\nStandard error ended with:\n{tail}", hint=error.hint)
