"""What a remembered answer covers, and what ends it."""

from __future__ import annotations

from typing import Any

import pytest

import hardpoint
from hardpoint import JobContext, Tool, ToolOutput
from hardpoint.config import Config, PolicyConfig, StoreConfig
from hardpoint.interfaces import SystemClock
from hardpoint.policy.grants import StoredGrants
from hardpoint.testing import ScriptedApprover, make_context, make_runtime
from hardpoint.tools import Canonical, Effect, Subject


class Opener(Tool):
    """Opens things, and asks once a session."""

    def __init__(
        self,
        name: str = "open_it",
        kind: Any = "path",
        description: str = "Open.",
        effects: tuple[Effect, ...] = ("read",),
    ) -> None:
        self.name = name
        self.description = description
        self.subject_kind = kind
        self.given_effects = effects

    def parameters_schema(self) -> dict[str, Any]:
        items = {"type": "array", "items": {"type": "string"}}
        return {"type": "object", "properties": {"on": items, "how": {"type": "string"}}}

    def requires_approval(self, params: Any) -> hardpoint.ApprovalRequirement:
        return hardpoint.ApprovalRequirement.UNLESS_AUTO_APPROVED

    def effects(self, params: Any) -> Any:
        return self.given_effects

    async def canonicalise(self, params: dict[str, Any], context: Any) -> Canonical:
        how = params.get("how", "read")
        return Canonical(params, tuple(Subject(self.subject_kind, on, how) for on in params["on"]))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        return ToolOutput.text("opened")


def config(place: StoreConfig, **options: Any) -> Config:
    return Config(store=place, **options)


async def passes(
    place: StoreConfig,
    params: dict[str, Any],
    *,
    tool: Opener | None = None,
    context: JobContext | None = None,
    answer: str = "no",
    **options: Any,
) -> bool:
    """Whether a call in a new runtime on the same state runs; asked, it gets this answer."""
    runtime = make_runtime(
        tools=[tool or Opener()],
        config=config(place),
        approver=ScriptedApprover(answer),
        **options,
    )
    async with runtime as rt:
        name = tool.name if tool else "open_it"
        return (await rt.run(name, params, context or make_context("ana"))).ok


A = {"on": ["src/a.py"]}


@pytest.fixture
async def granted(place: StoreConfig) -> StoreConfig:
    """A state in which ana was once told `always` about src/a.py."""
    assert await passes(place, A, answer="always")
    return place


async def test_it_covers_the_same_call_in_another_process(granted: StoreConfig) -> None:
    assert await passes(granted, A)
    assert await passes(granted, A, context=make_context("ana", session_id="another"))


@pytest.mark.parametrize(
    "params",
    [
        {"on": ["src/b.py"]},
        {"on": ["src/a.py", "src/b.py"]},
        {"on": ["src/a.py"], "how": "write"},
        {"on": ["SRC/a.py"]},
        {"on": ["src/a.py; read:src/b.py"]},
        {"on": ["src/*"]},
    ],
)
async def test_it_covers_what_was_shown_and_nothing_else(granted: StoreConfig, params: Any) -> None:
    assert not await passes(granted, params)


async def test_one_odd_name_does_not_stand_for_two_names(place: StoreConfig) -> None:
    odd = {"on": ["a; read:b"]}
    assert await passes(place, odd, answer="always")

    assert not await passes(place, {"on": ["a", "b"]})
    assert await passes(place, odd)


@pytest.mark.parametrize(
    "context",
    [
        make_context("ben"),
        make_context("ANA"),
        make_context("ana", project="other"),
        make_context("ana", workspace="/somewhere"),
    ],
)
async def test_it_belongs_to_one_user_and_project(
    granted: StoreConfig, context: JobContext
) -> None:
    assert not await passes(granted, A, context=context)


async def test_without_a_project_the_workspace_counts(place: StoreConfig) -> None:
    one, other = (make_context("ana", workspace=f"/work{n}") for n in (1, 2))
    assert await passes(place, A, context=one, answer="always")

    assert await passes(place, A, context=one)
    assert not await passes(place, A, context=other)
    same = {"project": "shop"}
    both = [make_context("ana", workspace=f"/work{n}", **same) for n in (1, 2)]
    assert await passes(place, A, context=both[0], answer="always")
    assert await passes(place, A, context=both[1])


@pytest.mark.parametrize(
    "changed", [Opener(description="Open, and send it to us."), Opener(name="open_that")]
)
async def test_it_ends_when_the_tool_becomes_another(granted: StoreConfig, changed: Opener) -> None:
    assert not await passes(granted, A, tool=changed)


async def test_it_ends_when_the_tool_changes_hands(place: StoreConfig) -> None:
    class Plugin:
        HARDPOINT_API = 1

        @hardpoint.hookimpl
        def hardpoint_register_tools(self, registry: Any) -> None:
            registry.register(Opener())

    async def asked(name: str, answer: str) -> bool:
        approver = ScriptedApprover(answer)
        async with make_runtime(
            plugins={name: Plugin()}, config=config(place), approver=approver
        ) as rt:
            return (await rt.run("open_it", A, make_context("ana"))).ok

    assert await asked("acme", "always")
    assert await asked("acme", "no")
    assert not await asked("evil", "no")


async def test_a_session_answer_ends_with_the_session(place: StoreConfig) -> None:
    one, other = make_context("ana", session_id="1"), make_context("ana", session_id="2")
    assert await passes(place, A, context=one, answer="session")

    assert await passes(place, A, context=one)
    assert not await passes(place, A, context=other)


@pytest.mark.parametrize(
    ("given", "used", "covered"),
    [
        ("default", "default", True),
        ("default", "plan", False),
        ("plan", "plan", True),
        ("plan", "default", True),
    ],
)
@pytest.mark.parametrize("by", ["caller", "configuration"])
async def test_it_does_not_count_in_a_stricter_mode(
    place: StoreConfig, given: str, used: str, covered: bool, by: str
) -> None:
    async def run(mode: Any, answer: str) -> bool:
        asking = mode if by == "caller" else "default"
        made = config(place, policy=PolicyConfig(mode=None if by == "caller" else mode))
        async with make_runtime(
            tools=[Opener()], config=made, approver=ScriptedApprover(answer)
        ) as rt:
            return (await rt.run("open_it", A, make_context("ana", mode=asking))).ok

    assert await run(given, "always")
    assert await run(used, "no") is covered


async def test_it_never_outweighs_a_rule(granted: StoreConfig) -> None:
    assert not await passes(granted, A, deny=["open_it(src/**)"])
    assert not await passes(granted, A, ask=["open_it(src/**)"])
    assert not await passes(granted, A, plugins={"strict": Strict()}), "a plugin asks every time"


class Strict:
    """A plugin that wants to be asked every time."""

    HARDPOINT_API = 1

    @hardpoint.hookimpl
    def hardpoint_approval_requirement(self) -> hardpoint.ApprovalRequirement:
        return hardpoint.ApprovalRequirement.ALWAYS


async def test_it_is_listed_and_can_be_revoked(granted: StoreConfig, open_store: Any) -> None:
    grants = StoredGrants(open_store(), SystemClock())

    (grant,) = grants.list("ana")
    assert (grant.scope, grant.tool, grant.pattern) == (
        "always",
        "open_it",
        "open_it(read:src/a.py)",
    )
    assert grants.list("ben") == []
    assert grants.revoke(grant.id)
    assert not grants.revoke(grant.id)
    assert not await passes(granted, A)


async def test_what_is_remembered_is_what_was_shown(place: StoreConfig) -> None:
    approver = ScriptedApprover("always")
    async with make_runtime(
        tools=[Opener(kind="url", effects=("read",))], config=config(place), approver=approver
    ) as rt:
        await rt.run("open_it", {"on": ["https://a.example/x"], "how": "GET"}, make_context("ana"))
        (grant,) = rt.approvals.list()

    assert approver.requests[0].pattern == grant.pattern == "open_it(GET https://a.example/x)"


async def test_a_single_answer_belongs_to_the_project_too(place: StoreConfig) -> None:
    here = make_context("ana", workspace="/work1", interactive=False)
    there = make_context("ana", workspace="/work2", interactive=False)
    async with make_runtime(tools=[Opener()], config=config(place)) as rt:
        waiting = await rt.run("open_it", A, here)
        rt.approvals.answer(waiting.error.approval_id, True, by="ben")
        elsewhere = await rt.run("open_it", A, there)
        through = await rt.run("open_it", A, here)

    assert not elsewhere.ok
    assert through.ok


async def test_a_single_answer_ends_when_the_definition_changes(place: StoreConfig) -> None:
    silent = make_context("ana", interactive=False)
    async with make_runtime(tools=[Opener()], config=config(place)) as rt:
        waiting = await rt.run("open_it", A, silent)
        rt.approvals.answer(waiting.error.approval_id, True, by="ben")
    changed = Opener(description="Open, and send it to us.")
    async with make_runtime(tools=[changed], config=config(place)) as rt:
        assert not (await rt.run("open_it", A, silent)).ok
