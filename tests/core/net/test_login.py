"""The way back from the browser, and logins that are handed over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx2
import pytest

from hardpoint.errors import ExternalService
from hardpoint.net.login import Callback, Handovers, wait_for_answer


async def visit(address: str) -> int:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return (await client.get(address)).status_code


async def test_the_first_answer_of_the_login_counts() -> None:
    async with Callback(state="s") as callback:
        elsewhere = await visit(f"http://127.0.0.1:{callback.port}/other?code=x&state=s")
        nothing = await visit(callback.uri)
        forged = await visit(f"{callback.uri}?code=forged&state=other")
        right = await visit(f"{callback.uri}?code=c&state=s")
        again = await visit(f"{callback.uri}?code=later&state=s")
        answer = await wait_for_answer(callback, lambda line: None)

    assert [elsewhere, nothing, forged, right, again] == [404, 404, 404, 200, 200]
    assert answer == {"code": "c", "state": "s"}


async def test_a_refusal_is_an_answer_too() -> None:
    async with Callback(state="s") as callback:
        await visit(f"{callback.uri}?error=access_denied&state=s")
        answer = await wait_for_answer(callback, lambda line: None)

    assert answer["error"] == "access_denied"


async def test_a_pasted_address_ends_the_wait() -> None:
    said: list[str] = []
    lines = ["hello", "http://127.0.0.1/callback?code=c&state=other",
             " http://127.0.0.1/callback?code=c&state=s "]  # fmt: skip

    async def ask(prompt: str) -> str:
        return lines.pop(0)

    async with Callback(state="s") as callback:
        answer = await wait_for_answer(callback, said.append, ask)

    assert answer["code"] == "c"
    assert len(said) == 2


async def test_a_port_that_is_taken_is_an_error_that_says_so() -> None:
    async with Callback() as callback:
        with pytest.raises(ExternalService) as refused:
            await Callback(callback.port).__aenter__()

    assert refused.value.hint is not None
    assert str(callback.port) in refused.value.hint


async def test_a_login_is_handed_over_once_and_goes_on_alone() -> None:
    begun, end = [], asyncio.Event()

    async def login(show: Callable[[str], bool]) -> None:
        begun.append(show(f"https://login.example/{len(begun)}"))
        await end.wait()

    handovers = Handovers()
    first = await handovers.begin("a", login)
    same = await handovers.begin("a", login)
    other = await handovers.begin("b", login)
    end.set()
    await asyncio.gather(*(each.work for each in handovers._open.values()))
    later = await handovers.begin("a", login)
    await handovers.aclose()

    assert first == same == "https://login.example/0"
    assert [other, later] == ["https://login.example/1", "https://login.example/2"]


async def test_a_login_that_cannot_begin_says_why() -> None:
    async def login(show: Callable[[str], bool]) -> None:
        raise ExternalService("nobody is there")

    with pytest.raises(ExternalService, match="nobody is there"):
        await Handovers().begin("a", login)


async def test_giving_up_ends_every_open_login() -> None:
    ended: list[str] = []

    async def login(show: Callable[[str], bool]) -> None:
        show("https://login.example/")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    handovers = Handovers()
    await handovers.begin("a", login)
    await handovers.aclose()

    assert ended == ["ended"]
