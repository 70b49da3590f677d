"""Where tools run: this process, and places that plugins bring."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import hardpoint
from hardpoint import JobContext, Tool, ToolOutput, ToolTimeout, tool
from hardpoint.interfaces import ExecResult, ExecutionDomain, Invocation
from hardpoint.testing import make_context, make_runtime

ANA = make_context("ana")


class FakeSandbox:
    """A sandbox in which `echo` works and nothing else does."""

    async def exec(self, command: Any, **options: Any) -> ExecResult:
        words = command if isinstance(command, list) else command.split()
        if words[0] == "echo":
            return ExecResult(0, stdout=" ".join(words[1:]).encode())
        return ExecResult(127, stderr=b"no such command")

    async def read(self, path: str, *, offset: int = 0, max_bytes: int | None = None) -> bytes:
        return b""

    async def write(self, path: str, data: bytes) -> None: ...

    async def list(self, path: str = ".") -> list[Any]:
        return []


class Place(ExecutionDomain):
    killable: ClassVar[bool] = True

    def __init__(self, **facts: Any) -> None:
        self.facts = facts
        self.invocations: list[Invocation] = []

    async def run(self, invocation: Invocation) -> ToolOutput:
        self.invocations.append(invocation)
        return await invocation.execute(FakeSandbox())

    def explain(self) -> dict[str, Any]:
        return self.facts


def plugin(domain: ExecutionDomain, name: str = "place") -> Any:
    def register(registry: Any) -> None:
        registry.register(name, domain)

    return SimpleNamespace(
        HARDPOINT_API=1, __name__="acme", hardpoint_register_domains=hardpoint.hookimpl(register)
    )


class Say(Tool):
    name = "say"
    description = "Say something in there."

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        }

    def domain(self) -> str:
        return "place"

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        result = await ctx.sandbox.exec(["echo", params["text"]])
        return ToolOutput.text(result.stdout.decode())


async def test_a_tool_works_through_the_sandbox_of_its_domain() -> None:
    place = Place()

    async with make_runtime(tools=[Say()], plugins={"acme": plugin(place)}) as rt:
        output = await rt.call("say", {"text": "inside"}, ANA)

    (invocation,) = place.invocations
    assert output.result == "inside"
    assert (invocation.name, invocation.params) == ("say", {"text": "inside"})
    assert invocation.timeout == timedelta(seconds=60)


async def test_a_domain_is_told_what_is_left_of_the_time() -> None:
    place = Place()
    settings = {"tools": {"say": {"timeout": 7}}}

    async with make_runtime(
        tools=[Say()], plugins={"acme": plugin(place)}, settings=settings
    ) as rt:
        await rt.call("say", {"text": "x"}, ANA)

    assert place.invocations[0].timeout == timedelta(seconds=7)


async def test_a_killable_domain_ends_the_work_and_gives_what_there_was() -> None:
    class Killing(Place):
        async def run(self, invocation: Invocation) -> ToolOutput:
            await asyncio.sleep(invocation.timeout.total_seconds())
            raise ToolTimeout(invocation.timeout, partial=ToolOutput.text("half of it"))

    settings = {"tools": {"say": {"timeout": 0.05}}}
    async with make_runtime(
        tools=[Say()], plugins={"acme": plugin(Killing())}, settings=settings
    ) as rt:
        outcome = await rt.run("say", {"text": "x"}, ANA)

    assert isinstance(outcome.error, ToolTimeout)
    assert not outcome.error.still_running
    assert outcome.partial is not None
    assert outcome.partial.result == "half of it"
    assert "half of it" in outcome.to_model_text()


async def test_what_a_domain_gives_must_be_an_output() -> None:
    class Wrong(Place):
        async def run(self, invocation: Invocation) -> Any:
            return "text"

    async with make_runtime(tools=[Say()], plugins={"acme": plugin(Wrong())}) as rt:
        outcome = await rt.run("say", {"text": "x"}, ANA)

    assert isinstance(outcome.error, hardpoint.ExecutionFailed)
    assert "ToolOutput" in outcome.error.message


@pytest.mark.parametrize("name", ["orchestrator"])
def test_the_cores_own_domain_cannot_be_replaced(name: str) -> None:
    with pytest.raises(hardpoint.PluginError, match=name):
        make_runtime(plugins={"acme": plugin(Place(), name)})


async def test_explain_says_what_a_domain_contains() -> None:
    async with make_runtime(tools=[Say()], plugins={"acme": plugin(Place(network="none"))}) as rt:
        told = await rt.explain("say", {"text": "x"}, ANA)

    assert told["domain"] == "place"
    assert told["contains"] == {"network": "none"}


async def test_explain_says_what_a_tools_own_sandbox_contains() -> None:
    class Boxed(Say):
        def domain(self) -> str:
            return "orchestrator"

        def containment(self) -> dict[str, str]:
            return {"sandbox": "a box"}

    async with make_runtime(tools=[Boxed()]) as rt:
        told = await rt.explain("say", {"text": "x"}, ANA)

    assert told["contains"] == {"sandbox": "a box"}


async def test_a_function_that_takes_the_context_may_live_in_a_domain() -> None:
    @tool(domain="place", effects=())
    async def look(ctx: JobContext) -> str:
        """Look around."""
        return str((await ctx.sandbox.exec("ls")).exit_code)

    async with make_runtime(tools=[look], plugins={"acme": plugin(Place())}) as rt:
        assert (await rt.call("look", {}, ANA)).result == "127"


def test_a_function_that_cannot_see_a_sandbox_may_not() -> None:
    async def look() -> str:
        """Look around."""
        return ""

    with pytest.raises(hardpoint.RegistrationError, match="place"):
        make_runtime(tools=[tool(look, domain="place")])
