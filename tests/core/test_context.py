"""Who calls, and what a running call sees of the core."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import attrs
import pytest

import hardpoint
from hardpoint import JobContext, Text, tool
from hardpoint.interfaces import CallHandle
from hardpoint.testing import make_context, make_runtime

ANA = make_context("ana", session_id="s1", metadata={"a": 1})


def test_only_the_user_must_be_named() -> None:
    context = JobContext(user_id="ana")

    assert context.session_id == "default"
    assert context.interactive
    assert context.mode == "default"
    assert context.auto_approve is False
    assert context.origin == "library"
    assert (context.call_id, context.depth, context.parent) == (None, 0, None)


def test_a_context_cannot_be_changed() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        ANA.user_id = "bo"  # type: ignore[misc]
    assert attrs.evolve(ANA, user_id="bo").session_id == "s1"


@pytest.mark.parametrize("name", ["origin", "handle", "services", "parent", "depth", "sandbox"])
def test_what_the_runtime_sets_cannot_be_given(name: str) -> None:
    with pytest.raises(TypeError):
        JobContext(user_id="ana", **{name: "gateway"})  # type: ignore[arg-type]


def test_fields_are_made_what_they_should_be() -> None:
    context = JobContext(
        user_id="ana", workspace="here", auto_approve="echo", allowed_tools=["a", "b"]
    )  # type: ignore[arg-type]

    assert context.workspace == Path("here")
    assert context.auto_approve == {"echo"}
    assert context.allowed_tools == {"a", "b"}
    with pytest.raises(ValueError, match="mode"):
        JobContext(user_id="ana", mode="yolo")  # type: ignore[arg-type]


def test_outside_a_call_there_are_no_services_and_no_sandbox() -> None:
    with pytest.raises(RuntimeError, match="inside a call"):
        ANA.services
    with pytest.raises(hardpoint.DomainUnavailable):
        ANA.sandbox
    ANA.report(1, 2, "nobody watches")
    ANA.emit(Text("nobody watches"))


def test_secrets_of_the_environment_are_not_in_its_repr() -> None:
    assert "hidden" not in repr(JobContext(user_id="ana", extra_env={"TOKEN": "hidden"}))


async def test_a_tool_receives_a_bound_copy_and_the_callers_own_stays_as_it_is() -> None:
    seen: list[JobContext] = []

    @tool(effects=())
    async def look(context: JobContext) -> str:
        """Look."""
        seen.append(context)
        return ""

    async with make_runtime(tools=[look], origin="gateway") as rt:
        outcome = await rt.run("look", {}, ANA)

    (bound,) = seen
    assert bound.call_id == outcome.call_id
    assert (bound.user_id, bound.session_id, bound.metadata) == ("ana", "s1", {"a": 1})
    assert (bound.origin, bound.depth, bound.parent) == ("gateway", 0, None)
    assert ANA.handle is None


async def test_a_nested_call_knows_its_parent() -> None:
    seen: list[JobContext] = []

    @tool(effects=())
    async def inner(context: JobContext) -> str:
        """Look."""
        seen.append(context)
        return ""

    @tool(effects=())
    async def outer(context: JobContext) -> str:
        """Call."""
        await context.services.call("inner", {})
        return ""

    async with make_runtime(tools=[inner, outer]) as rt:
        outcome = await rt.run("outer", {}, ANA)

    (bound,) = seen
    assert bound.depth == 1
    assert isinstance(bound.parent, CallHandle)
    assert bound.parent.call_id == outcome.call_id


async def test_reports_reach_whoever_watches() -> None:
    reports: list[Any] = []

    @tool(effects=())
    async def work(context: JobContext) -> str:
        """Work."""
        context.report(1)
        context.report(2, 4, "half")
        return ""

    async with make_runtime(tools=[work]) as rt:
        await rt.run("work", {}, ANA, progress=reports.append)

    assert [(r.done, r.total, r.message) for r in reports] == [(1, None, None), (2, 4, "half")]


async def test_a_watcher_that_fails_fails_the_call_in_order() -> None:
    @tool(effects=())
    async def work(context: JobContext) -> str:
        """Work."""
        context.report(1)
        return "done"

    def broken(report: Any) -> None:
        raise RuntimeError("no")

    async with make_runtime(tools=[work]) as rt:
        outcome = await rt.run("work", {}, ANA, progress=broken)

    assert not outcome.ok


async def test_calls_at_one_time_keep_their_contexts_apart() -> None:
    @tool(effects=())
    async def who(context: JobContext) -> str:
        """Say who calls."""
        await asyncio.sleep(0)
        return context.user_id

    async with make_runtime(tools=[who]) as rt:
        users = [f"user{number}" for number in range(50)]
        outputs = await asyncio.gather(*(rt.call("who", {}, make_context(u)) for u in users))

    assert [output.result for output in outputs] == users
