"""`shell`: one command line or argv list in the sandbox. What it may be is judged by the policy."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from hardpoint import (
    ApprovalRequirement,
    Canonical,
    JobContext,
    Text,
    ToolOutput,
    ToolRateLimitConfig,
)
from hardpoint.errors import InvalidParameters, SandboxError, ToolTimeout
from hardpoint_container.config import ContainerConfig, size_in_bytes
from hardpoint_container.paths import resolve
from hardpoint_container.shell_policy import is_about_background
from hardpoint_container.tooling import (
    KIB,
    ContainerTool,
    boolean,
    cut_text,
    sandbox_of,
    schema,
    string,
    workspace_of,
)

if TYPE_CHECKING:
    from hardpoint import Effect
    from hardpoint_container.execution import Execution

PREVIEW: Final = 64 * KIB
"""Longest output given back at once: its head and its tail."""
MARGIN: Final = timedelta(seconds=10)


class ShellTool(ContainerTool):
    """Run a command in the sandbox."""

    name = "shell"
    subject_kind = "command"
    description = (
        "Run a command in a sandbox whose working folder is the workspace. A string is run by"
        " sh -c, a list of strings as it stands, without a shell. Files in the workspace and in"
        " /tmp stay between calls; processes end with their call unless started in the"
        " background. There is no network unless the operator allows some."
    )

    def __init__(self, config: ContainerConfig | None = None) -> None:
        self.config = config or ContainerConfig()

    def parameters_schema(self) -> dict[str, Any]:
        usual, most, life = self.config.timeout, self.config.max_timeout, self.config.max_life
        return schema(
            "",
            command={
                "description": "A shell command line, or a program and its arguments as a list."
                " Needed, unless background_id is given.",
                "anyOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "array", "items": {"type": "string"}, "minItems": 1},
                ],
            },
            workdir=string("Folder to run it in, relative to the workspace.", default="."),
            timeout={
                "type": "number",
                "description": f"Seconds it may run, {usual:g} unless given and at most {most:g};"
                f" in the background {life:g}.",
                "exclusiveMinimum": 0,
                "maximum": max(most, life),
            },
            stdin=string("Text for its standard input."),
            background=boolean(
                "Return at once with an id as `background`, and let the command run on in a"
                " sandbox of its own: it shares the workspace, not /tmp or processes.",
                default=False,
            ),
            background_id=string(
                "Instead of a command: tell what this command in the background has written so"
                " far, and whether it still runs.",
            ),
            stop=boolean("With background_id: end that command.", default=False),
        )

    def output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "output": {"type": "string"},
                "exit_code": {"type": "integer"},
                "success": {"type": "boolean"},
                "sandboxed": {"type": "boolean"},
                "signal": {"type": "string"},
                "truncated": {"type": "boolean"},
                "result_ref": {"type": "string"},
                "notice": {"type": "string"},
                "background": {"type": "string"},
                "status": {"enum": ["running", "exited"]},
            },
            "required": ["sandboxed"],
        }

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        if is_about_background(params):
            return ApprovalRequirement.NEVER
        if self.config.policy == "full_access":
            return ApprovalRequirement.ALWAYS
        from hardpoint_container.shell_policy import requirement_of

        return requirement_of(params)

    def rate_limit_config(self) -> ToolRateLimitConfig:
        return ToolRateLimitConfig(30, 300)

    def execution_timeout(self) -> timedelta:
        # The command's own time-out comes first, so that its output is not lost.
        return timedelta(seconds=self.config.max_timeout) + MARGIN

    def effects(self, params: Mapping[str, Any]) -> Collection[Effect]:
        if is_about_background(params):
            return {"process"} if params.get("stop") else {"read"}
        effects: set[Effect] = {"read", "process"}
        if self.config.policy != "read_only":
            effects |= {"write", "delete"}
        if self.config.network != "none":
            effects |= {"network", "send"}
        return effects

    async def canonicalise(self, params: dict[str, Any], context: JobContext) -> Canonical:
        from hardpoint_container.shell_policy import canonicalise_background, canonicalise_command

        if is_about_background(params):
            return canonicalise_background(params)
        canonical = canonicalise_command(params)
        if params.get("background_id") is not None or params.get("stop"):
            raise InvalidParameters(
                "a command is started, or with background_id looked at or stopped; do one at a time"
            )
        most = self.config.max_life if params.get("background") else self.config.max_timeout
        if params.get("timeout", 0) > most:
            raise InvalidParameters(
                f"`timeout` is at most {most:g} seconds here",
                hint="start what runs longer with background = true",
            )
        if "workdir" not in canonical.params:
            return canonical
        found = resolve(workspace_of(context), canonical.params["workdir"], "list")
        if found.kind == "missing":
            raise InvalidParameters(f"there is no folder {canonical.params['workdir']!r} to run in")
        return Canonical({**canonical.params, "workdir": found.path}, canonical.subjects)

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        sandbox, stream = sandbox_of(ctx), Streaming(ctx)
        if is_about_background(params):
            return await self._look(params["background_id"], bool(params.get("stop")), ctx)
        if params.get("background"):
            return await self._start(params, ctx)
        wanted = timedelta(seconds=params.get("timeout", self.config.timeout))
        wanted = min(wanted, sandbox.remaining)
        result = await sandbox.exec(
            params["command"],
            cwd=params.get("workdir", "."),
            stdin=params.get("stdin", "").encode(errors="surrogateescape"),
            timeout=wanted,
            max_bytes=size_in_bytes(self.config.kept_output),
            on_output=stream.take,
        )
        if result.out_of_memory and result.exit_code is None:
            raise SandboxError(
                f"the command used more than the {self.config.memory} of memory it may"
                f" and was ended; {_summary(result)}"
            )
        text = merged(result)
        answer = ending(result, text)
        if len(text) > PREVIEW:
            await keep_whole(ctx, text, answer)
        if result.timed_out:
            raise ToolTimeout(
                wanted,
                f"the command did not finish within {wanted.total_seconds():.3g} s and was ended",
                partial=answer,
            )
        return ToolOutput.success(answer, result.duration)

    async def _start(self, params: Mapping[str, Any], ctx: JobContext) -> ToolOutput:
        job_id = await sandbox_of(ctx).start(
            params["command"],
            cwd=params.get("workdir", "."),
            stdin=params.get("stdin", "").encode(errors="surrogateescape"),
            timeout=timedelta(seconds=params["timeout"]) if "timeout" in params else None,
        )
        return ToolOutput.success({"background": job_id, "status": "running", "sandboxed": True})

    async def _look(self, job_id: str, stop: bool, ctx: JobContext) -> ToolOutput:
        sandbox = sandbox_of(ctx)
        seen = await sandbox.stop(job_id) if stop else sandbox.look(job_id)
        text = merged(seen.execution)
        answer = ending(seen.execution, text)
        answer |= {"background": job_id, "status": "running" if seen.running else "exited"}
        if seen.running:
            del answer["exit_code"], answer["success"]
            return ToolOutput.success(answer)
        if seen.lost:
            answer["notice"] = seen.lost
        elif seen.execution.timed_out:
            answer["notice"] = "it did not finish in its time and was ended"
        elif seen.execution.out_of_memory:
            answer["notice"] = f"it used more than the {self.config.memory} of memory it may"
        if len(text) > PREVIEW:
            await keep_whole(ctx, text, answer)
        return ToolOutput.success(answer)


class Streaming:
    """Gives out what a command writes, while it writes it."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.seen = 0
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")(errors="replace")
            for name in ("stdout", "stderr")
        }

    def take(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self.seen += len(data)
        text = self._decoders[stream].decode(data)
        if text:
            self.context.emit(Text(text))
        self.context.report(self.seen, None, f"{self.seen} bytes of output")


def merged(result: Execution) -> str:
    """Everything that a command wrote."""
    text = cut_text(result.stdout)
    if result.stderr:
        if text and not text.endswith("\n"):
            text += "\n"
        text += "--- stderr ---\n" + cut_text(result.stderr)
    return text


def ending(result: Execution, text: str) -> dict[str, Any]:
    """How a command ended, for a model."""
    answer: dict[str, Any] = {
        "output": head_and_tail(text, PREVIEW),
        "exit_code": -1 if result.exit_code is None else result.exit_code,
        "success": result.ok,
        "sandboxed": True,
    }
    if result.signal is not None:
        answer["signal"] = _signal_name(result.signal)
    if result.cause == "output":
        answer["notice"] = (
            f"it was ended after {sum(result.total_bytes)} bytes of output;"
            " send output to a file and read parts of it"
        )
    if result.truncated or len(text) > PREVIEW:
        answer["truncated"] = True
    return answer


async def keep_whole(context: JobContext, text: str, answer: dict[str, Any]) -> None:
    """Keep a long output for `result_read`; in a run without the core there is nowhere to."""
    handle = context.handle
    if handle is None or handle.services is None:
        return
    answer["result_ref"] = await handle.services.results.save(
        text.encode(), context=context, name="shell output", call_id=context.call_id
    )
    hint = "the whole output: result_read with this result_ref"
    answer["notice"] = f"{answer['notice']}; {hint}" if "notice" in answer else hint


def head_and_tail(text: str, limit: int) -> str:
    """The start and the end of a long text, cut between characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n... [{left_out} characters left out] ...\n{text[-half:]}"


def _summary(result: Execution) -> str:
    return f"its output began: {cut_text(result.stdout[:500])!r}" if result.stdout else "no output"


def _signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
