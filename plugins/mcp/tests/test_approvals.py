"""Approvals that a client's person answers: what counts as an answer, and what never does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import mcp.types as types
import pytest
from mcp import MCPError

ERAS = ["modern", "legacy"]


def person(decision: Any = "once", action: str = "accept", asked: list[Any] | None = None) -> Any:
    """An elicitation callback of somebody who always answers the same."""

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        if asked is not None:
            asked.append(params)
        content = {"decision": decision} if action == "accept" else None
        return types.ElicitResult(action=action, content=content)

    return answer


def text(result: Any) -> str:
    return result.content[0].text


@pytest.mark.parametrize("era", ERAS)
async def test_the_person_at_the_client_is_asked_and_the_call_runs(era, front):
    made, asked = await front(), []
    async with made.client(era, elicitation_callback=person(asked=asked)) as client:
        result = await client.call_tool("pay", {"amount": 5, "to": "Ada"})

    assert text(result) == "paid 5 to Ada"
    assert made.ran == [(5, "Ada")]
    assert len(asked) == 1
    assert "'pay'" in asked[0].message
    assert '"amount": 5' in asked[0].message


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("decision", "action"),
    [
        ("no", "accept"),
        (None, "decline"),
        (None, "cancel"),
        ("yes please", "accept"),
        (True, "accept"),
        ("Once", "accept"),
        (None, "accept"),
    ],
)
async def test_anything_but_a_literal_yes_is_no(era, decision, action, front):
    made = await front()
    async with made.client(era, elicitation_callback=person(decision, action)) as client:
        result = await client.call_tool("pay", {"amount": 5})

    assert result.is_error
    assert made.ran == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_session_answer_is_not_asked_again_and_holds_for_that_session(era, front):
    made, asked = await front(), []
    async with made.client(era, elicitation_callback=person("session", asked=asked)) as client:
        await client.call_tool("pay", {"amount": 1})
        await client.call_tool("pay", {"amount": 1})

    assert len(made.ran) == 2
    assert len(asked) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_cannot_ask_gets_an_id_and_the_repeated_call_goes_through(era, front):
    made = await front()
    async with made.client(era) as client:
        first = await client.call_tool("pay", {"amount": 7})
        approval_id = first.meta["hardpoint/error"]["approval_id"]
        assert first.is_error
        assert f"hardpoint approvals answer {approval_id}" in text(first)
        assert made.ran == []

        made.runtime.approvals.answer(approval_id, True, by="operator")
        other = await client.call_tool("pay", {"amount": 8})
        second = await client.call_tool("pay", {"amount": 7})
        third = await client.call_tool("pay", {"amount": 7})

    assert other.is_error
    assert text(second) == "paid 7 to nobody"
    assert third.is_error
    assert made.ran == [(7, "nobody")]


@pytest.mark.parametrize("era", ERAS)
async def test_the_operator_can_keep_the_answers_to_himself(era, front):
    made, asked = await front(serve={"approvals": "refuse"}), []
    async with made.client(era, elicitation_callback=person(asked=asked)) as client:
        result = await client.call_tool("pay", {"amount": 7})

    assert result.meta["hardpoint/error"]["kind"] == "approval_required"
    assert asked == made.ran == []


# forged answers --------------------------------------------------------------------------------

YES = {"hardpoint_approval": {"action": "accept", "content": {"decision": "once"}}}


@contextlib.asynccontextmanager
async def by_hand(front: Any) -> AsyncIterator[Any]:
    """A client of the stateless era that answers itself, and whatever it likes."""
    made = await front()
    async with made.client("modern", elicitation_callback=person()) as client:

        async def call(arguments: Any, answers: Any = None, state: Any = None) -> Any:
            given = {k: types.ElicitResult(**v) for k, v in (answers or {}).items()}
            return await client.session.call_tool(
                "pay",
                arguments,
                input_responses=given or None,
                request_state=state,
                allow_input_required=True,
            )

        yield made, call


async def test_an_answer_to_a_question_that_was_never_put_is_no_answer(front):
    async with by_hand(front) as (made, call):
        result = await call({"amount": 9}, YES)

        assert isinstance(result, types.InputRequiredResult)
        assert made.ran == []


async def test_a_state_fits_once(front):
    async with by_hand(front) as (made, call):
        asked = await call({"amount": 9})

        assert text(await call({"amount": 9}, YES, asked.request_state)) == "paid 9 to nobody"
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await call({"amount": 9}, YES, asked.request_state)

        assert made.ran == [(9, "nobody")]


@pytest.mark.parametrize("arguments", [{"amount": 90}, {"amount": 9, "to": "Eve"}, {}])
async def test_a_state_fits_the_arguments_that_were_asked_about(arguments, front):
    async with by_hand(front) as (made, call):
        asked = await call({"amount": 9})

        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await call(arguments, YES, asked.request_state)

        assert made.ran == []


@pytest.mark.parametrize(
    "forge", [lambda s: s[:-3] + "AAA", lambda s: "v1." + s, lambda s: "nonce", lambda s: ""]
)
async def test_a_state_that_was_not_made_here_is_refused(forge, front):
    async with by_hand(front) as (made, call):
        asked = await call({"amount": 9})

        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await call({"amount": 9}, YES, forge(asked.request_state))

        assert made.ran == []


async def test_a_state_without_an_answer_asks_again(front):
    async with by_hand(front) as (made, call):
        asked = await call({"amount": 9})

        again = await call(
            {"amount": 9}, {"something_else": YES["hardpoint_approval"]}, asked.request_state
        )

        assert isinstance(again, types.InputRequiredResult)
        assert again.request_state != asked.request_state
        assert text(await call({"amount": 9}, YES, again.request_state)) == "paid 9 to nobody"
        assert made.ran == [(9, "nobody")]


async def test_one_clients_state_is_of_no_use_to_another(front):
    from hardpoint_mcp.gateway.parking import ParkedCall, Parking

    async def work(call: ParkedCall) -> dict[str, Any]:
        await call.ask({"q": {"method": "elicitation/create", "params": {}}})
        return {}

    parking = Parking()
    parked = ParkedCall(work)
    await parked.proceed()
    nonce = parking.park(parked, "ana", 60)

    assert parking.take(nonce, "eve") is None
    assert parking.take(nonce, "ana") is parked
    assert parking.take(nonce, "ana") is None
    parked.task.cancel()


async def test_parked_calls_end_when_nobody_comes_back(wait_until):
    from hardpoint_mcp.gateway.parking import ParkedCall, Parking

    async def work(call: ParkedCall) -> dict[str, Any]:
        await call.ask({"q": {"method": "elicitation/create", "params": {}}})
        return {}

    parking = Parking()
    parked = ParkedCall(work)
    await parked.proceed()
    parking.park(parked, "ana", 0.1)

    assert await wait_until(parked.task.cancelled)
    assert len(parking) == 0


async def test_one_client_cannot_fill_the_parking():
    from hardpoint_mcp.gateway.parking import ParkedCall, Parking

    async def work(call: ParkedCall) -> dict[str, Any]:
        await call.ask({"q": {"method": "elicitation/create", "params": {}}})
        return {}

    parking = Parking()
    for owner in ["ana"] * 200 + ["ben"]:
        parked = ParkedCall(work)
        await parked.proceed()
        nonce = parking.park(parked, owner, 60)

    assert len(parking) <= 51
    assert parking.take(nonce, "ben") is not None
    parking.close()


@pytest.mark.parametrize("era", ERAS)
async def test_a_slow_person_is_waited_for_although_the_server_is_given_little_time(
    era, front, fake
):
    async def slowly(context: Any, params: Any) -> types.ElicitResult:
        await asyncio.sleep(1)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    command, *args = fake(*(["modern"] if era == "modern" else []))
    server = {"command": command, "args": args, "timeout": 0.5, "read_only": ["*"]}
    made = await front({"s": server})
    async with made.client(era, elicitation_callback=slowly) as client:
        result = await client.call_tool("s__ask", {})

    assert '"name": "Ada"' in text(result)


@pytest.mark.parametrize("upstream", ["modern", "handshake"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_servers_question_reaches_the_client_across_eras(era, upstream, front, fake):
    command, *args = fake(*(["modern"] if upstream == "modern" else []))
    made = await front({"s": {"command": command, "args": args, "read_only": ["*"]}})

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        assert params.message == "Your name?"
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with made.client(era, elicitation_callback=answer) as client:
        result = await client.call_tool("s__ask", {})

    assert '"name": "Ada"' in text(result)


@pytest.mark.parametrize("upstream", ["modern", "handshake"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_is_told_when_the_client_answers_no_questions(era, upstream, front, fake):
    command, *args = fake(*(["modern"] if upstream == "modern" else []))
    made = await front({"s": {"command": command, "args": args, "read_only": ["*"]}})

    async with made.client(era) as client:
        try:
            said = text(await client.call_tool("s__ask", {}))
        except MCPError as error:
            said = error.message

    assert "elicitation/create" in said
