"""Budgets and the loop guard, through calls."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

import hardpoint
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


async def test_a_call_that_was_going_round_in_circles_is_warned_in_the_text_for_the_model() -> None:
    async with make_runtime(tools=[note]) as rt:
        for _ in range(3):
            outcome = await rt.run("note", {"text": "fail"}, ANA)

    assert "failed 3 times with the same arguments" in outcome.to_model_text()


@pytest.mark.parametrize(
    "params",
    [
        {1: "a", "b": 2}, {"x": {1, 2}}, "[" * 50_000, {"x": "y" * 5_000_000}, ["a"], None, 5,
        {"x": float("nan")}, {"\ud800": "\ud800"},
    ],
)  # fmt: skip
async def test_the_loop_guard_takes_whatever_a_model_sends(params: Any) -> None:
    async with make_runtime(tools=[note]) as rt:
        outcomes = [await rt.run("note", params, ANA) for _ in range(8)]

    assert isinstance(outcomes[5].error, hardpoint.InvalidParameters)
    assert isinstance(outcomes[6].error, hardpoint.NotAuthorized)


async def test_circular_arguments_are_an_orderly_error() -> None:
    params: dict[str, Any] = {}
    params["self"] = params

    async with make_runtime(tools=[note]) as rt:
        outcomes = [await rt.run("note", params, ANA) for _ in range(8)]

    assert not any(outcome.ok for outcome in outcomes)


async def test_an_old_failure_costs_nobody_anything() -> None:
    clock = FakeClock()

    async with make_runtime(tools=[note], clock=clock) as rt:
        await rt.run("note", {"text": "fail"}, ANA)
        clock.advance(601)
        await rt.run("note", {"text": "fine"}, make_context("ben"))
        assert rt._core.loops.is_idle


# crashes and lies ------------------------------------------------------------------------------


def ledger(clock: FakeClock, store: Any, **scopes: Any) -> Any:
    from hardpoint.config import Budget, BudgetConfig
    from hardpoint.policy.budget import Budgets

    config = BudgetConfig(**{name: Budget(**values) for name, values in scopes.items()})
    return Budgets(config, store, clock)


def account(budgets: Any, dimension: str) -> tuple[int, int]:
    (found,) = [a for a in budgets.list(ANA) if a.dimension == dimension]
    return found.used, found.reserved


async def test_what_a_killed_process_held_back_is_booked_and_not_held_for_ever(
    open_store: Any,
) -> None:
    clock = FakeClock()
    killed = ledger(clock, open_store(), user={"money": Decimal(1)})
    await killed.reserve(ANA, "paint", Decimal("0.40"), seconds=60)

    budgets = ledger(clock, open_store(), user={"money": Decimal(1)})
    assert account(budgets, "money") == (0, 400_000)
    clock.advance(60 + 301)
    await budgets.reserve(ANA, "paint", Decimal("0.10"), seconds=60)

    assert account(budgets, "money") == (400_000, 100_000), "it may have spent it"


async def test_a_call_that_settles_after_all_is_booked_once(open_store: Any) -> None:
    clock = FakeClock()
    budgets = ledger(clock, open_store(), user={"money": Decimal(1), "calls": 9})
    slow = await budgets.reserve(ANA, "paint", Decimal("0.40"), seconds=1)
    clock.advance(400)
    other = await budgets.reserve(ANA, "paint", Decimal(0), seconds=1)
    output = ToolOutput.text("x").with_cost("0.10")
    outcome = hardpoint.CallOutcome("paint", "c1", output=output)

    await budgets.settle(slow, outcome, began=True)
    await budgets.settle(other, outcome, began=False)

    assert account(budgets, "money") == (100_000, 0)
    assert account(budgets, "calls") == (1, 0)


@pytest.mark.parametrize("cost", ["-1", "NaN", "Infinity", "-0.0000001"])
async def test_an_estimate_that_is_no_amount_fails_the_call(cost: str) -> None:
    @tool(cost=Decimal(cost))
    async def odd() -> str:
        """Odd."""
        return "ran"

    async with make_runtime(tools=[odd], settings=budget(user={"money": "1"})) as rt:
        outcome = await rt.run("odd", {}, ANA)

    assert not outcome.ok
    assert "no amount of money" in str(outcome.error)


@pytest.mark.parametrize("cost", ["-1000", "NaN", "Infinity"])
async def test_a_tool_cannot_fill_its_purse_by_what_it_says_it_cost(cost: str) -> None:
    @tool(cost=Decimal("0.30"))
    async def liar() -> ToolOutput:
        """Lie."""
        return ToolOutput.text("ran").with_cost(cost)

    async with make_runtime(tools=[liar], settings=budget(user={"money": "1"})) as rt:
        outcomes = [await rt.run("liar", {}, ANA) for _ in range(5)]

    assert [outcome.ok for outcome in outcomes] == [True, True, True, False, False]


async def test_an_enormous_cost_is_the_end_of_the_budget_and_not_of_the_program() -> None:
    @tool
    async def dear() -> ToolOutput:
        """Cost a lot."""
        return ToolOutput.text("ran").with_cost("1e400")

    async with make_runtime(tools=[dear], settings=budget(user={"money": "1"})) as rt:
        first = await rt.run("dear", {}, ANA)
        second = await rt.run("dear", {}, ANA)

    assert first.ok
    assert isinstance(second.error, hardpoint.BudgetExceeded)


@pytest.mark.parametrize("tokens", [-500, True, "9", 1e9, 2**80])
async def test_tokens_that_are_no_number_count_nothing(tokens: Any) -> None:
    @tool
    async def talk() -> ToolOutput:
        """Talk."""
        return ToolOutput(result="hi", meta={"tokens": tokens})

    async with make_runtime(tools=[talk], settings=budget(user={"tokens": 10})) as rt:
        assert (await rt.run("talk", {}, ANA)).ok
        assert [a.used for a in rt.budgets(ANA)] == [0]


async def test_a_call_that_timed_out_may_have_cost_what_was_estimated() -> None:
    @tool(cost=Decimal("0.60"), timeout=0.01)
    async def slow() -> str:
        """Never end."""
        await asyncio.Event().wait()
        return ""

    async with make_runtime(tools=[slow], settings=budget(user={"money": "1"})) as rt:
        first = await rt.run("slow", {}, ANA)
        second = await rt.run("slow", {}, ANA)

    assert isinstance(first.error, hardpoint.ToolTimeout)
    assert isinstance(second.error, hardpoint.BudgetExceeded)


async def test_a_cancelled_call_is_booked_only_if_it_had_begun() -> None:
    began = asyncio.Event()

    @tool(cost=Decimal("0.60"))
    async def slow() -> str:
        """Never end."""
        began.set()
        await asyncio.Event().wait()
        return ""

    settings = {**budget(user={"money": "2"}), "tools": {"slow": {"concurrency": 1}}}
    async with make_runtime(tools=[slow], settings=settings) as rt:
        running = asyncio.ensure_future(rt.run("slow", {}, ANA))
        await began.wait()
        waiting = asyncio.ensure_future(rt.run("slow", {}, ANA))
        while [a.reserved for a in rt.budgets(ANA)] != [1_200_000]:
            await asyncio.sleep(0)
        waiting.cancel()
        running.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)
        (found,) = rt.budgets(ANA)

    assert (found.used, found.reserved) == (600_000, 0)


# limits ----------------------------------------------------------------------------------------


async def test_a_call_that_the_budget_refuses_uses_up_no_limit() -> None:
    @tool(rate_limit=hardpoint.ToolRateLimitConfig(5, 5))
    async def hit() -> str:
        """Hit."""
        return "hit"

    async with make_runtime(tools=[hit], settings=budget(user={"calls": 1})) as rt:
        for _ in range(4):
            await rt.run("hit", {}, ANA)
        assert rt.usage("hit").this_minute == 1


async def test_a_call_that_a_limit_refuses_uses_up_no_budget() -> None:
    @tool(rate_limit=hardpoint.ToolRateLimitConfig(1, 1))
    async def hit() -> str:
        """Hit."""
        return "hit"

    async with make_runtime(tools=[hit], settings=budget(user={"calls": 9})) as rt:
        await asyncio.gather(*(rt.run("hit", {}, ANA) for _ in range(5)))
        (found,) = rt.budgets(ANA)

    assert (found.used, found.reserved) == (1, 0)


class Fails(hardpoint.RateLimiterBackend):
    """A backend that breaks at the check, or only when it counts."""

    HARDPOINT_API = 1

    def __init__(self, *, at: str) -> None:
        self.at = at

    @hardpoint.hookimpl
    def hardpoint_register_rate_limiters(self, registry: Any) -> None:
        registry.register("fails", self)

    async def check(self, requests: Any) -> None:
        if self.at == "check":
            raise ConnectionError("the counter is gone")

    async def acquire(self, requests: Any) -> None:
        raise ConnectionError("the counter is gone")


@pytest.mark.parametrize("at", ["check", "acquire"])
async def test_a_limiter_that_breaks_denies_the_call(at: str) -> None:
    ran = []

    @tool(rate_limit=hardpoint.ToolRateLimitConfig(5, 5))
    async def hit() -> str:
        """Hit."""
        ran.append(1)
        return "hit"

    settings = {"limits": {"backend": "fails"}, **budget(user={"calls": 9})}
    async with make_runtime(tools=[hit], plugins={"f": Fails(at=at)}, settings=settings) as rt:
        outcome = await rt.run("hit", {}, ANA)
        (found,) = rt.budgets(ANA)

    assert outcome.error is not None
    assert outcome.error.kind == "external_service"
    assert "cannot be counted, so the call is denied" in outcome.error.message
    assert ran == []
    assert (found.used, found.reserved) == (0, 0)
