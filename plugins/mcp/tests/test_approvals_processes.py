"""Approvals where several gateways share a state: any process answers, each answer counts once."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import attrs
import httpx2
import mcp.types as types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

import hardpoint

YES = {"hardpoint_approval": {"action": "accept", "content": {"decision": "once"}}}
NO = {"hardpoint_approval": {"action": "decline"}}
INVALID = "Invalid or expired requestState"

GATEWAY = """
import asyncio, sys
import hardpoint
from hardpoint_mcp.gateway.run import make_runtime, serve

def pay(amount: int) -> str:
    '''Pay.'''
    with open({ran!r}, "a") as file:
        file.write(f"{{amount}}\\n")
    return f"paid {{amount}}"

made = make_runtime({config!r}, tools=[hardpoint.tool(pay, approval="unless_auto_approved")])
ready = lambda url: print("serving on", url, flush=True)
asyncio.run(serve(made, ("127.0.0.1", 0), ready=ready))
"""


async def says_yes(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"decision": "once"})


@attrs.define(eq=False)
class Shared:
    """Gateways on one state folder."""

    script: Path
    ran_file: Path
    wait_for_line: Callable[[Any, bytes], bytes]
    processes: list[subprocess.Popen[bytes]] = attrs.field(factory=list)

    async def gateway(self) -> str:
        """Start another one; its address."""
        process = subprocess.Popen([sys.executable, str(self.script)], stdout=subprocess.PIPE)
        self.processes.append(process)
        line = await asyncio.to_thread(self.wait_for_line, process.stdout, b"serving on")
        found = re.search(rb"http://\S+", line)
        assert found is not None
        return found.group().decode()

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()

    @property
    def ran(self) -> list[str]:
        return self.ran_file.read_text().split() if self.ran_file.exists() else []

    async def operator(self, approval_id: str, verdict: str = "yes") -> None:
        """Answer from the command line."""
        token = Path(os.environ["HARDPOINT_HOME"]) / "config" / "operator-token"
        token.parent.mkdir(parents=True, exist_ok=True)
        token.write_text("open sesame")
        token.chmod(0o600)
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "hardpoint", "approvals", "answer", approval_id, verdict],
            env={**os.environ, "HARDPOINT_OPERATOR_TOKEN": "open sesame"},
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr

    def waiting(self) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "hardpoint", "approvals", "list"], capture_output=True, text=True
        )
        return re.findall(r"\bap_\w+", done.stdout)


@pytest.fixture
def shared(
    tmp_path: Path, write_config: Any, wait_for_line: Any, request: pytest.FixtureRequest
) -> Any:
    ran = tmp_path / "ran"
    made: list[Shared] = []

    def make(**tables: Any) -> Shared:
        script = tmp_path / "gateway.py"
        config = write_config(tables.pop("mcp", {}), **tables)
        script.write_text(GATEWAY.format(ran=str(ran), config=str(config)))
        made.append(Shared(script, ran, wait_for_line))
        return made[0]

    yield make
    for process in made[0].processes if made else ():
        process.terminate()
    for process in made[0].processes if made else ():
        process.communicate(timeout=20)


@contextlib.asynccontextmanager
async def speaking(
    url: str, *, token: str | None = None, forms: bool = True
) -> AsyncIterator[Callable[..., Any]]:
    """A client of the stateless era that answers by hand, and whatever it likes."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(trust_env=False, headers=headers, timeout=30) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode="auto",
            cache=None,
            elicitation_callback=says_yes if forms else None,
        ) as client,
    ):

        async def call(amount: int, answers: Any = None, state: Any = None) -> Any:
            given = {k: types.ElicitResult(**v) for k, v in (answers or {}).items()}
            return await client.session.call_tool(
                "pay",
                {"amount": amount},
                input_responses=given or None,
                request_state=state,
                allow_input_required=True,
            )

        yield call


def text(result: Any) -> str:
    return str(result.content[0].text)


async def test_a_question_of_one_gateway_is_answered_at_another_once(shared):
    place = shared()
    one, two = await place.gateway(), await place.gateway()
    async with speaking(one) as at_one, speaking(two) as at_two:
        asked = await at_one(5)
        paid = await at_two(5, YES, asked.request_state)
        for again in (at_one, at_two):
            with pytest.raises(MCPError, match=INVALID):
                await again(5, YES, asked.request_state)

    assert isinstance(asked, types.InputRequiredResult)
    assert text(paid) == "paid 5"
    assert place.ran == ["5"]


async def test_of_many_answers_at_once_on_all_gateways_one_counts(shared):
    place = shared()
    one, two = await place.gateway(), await place.gateway()
    async with speaking(one) as at_one, speaking(two) as at_two:
        asked = await at_one(5)
        answers = await asyncio.gather(
            *(call(5, YES, asked.request_state) for call in (at_one, at_two) * 5),
            return_exceptions=True,
        )

    paid = [each for each in answers if isinstance(each, types.CallToolResult)]
    refused = [each for each in answers if isinstance(each, MCPError)]
    assert [text(each) for each in paid] == ["paid 5"]
    assert [each.message for each in refused] == [INVALID] * 9
    assert place.ran == ["5"]


async def test_a_question_outlives_the_gateway_that_put_it(shared):
    place = shared()
    async with speaking(await place.gateway()) as call:
        asked = await call(5)
    place.kill(0)
    async with speaking(await place.gateway()) as call:
        paid = await call(5, YES, asked.request_state)

    assert text(paid) == "paid 5"
    assert place.ran == ["5"]


@pytest.mark.parametrize("forms", [True, False])
async def test_an_operator_answers_and_the_repeated_call_goes_through_anywhere_once(forms, shared):
    place = shared()
    one, two = await place.gateway(), await place.gateway()
    async with speaking(one, forms=forms) as at_one, speaking(two, forms=forms) as at_two:
        first = await at_one(7)
        [approval_id] = place.waiting()
        await place.operator(approval_id)
        paid = await at_two(7)
        third = await at_one(7)

    if not forms:
        assert first.meta["hardpoint/error"]["approval_id"] == approval_id
    assert text(paid) == "paid 7"
    assert third.is_error if not forms else isinstance(third, types.InputRequiredResult)
    assert place.ran == ["7"]


@pytest.mark.parametrize(("answers", "runs"), [(YES, True), (None, True), (NO, False)])
async def test_who_comes_back_after_an_operator_answered_needs_no_other_answer(
    answers, runs, shared
):
    place = shared()
    one, two = await place.gateway(), await place.gateway()
    async with speaking(one) as at_one, speaking(two) as at_two:
        asked = await at_one(7)
        [approval_id] = place.waiting()
        await place.operator(approval_id)
        try:
            paid = await at_two(7, answers, asked.request_state)
            assert text(paid) == "paid 7"
        except MCPError as error:
            assert not runs
            assert INVALID in error.message

    assert place.ran == (["7"] if runs else [])


async def test_an_operators_no_ends_the_question(shared):
    place = shared()
    async with speaking(await place.gateway()) as call:
        asked = await call(7)
        [approval_id] = place.waiting()
        await place.operator(approval_id, "no")
        with pytest.raises(MCPError, match=INVALID):
            await call(7, YES, asked.request_state)
        again = await call(7)

    assert again.is_error
    assert "said no to exactly this call" in text(again)
    assert place.ran == []


@pytest.mark.parametrize("verdict", ["yes", "no"])
async def test_an_operator_may_answer_while_a_client_of_the_handshake_era_is_asked(verdict, shared):
    place = shared()
    url = await place.gateway()
    asked = asyncio.Event()

    async def never(context: Any, params: Any) -> types.ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with (
        httpx2.AsyncClient(trust_env=False, timeout=30) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode="legacy",
            cache=None,
            elicitation_callback=never,
        ) as client,
    ):
        call = asyncio.create_task(client.call_tool("pay", {"amount": 3}))
        await asked.wait()
        [approval_id] = await asyncio.to_thread(place.waiting)
        await place.operator(approval_id, verdict)
        result = await asyncio.wait_for(call, 20)

    assert result.is_error is (verdict == "no")
    assert place.ran == (["3"] if verdict == "yes" else [])


async def test_one_persons_state_is_of_no_use_to_another(shared):
    def client(token: str, user: str) -> dict[str, str]:
        return {
            "token": "sha256:" + hashlib.sha256(token.encode()).hexdigest(),
            "user": user,
        }

    clients = {"ana": client("one", "ana"), "eve": client("two", "eve")}
    place = shared(mcp={"serve": {"clients": clients}})
    url = await place.gateway()
    async with speaking(url, token="one") as ana, speaking(url, token="two") as eve:
        asked = await ana(9)
        with pytest.raises(MCPError, match=INVALID):
            await eve(9, YES, asked.request_state)
        assert place.ran == []
        assert text(await ana(9, YES, asked.request_state)) == "paid 9"

    assert place.ran == ["9"]


async def test_a_question_that_is_too_old_is_no_question_any_more():
    from hardpoint.testing import FakeClock
    from hardpoint_mcp import plugin
    from hardpoint_mcp.gateway.run import make_gateway, make_runtime

    ran: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    clock = FakeClock()
    config = hardpoint.structure({"approval": {"expires": 100}}, hardpoint.Config, "test")
    runtime = make_runtime(
        config,
        plugins={"mcp": plugin},
        installed_plugins=False,
        in_memory=True,
        clock=clock,
        tools=[hardpoint.tool(pay, approval="unless_auto_approved")],
    )
    async with runtime:
        gateway = make_gateway(runtime)
        async with Client(
            gateway.server, mode="auto", cache=None, elicitation_callback=says_yes
        ) as client:

            async def call(answers: Any = None, state: Any = None) -> Any:
                return await client.session.call_tool(
                    "pay",
                    {"amount": 1},
                    input_responses={k: types.ElicitResult(**v) for k, v in (answers or {}).items()}
                    or None,
                    request_state=state,
                    allow_input_required=True,
                )

            asked = await call()
            clock.advance(101)
            with pytest.raises(MCPError, match=INVALID):
                await call(YES, asked.request_state)

    assert ran == []


async def test_a_tool_that_calls_another_is_not_started_twice_to_ask(front):
    """What a running tool calls is asked about while it waits."""
    made = await front()
    began: list[str] = []

    async def shop(context: hardpoint.JobContext) -> str:
        """Shop."""
        began.append("shop")
        paid = await context.services.call("pay", {"amount": 4}, parent=context)
        return f"bought, {paid.result}"

    made.runtime.registry.register(hardpoint.tool(shop))
    async with made.client("modern", elicitation_callback=says_yes) as client:
        result = await client.call_tool("shop", {})

    assert text(result) == "bought, paid 4 to nobody"
    assert began == ["shop"]
    assert made.ran == [(4, "nobody")]
