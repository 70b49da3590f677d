"""Calls that wait for the client's answer between two requests of it.

A client of 2026-07-28 is asked by a result: it answers by calling again, with the answers and the
state that it was given. The call itself goes on meanwhile, parked under a nonce that fits once.
That the state was made here, for this request and this principal, the SDK's boundary checks.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs

from hardpoint_mcp.wire.channel import Message
from hardpoint_mcp.wire.errors import INVALID_REQUEST, RpcError
from hardpoint_mcp.wire.session import Era

_MOST: Final = 1000
_MOST_OF_ONE: Final = 50


class ParkedCall:
    """One call under way, and the question that it waits for."""

    def __init__(self, work: Callable[[ParkedCall], Awaitable[Message]], relay: Any = None) -> None:
        self.relay = relay
        self._question: asyncio.Future[Mapping[str, Message]] = _future()
        self._answers: asyncio.Future[Mapping[str, Message]] = _future()
        self._one_at_a_time = asyncio.Lock()
        self.task: asyncio.Task[Message] = asyncio.ensure_future(work(self))

    async def ask(self, questions: Mapping[str, Message]) -> Mapping[str, Message]:
        """Called by the work: put a question, wait for the answer."""
        async with self._one_at_a_time:
            self._answers = _future()
            self._question.set_result(questions)
            return await self._answers

    async def proceed(self) -> Message | Mapping[str, Message]:
        """Called by a request: wait until the work ends or asks. A question is a `Questions`."""
        question = self._question
        try:
            await asyncio.wait((self.task, question), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The client gave up on the request that carries the call.
            self.task.cancel()
            raise
        if self.task.done():
            return self.task.result()
        return Questions(question.result())

    def answer(self, answers: Mapping[str, Message]) -> None:
        """Give the answers that the work waits for."""
        self._question = _future()
        if not self._answers.done():  # an operator may have answered meanwhile
            self._answers.set_result(answers)


class Questions(dict[str, Message]):
    """What a call asks, by key."""


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@attrs.frozen
class _Place:
    call: ParkedCall
    owner: object
    until: float


class Parking:
    """The parked calls by nonce."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    def park(self, call: ParkedCall, owner: object, seconds: float) -> str:
        """Keep a call until its client comes back, with the nonce that this gives."""
        self._clear()
        own = [nonce for nonce, place in self._places.items() if place.owner == owner]
        for nonce in own[: max(0, len(own) - _MOST_OF_ONE + 1)]:
            self._end(nonce)
        if len(self._places) >= _MOST:
            self._end(next(iter(self._places)))
        nonce = secrets.token_urlsafe(18)
        self._places[nonce] = _Place(call, owner, time.monotonic() + seconds)
        asyncio.get_running_loop().call_later(seconds + 0.1, self._clear)
        return nonce

    def take(self, nonce: str, owner: object) -> ParkedCall | None:
        """The call of a nonce, once; None for a stranger's, a used or an old one."""
        self._clear()
        place = self._places.get(nonce)
        if place is None or place.owner != owner:
            return None
        del self._places[nonce]
        return place.call

    def close(self) -> None:
        for nonce in list(self._places):
            self._end(nonce)

    def _clear(self) -> None:
        now = time.monotonic()
        for nonce in [nonce for nonce, place in self._places.items() if place.until <= now]:
            self._end(nonce)

    def _end(self, nonce: str) -> None:
        self._places.pop(nonce).call.task.cancel()


@attrs.define(eq=False)
class ParkingAsker:
    """Asks a client of the stateless era: the question leaves as the result of its request."""

    call: ParkedCall
    capabilities: Mapping[str, Any]
    owner: object
    era: Era = "modern"

    async def ask(self, questions: Mapping[str, Message]) -> Mapping[str, Message]:
        refuse_undeclared(self.capabilities, questions)
        return await self.call.ask(questions)


_NEEDS: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
ASKABLE: Final = frozenset(_NEEDS.values())


def refuse_undeclared(capabilities: Mapping[str, Any], questions: Mapping[str, Message]) -> None:
    """Raise `RpcError` for a question that the client did not declare to answer."""
    for question in questions.values():
        method = str(question.get("method")) if isinstance(question, Mapping) else "?"
        if _NEEDS.get(method) not in capabilities:
            raise RpcError(INVALID_REQUEST, f"the client does not answer {method}")
