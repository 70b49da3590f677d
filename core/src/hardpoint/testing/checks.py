"""What every plugin, tool and domain must hold, as checks that a plugin's own tests call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from hardpoint.config import Config
from hardpoint.context import JobContext
from hardpoint.errors import DomainUnavailable, SandboxError, ToolError
from hardpoint.interfaces import ExecutionDomain, Invocation
from hardpoint.parts import ToolOutput
from hardpoint.plugins import PluginManager, PluginRecord
from hardpoint.registry import ToolRegistry
from hardpoint.schema import lint
from hardpoint.tools import Tool


def check_plugin(name: str, module: Any, *, settings: dict[str, Any] | None = None) -> PluginRecord:
    """Load a plugin module alone and check that it registers; its record.

    Raises:
        PluginError: It does not load.
        AssertionError: A tool of it breaks a rule.
    """
    config = Config(plugin={name: settings or {}})
    registry = ToolRegistry(protect=True)
    manager = PluginManager(config, registry)
    distribution = f"hardpoint-{name}" if module.__name__.startswith("hardpoint_") else None
    manager.add(name, module, distribution=distribution)
    for tool in registry.all():
        check_tool(tool)
    return manager.records[name]


def check_tool(tool: Tool) -> None:
    """Check what can be said of a tool without calling it.

    Raises:
        AssertionError: It breaks a rule; the message says which.
    """
    definition = tool.definition()
    assert definition.name == tool.name, "the definition carries the tool's name"
    assert definition.description.strip(), f"{tool.name} says what it does"
    assert lint(definition.parameters) == [], f"the schema of {tool.name} can be registered"
    assert tool.definition() == definition, f"{tool.name} describes itself the same way each time"
    known = definition.parameters["properties"]
    assert set(tool.sensitive_params()) <= set(known), "sensitive parameters exist"
    assert tool.execution_timeout() > timedelta(0), "the time-out is positive"


class _Probe(Tool):
    """Runs one command in whatever sandbox its domain gives."""

    name = "probe"
    description = "Probe a domain."

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command

    def parameters_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {}}

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        result = await ctx.sandbox.exec(list(self._command))
        return ToolOutput.success(
            {"exit_code": result.exit_code, "stdout": result.stdout.decode("utf-8", "replace")}
        )


async def check_domain(domain: ExecutionDomain, context: JobContext) -> None:
    """Check a domain that gives a sandbox: it runs, tells failures apart, stops work, and closes.

    Args:
        domain: Not entered yet.
        context: Bound, with a workspace that exists.

    Raises:
        AssertionError: It breaks a rule.
    """

    def invocation(command: Sequence[str], seconds: float = 30) -> Invocation:
        probe = _Probe(command)
        return Invocation(probe, probe.name, {}, context, timedelta(seconds=seconds))

    async with domain:
        ran = await domain.run(invocation(["echo", "inside"]))
        assert ran.result == {"exit_code": 0, "stdout": "inside\n"}, "a command's output comes back"
        failed = await domain.run(invocation(["false"]))
        assert failed.result["exit_code"] == 1, "a failed command is a result, not a broken domain"
        both = await asyncio.gather(
            *(domain.run(invocation(["echo", str(number)])) for number in range(8))
        )
        assert [o.result["stdout"] for o in both] == [f"{n}\n" for n in range(8)], (
            "calls keep apart"
        )
        try:
            await domain.run(invocation(["sleep", "60"], seconds=0.5))
        except ToolError as error:
            assert not isinstance(error, DomainUnavailable), "a time-out is not a missing domain"
        else:
            raise AssertionError("a domain ends work at its time-out")
        again = await domain.run(invocation(["echo", "still here"]))
        assert again.result["exit_code"] == 0, "a time-out does not spoil the next call"
    try:
        await domain.run(invocation(["echo", "closed"]))
    except (DomainUnavailable, SandboxError):
        return
    raise AssertionError("a closed domain refuses calls")
