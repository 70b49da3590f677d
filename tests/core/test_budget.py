"""Budgets and the loop guard, through calls."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import hardpoint
import pytest
from hardpoint import ToolOutput, tool
from hardpoint.testing import FakeClock, make_context, make_runtime

ANA = make_context("ana")


@tool(cost=Decimal("0.40"))
async def paint(subject: str) -> ToolOutput:
    """Paint a picture."""
    return ToolOutput.text(subject).with_cost("0.25")


@tool
async def note(text: str) -> str:
    """Note something."""
    if text == "fail":
        raise hardpoint.ExecutionFailed("the pen is dry")
    return text


def budget(**scopes: Any) -> dict[str, Any]:
    return {"budget": scopes}


async def test_a_budget_of_calls_ends_with_its_account_named() -> None:
    async with make_runtime(tools=[note], settings=budget(session={"calls": 2})) as rt:
        outcomes = [await rt.run("note", {"text": "x"}, ANA) for _ in range(3)]
        other = await rt.run("note", {"text": "x"}, make_context("ana", session_id="other"))

    assert [outcome.ok for outcome in outcomes] == [True, True, False]
    assert isinstance(outcomes[2].error, hardpoint.BudgetExceeded)
    assert "session budget of calls is 2" in outcomes[2].error.message
    assert other.ok


async def test_the_estimate_is_held_back_and_the_real_cost_is_booked() -> None:
    async with make_runtime(tools=[paint], settings=budget(user={"money": "0.90"})) as rt:
        first = await rt.run("paint", {"subject": "a"}, ANA)
        second = await rt.run("paint", {"subject": "b"}, ANA)
        third = await rt.run("paint", {"subject": "c"}, ANA)

    # 0.25 and 0.25 are used; the third would hold back 0.40, and 0.90 is there.
    assert [first.ok, second.ok, third.ok] == [True, True, True]


async def test_an_estimate_that_does_not_fit_is_refused_before_it_runs() -> None:
    async with make_runtime(tools=[paint], settings=budget(user={"money": "0.30"})) as rt:
        outcome = await rt.run("paint", {"subject": "a"}, ANA)

    assert isinstance(outcome.error, hardpoint.BudgetExceeded)
    assert "0.4" in outcome.error.message


async def test_calls_at_once_never_go_over_the_budget() -> None:
    async with make_runtime(tools=[note], settings=budget(user={"calls": 7})) as rt:
        outcomes = await asyncio.gather(*(rt.run("note", {"text": "x"}, ANA) for _ in range(20)))

    assert sum(outcome.ok for outcome in outcomes) == 7


async def test_a_refused_call_is_refunded() -> None:
    @tool(approval="always")
    async def danger() -> str:
        """Danger."""
        return "ran"

    async with make_runtime(tools=[danger, note], settings=budget(user={"calls": 1})) as rt:
        refused = await rt.run("danger", {}, ANA)
        allowed = await rt.run("note", {"text": "x"}, ANA)

    assert not refused.ok
    assert allowed.ok


async def test_the_budget_of_a_day_begins_anew() -> None:
    clock = FakeClock()

    async with make_runtime(tools=[note], settings=budget(day={"calls": 1}), clock=clock) as rt:
        await rt.call("note", {"text": "x"}, ANA)
        refused = await rt.run("note", {"text": "x"}, ANA)
        clock.advance(86_400)
        again = await rt.run("note", {"text": "x"}, ANA)

    assert isinstance(refused.error, hardpoint.BudgetExceeded)
    assert refused.error.hint is not None
    assert again.ok


async def test_bytes_are_counted_after_the_call() -> None:
    async with make_runtime(tools=[note], settings=budget(session={"bytes": 10})) as rt:
        first = await rt.run("note", {"text": "x" * 20}, ANA)
        second = await rt.run("note", {"text": "x"}, ANA)

    assert first.ok
    assert isinstance(second.error, hardpoint.BudgetExceeded)


# the loop guard --------------------------------------------------------------------------------


async def test_the_same_failing_call_is_warned_about_and_then_stopped() -> None:
    async with make_runtime(tools=[note]) as rt:
        outcomes = [await rt.run("note", {"text": "fail"}, ANA) for _ in range(7)]
        other = await rt.run("note", {"text": "fine"}, ANA)

    assert "3 times" in str(outcomes[2].warnings)
    assert [type(outcome.error).__name__ for outcome in outcomes[:6]] == ["ExecutionFailed"] * 6
    assert isinstance(outcomes[6].error, hardpoint.NotAuthorized)
    assert "the pen is dry" in outcomes[6].error.message
    assert other.ok


async def test_the_same_succeeding_call_is_nobodys_business() -> None:
    async with make_runtime(tools=[note]) as rt:
        outcomes = [await rt.run("note", {"text": "poll"}, ANA) for _ in range(30)]

    assert all(outcome.ok for outcome in outcomes)
    assert all(outcome.warnings == () for outcome in outcomes)


async def test_another_session_is_not_stopped() -> None:
    async with make_runtime(tools=[note]) as rt:
        for _ in range(8):
            await rt.run("note", {"text": "fail"}, ANA)
        other = await rt.run("note", {"text": "fail"}, make_context("ana", session_id="s2"))

    assert isinstance(other.error, hardpoint.ExecutionFailed)


@pytest.mark.parametrize("params", [{"txt": 1}, "not json", [1]])
async def test_wrong_arguments_again_and_again_are_stopped_too(params: Any) -> None:
    async with make_runtime(tools=[note]) as rt:
        outcomes = [await rt.run("note", params, ANA) for _ in range(7)]

    assert isinstance(outcomes[0].error, hardpoint.InvalidParameters)
    assert isinstance(outcomes[6].error, hardpoint.NotAuthorized)


async def test_the_guard_forgets_and_can_be_switched_off() -> None:
    clock = FakeClock()

    async with make_runtime(tools=[note], clock=clock) as rt:
        for _ in range(6):
            await rt.run("note", {"text": "fail"}, ANA)
        clock.advance(601)
        later = await rt.run("note", {"text": "fail"}, ANA)
    async with make_runtime(tools=[note], settings={"policy": {"loop_guard": 0}}) as rt:
        many = [await rt.run("note", {"text": "fail"}, ANA) for _ in range(10)]

    assert isinstance(later.error, hardpoint.ExecutionFailed)
    assert all(isinstance(outcome.error, hardpoint.ExecutionFailed) for outcome in many)
