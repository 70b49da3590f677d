"""Requests that wait in a shared store: answered once, used once, by one process of many."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

from hardpoint import ApprovalRequirement, HardpointError, NotAuthorized
from hardpoint.interfaces import ApprovalRequest
from hardpoint.policy.grants import StoredGrants
from hardpoint.policy.pending import MAX_WAITING
from hardpoint.store import Store
from hardpoint.testing import FakeClock

VALID = 60.0
RACERS = 8

Open = Callable[[], StoredGrants]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_grants(open_store: Callable[[], Store], clock: FakeClock) -> Open:
    """The answers as one more process sees them."""
    return lambda: StoredGrants(open_store(), clock, valid_seconds=VALID)


def request(name: str = "first", **changes: str) -> ApprovalRequest:
    made = ApprovalRequest(
        id=f"ap_{name}",
        digest=f"digest of {name}",
        tool="write_it",
        params={"path": "a.txt"},
        requirement=ApprovalRequirement.ALWAYS,
        user_id="ana",
        session_id="s",
        workspace="/ground",
    )
    return attrs.evolve(made, **changes)


def test_an_answer_from_another_process_lets_one_call_through(open_grants: Open) -> None:
    here, there = open_grants(), open_grants()
    name = here.park(request())

    there.answer(name, True, by="ben")

    taken = here.take(request(), None)
    assert taken is not None
    assert (taken.state, taken.answered_by) == ("approved", "ben")
    assert taken.to_request() == request()
    assert there.take(request(), None) is None
    assert there.pending() == []


def test_of_many_that_would_use_an_answer_at_once_one_does(open_grants: Open) -> None:
    processes = [open_grants() for _ in range(RACERS)]
    processes[0].answer(processes[0].park(request()), True, by="ben")

    with ThreadPoolExecutor(RACERS) as pool:
        taken = list(pool.map(lambda grants: grants.take(request(), None), processes))

    assert len([answer for answer in taken if answer is not None]) == 1


def test_of_many_answers_at_once_one_counts(open_grants: Open) -> None:
    processes = [open_grants() for _ in range(RACERS)]
    name = processes[0].park(request())

    def answer(number: int) -> bool:
        try:
            processes[number].answer(name, number % 2 == 0, by=f"person {number}")
        except HardpointError:
            return False
        return True

    with ThreadPoolExecutor(RACERS) as pool:
        counted = [number for number, ok in enumerate(pool.map(answer, range(RACERS))) if ok]

    assert len(counted) == 1
    kept = processes[0].get(name)
    assert kept is not None
    assert kept.answered_by == f"person {counted[0]}"
    assert kept.state == ("approved" if counted[0] % 2 == 0 else "denied")


def test_the_same_question_at_once_waits_under_one_id(open_grants: Open) -> None:
    processes = [open_grants() for _ in range(RACERS)]

    with ThreadPoolExecutor(RACERS) as pool:
        names = pool.map(
            lambda number: processes[number].park(request(id=f"ap_{number}")), range(RACERS)
        )

    assert len(set(names)) == 1
    assert len(processes[0].pending()) == 1


@pytest.mark.parametrize(
    "other",
    [{"digest": "of something else"}, {"user_id": "eve"}, {"workspace": "/elsewhere"}],
    ids=str,
)
def test_an_answer_serves_no_other_call(open_grants: Open, other: dict[str, str]) -> None:
    grants = open_grants()
    name = grants.park(request())
    grants.answer(name, True, by="ben")

    assert grants.take(request(**other), None) is None
    assert grants.take(request(**other), name) is None
    assert grants.take(request(), name) is not None


def test_what_is_too_old_can_be_neither_answered_nor_used(
    open_grants: Open, clock: FakeClock
) -> None:
    grants = open_grants()
    unanswered, unused = grants.park(request()), grants.park(request("second"))
    grants.answer(unused, True, by="ben")

    clock.advance(VALID + 1)

    with pytest.raises(HardpointError, match="too old"):
        grants.answer(unanswered, True, by="ben")
    assert grants.take(request("second"), None) is None
    assert grants.prune() == 2
    assert grants.get(unused) is None


def test_what_is_withdrawn_can_no_longer_be_answered(open_grants: Open) -> None:
    grants = open_grants()
    name = grants.park(request())

    assert grants.withdraw(name)
    assert not grants.withdraw(name)
    with pytest.raises(HardpointError, match="no approval"):
        open_grants().answer(name, True, by="ben")


def test_nobody_fills_the_store_with_questions(open_grants: Open) -> None:
    grants = open_grants()
    for number in range(MAX_WAITING):
        grants.park(request(str(number)))

    with pytest.raises(NotAuthorized, match="wait for an answer already"):
        grants.park(request("one more"))
    grants.park(request("of another", user_id="ben"))
