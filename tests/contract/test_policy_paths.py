"""A call that the policy denies does not run, whichever way it is made."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

import hardpoint
from hardpoint import CallOutcome, Decision, JobContext, NotAuthorized, tool
from hardpoint.testing import make_context, make_runtime

PARAMS = {"what": "all"}
ran: list[Any] = []


@tool(effects=["delete"], approval="unless_auto_approved", rate_limit=None)
async def wipe(what: str) -> str:
    """Wipe something."""
    ran.append(what)
    return "wiped"


@tool(effects=["read"])
async def by_call(ctx: JobContext) -> str:
    """Call on, and pass on what is raised."""
    return str((await ctx.services.call("wipe", PARAMS)).result)


@tool(effects=["read"])
async def by_run_with_another_context(ctx: JobContext) -> str:
    """Call on with rights that the caller does not have."""
    stranger = JobContext(user_id="root", auto_approve=True, autonomous=True, mode="auto",
                          allowed_tools=["wipe"])  # fmt: skip
    wider = attrs.evolve(ctx, auto_approve=True, mode="auto")
    for context in (stranger, wider):
        await ctx.services.run("wipe", PARAMS, parent=context)
    return "tried"


@tool(effects=["read"])
def by_call_sync(ctx: JobContext) -> str:
    """Call on from a thread."""
    return str(ctx.services.call_sync("wipe", PARAMS).result)


@tool(effects=["read"])
async def by_two_steps(ctx: JobContext) -> str:
    """Let another tool call on."""
    return str((await ctx.services.call("by_call", {})).result)


HELPERS = [by_call, by_run_with_another_context, by_call_sync, by_two_steps]


# the ways --------------------------------------------------------------------------------------

Way = Callable[[Any, JobContext], Awaitable[Any]]


async def library_run(rt: Any, context: JobContext) -> Any:
    outcome = await rt.run("wipe", PARAMS, context)
    return outcome.error


async def library_call(rt: Any, context: JobContext) -> Any:
    with pytest.raises(hardpoint.ToolError) as refused:
        await rt.call(hardpoint.ToolCall("wipe", dict(PARAMS)), None, context)
    return refused.value


async def arguments_as_text(rt: Any, context: JobContext) -> Any:
    return (await rt.run("wipe", json.dumps(PARAMS), context)).error


async def stream(rt: Any, context: JobContext) -> Any:
    last = [event async for event in rt.stream("wipe", PARAMS, context)][-1]
    assert isinstance(last, CallOutcome)
    return last.error


async def openai(rt: Any, context: JobContext) -> Any:
    function = {"name": "wipe", "arguments": json.dumps(PARAMS)}
    messages = await rt.handle(
        "openai", [{"id": "1", "type": "function", "function": function}], context
    )
    return messages


async def anthropic(rt: Any, context: JobContext) -> Any:
    block = {"type": "tool_use", "id": "1", "name": "wipe", "input": PARAMS}
    return await rt.handle("anthropic", [block], context)


async def gemini(rt: Any, context: JobContext) -> Any:
    return await rt.handle("gemini", [{"functionCall": {"name": "wipe", "args": PARAMS}}], context)


async def many_at_once(rt: Any, context: JobContext) -> Any:
    outcomes = await asyncio.gather(*(rt.run("wipe", PARAMS, context) for _ in range(20)))
    return outcomes[0].error


async def services_of_the_runtime(rt: Any, context: JobContext) -> Any:
    return (await rt.services.run("wipe", PARAMS, parent=context)).error


def nested(name: str) -> Way:
    async def way(rt: Any, context: JobContext) -> Any:
        return await rt.run(name, {}, context)

    way.__name__ = name
    return way


async def job_of_calls(rt: Any, context: JobContext) -> Any:
    from hardpoint.interfaces import JobRequest, PlannedCall

    with contextlib.suppress(hardpoint.ToolError):
        request = JobRequest(title="t", calls=(PlannedCall("wipe", PARAMS),))
        job = await rt.services.jobs.create(request, context)
        await rt.services.jobs.wait(job, timeout=30)


async def job_of_a_worker(rt: Any, context: JobContext) -> Any:
    from hardpoint.interfaces import JobRequest

    async def work(job: Any, job_context: JobContext) -> Any:
        return (await job_context.services.run("wipe", PARAMS)).ok

    rt.services.jobs.register_worker("sly", work)
    with contextlib.suppress(hardpoint.ToolError):
        job = await rt.services.jobs.create(JobRequest(title="t", worker="sly"), context)
        await rt.services.jobs.wait(job, timeout=30)


WAYS = [
    library_run, library_call, arguments_as_text, stream, openai, anthropic, gemini, many_at_once,
    services_of_the_runtime, *(nested(helper.name) for helper in HELPERS), job_of_calls,
    job_of_a_worker,
]  # fmt: skip


# the reasons -----------------------------------------------------------------------------------


async def says_no(request: Any, context: Any) -> Decision:
    return Decision.no("not today")


async def breaks(request: Any, context: Any) -> Decision:
    raise RuntimeError("the phone is dead")


class Strict:
    """A plugin that wants to be asked about everything."""

    HARDPOINT_API = 1

    @hardpoint.hookimpl
    def hardpoint_approval_requirement(self, call: Any) -> Any:
        if call.tool == "wipe":
            return hardpoint.ApprovalRequirement.ALWAYS


class Broken(Strict):
    @hardpoint.hookimpl
    def hardpoint_approval_requirement(self, call: Any) -> Any:
        if call.tool == "wipe":
            raise RuntimeError("no idea")


REASONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a bare deny": ({"deny": ["wipe"]}, {}),
    "a deny on the argument": ({"deny": ["wipe(what:a*)"]}, {}),
    "a deny that an allow cannot lift": (
        {"deny": ["w*"], "allow": ["wipe", "wipe(what:all)"]}, {"auto_approve": True},
    ),
    "mode plan": ({}, {"mode": "plan"}),
    "mode plan for everybody": (
        {"settings": {"policy": {"mode": "plan"}}, "allow": ["wipe"]}, {"auto_approve": True},
    ),
    "mode locked": ({"allow": ["by_*"]}, {"mode": "locked", "auto_approve": True}),
    "switched off": ({"settings": {"tools": {"wipe": {"enabled": False}}}}, {"auto_approve": True}),
    "a plugin that wants to be asked": (
        {"plugins": {"strict": Strict()}, "approver": says_no}, {"auto_approve": True},
    ),
    "a plugin that breaks": ({"plugins": {"broken": Broken()}}, {"auto_approve": True}),
    "a rule that cannot be read": ({"deny": ["wipe(nothing:x)"]}, {"auto_approve": True}),
}  # fmt: skip

# Nobody is asked in a job, so what a person would say no to is no reason there.
PEOPLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a person says no": ({"approver": says_no}, {}),
    "the approver breaks": ({"approver": breaks}, {}),
    "there is no approver": ({}, {}),
    "nobody can be asked": ({}, {"interactive": False}),
}


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_what_is_denied_does_not_run(way: Way, reason: str) -> None:
    options, caller = REASONS[reason]
    await refused(way, options, caller)


@pytest.mark.parametrize("reason", PEOPLE)
@pytest.mark.parametrize("way", WAYS[:-2], ids=lambda way: way.__name__)
async def test_what_nobody_allowed_does_not_run(way: Way, reason: str) -> None:
    options, caller = PEOPLE[reason]
    await refused(way, options, caller)


async def refused(way: Way, options: dict[str, Any], caller: dict[str, Any]) -> None:
    ran.clear()
    async with make_runtime(tools=[wipe, *HELPERS], **options) as rt:
        answer = await way(rt, make_context("ana", **caller))

    assert ran == []
    if isinstance(answer, hardpoint.ToolError):
        assert answer.kind in ("not_authorized", "approval_required", "disabled")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_every_way_runs_what_is_allowed(way: Way) -> None:
    """Without this the tests above would pass where a way leads nowhere."""
    ran.clear()
    async with make_runtime(tools=[wipe, *HELPERS], allow=["wipe"]) as rt:
        with contextlib.suppress(pytest.fail.Exception):  # library_call expects an error
            await way(rt, make_context("ana"))

    assert "all" in ran


async def test_a_denied_tool_is_not_even_shown() -> None:
    async with make_runtime(tools=[wipe, *HELPERS], deny=["wipe"]) as rt:
        for provider in ("openai", "openai-strict", "anthropic", "gemini", "mcp"):
            assert "wipe" not in json.dumps(rt.definitions(provider), default=str)
        assert "wipe" not in [definition.name for definition in rt.visible()]
        outcome = await rt.run("wipe", PARAMS, make_context("ana"))

    assert isinstance(outcome.error, NotAuthorized)
