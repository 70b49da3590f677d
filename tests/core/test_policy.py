"""What rules, modes, requirements and callers lead to."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardpoint
from hardpoint import ApprovalRequirement, JobContext, NotAuthorized, tool
from hardpoint.config import RuleEntry
from hardpoint.errors import ConfigError
from hardpoint.policy.binding import bind_rule
from hardpoint.policy.conditions import Facts
from hardpoint.policy.decide import Question, decide, modes_in_force
from hardpoint.policy.rules import parse_rule
from hardpoint.testing import ScriptedApprover, make_context, make_runtime
from hardpoint.tools import ALL_EFFECTS, Canonical, Subject, Tool, strictest

NEVER, UNLESS, ALWAYS = (
    ApprovalRequirement.NEVER,
    ApprovalRequirement.UNLESS_AUTO_APPROVED,
    ApprovalRequirement.ALWAYS,
)
ANA = make_context("ana")


class Acting(Tool):
    """A tool whose requirement, effects and subjects are given."""

    description = "Act."

    def __init__(
        self,
        name: str = "act",
        kind: Any = None,
        requirement: ApprovalRequirement = NEVER,
        effects: Any = ("read",),
        subjects: bool = True,
    ) -> None:
        self.name = name
        self.subject_kind = kind
        self.requirement = requirement
        self.given_effects = effects
        self.gives_subjects = subjects
        self.ran: list[Any] = []

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "on": {"type": "string"},
                "how": {"type": "string"},
                "count": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
        }

    def requires_approval(self, params: Any) -> ApprovalRequirement:
        return self.requirement

    def effects(self, params: Any) -> Any:
        return self.given_effects

    async def canonicalise(self, params: dict[str, Any], context: Any) -> Canonical:
        if self.subject_kind is None or not self.gives_subjects:
            return Canonical(params)
        return Canonical(params, (Subject(self.subject_kind, params["on"], params.get("how", "")),))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> hardpoint.ToolOutput:
        self.ran.append(params)
        return hardpoint.ToolOutput.text("acted")


async def verdict_of(
    acting: Acting, params: dict[str, Any], context: JobContext = ANA, **options: Any
) -> str:
    async with make_runtime(tools=[acting], **options) as rt:
        return (await rt.check(acting.name, params, context)).decision


# what a rule matches ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "params", "matches"),
    [
        ("act", {}, True),
        ("act(*)", {}, True),
        ("ac*", {}, True),
        ("?ct", {}, True),
        ("ACT", {}, True),
        ("actor", {}, False),
        ("ac", {}, False),
        ("act(how:fast)", {"how": "fast"}, True),
        ("act(how:fast)", {"how": "Fast"}, False),
        ("act(how:f*)", {"how": "fast\nrm"}, True),
        ("act(how:fast)", {"how": "fast "}, False),
        ("act(how:fast)", {}, False),
        ("act(how:*)", {}, False),
        ("act(how:*)", {"how": ""}, True),
        ("act(count:5)", {"count": 5}, True),
        ("act(count:5.0)", {"count": 5}, True),
        ("act(count:5)", {"count": 55}, False),
        ("act(count:*)", {"count": 55}, True),
        ("act(tags:a)", {"tags": ["a", "b"]}, "restricts"),
        ("act(tags:a)", {"tags": ["a", "a"]}, True),
        ("act(tags:a)", {"tags": []}, False),
        ("act(tags:a)", {"tags": ["b"]}, False),
        ({"tool": "act", "where": {"how": "f*", "count": 5}}, {"how": "fast", "count": 5}, True),
        ({"tool": "act", "where": {"how": "f*", "count": 5}}, {"how": "fast"}, False),
        ({"tool": "act", "where": {"count": "5"}}, {"count": 5}, False),
        ({"tool": "act", "where": {"count": True}}, {"count": 1}, False),
        ({"tool": "act", "where": {"tags": ["a"]}}, {"tags": ["a"]}, True),
        ({"tool": "act", "where": {"tags": ["a"]}}, {"tags": ["a", "b"]}, False),
        ({"tool": "act(how:fast)", "where": {"count": 5}}, {"how": "fast", "count": 5}, True),
        ({"tool": "act(how:fast)", "where": {"count": 5}}, {"how": "slow", "count": 5}, False),
        ({"tool": "act(how:fast)", "where": {"count": 5}}, {"how": "fast", "count": 6}, False),
    ],
)
@pytest.mark.parametrize("decision", ["allow", "ask", "deny"])
async def test_a_rule_matches_what_it_says(
    rule: Any, params: Any, matches: Any, decision: str
) -> None:
    acting = Acting(requirement=UNLESS)
    expected = matches is True or (matches == "restricts" and decision != "allow")

    verdict = await verdict_of(acting, params, **{decision: [rule]})

    without = "ask"
    if decision == "ask":  # it asks anyway, so look at the reason
        async with make_runtime(tools=[acting], ask=[rule]) as rt:
            found = await rt.check("act", params, ANA)
        assert any(reason.rule is not None for reason in found.reasons) is expected
    else:
        assert verdict == (decision if expected else without)


@pytest.mark.parametrize(
    ("kind", "rule", "on", "how"),
    [
        ("path", "act(src/**)", "src/a.py", "write"),
        ("path", "act(write:src/**)", "src/a.py", "write"),
        ("url", "act(domain:*.example.com)", "https://a.example.com/x", "GET"),
        ("url", "act(method:POST)", "https://a.example.com/x", "POST"),
        ("text", "act(hello *)", "hello world", ""),
        ("command", "act(git:*)", "git status", ""),
    ],
)
async def test_a_rule_for_a_subject_needs_that_subject(
    kind: str, rule: str, on: str, how: str
) -> None:
    """A tool that does not say what it acts on cannot slip through a rule about that."""
    saying = Acting(kind=kind)
    silent = Acting(kind=kind, subjects=False)
    params = {"on": on, "how": how}

    assert await verdict_of(saying, params, deny=[rule]) == "deny"
    assert await verdict_of(silent, params, deny=[rule]) == "ask"
    assert await verdict_of(silent, params, deny=["act"]) == "deny"
    assert await verdict_of(silent, params, ask=["act"]) == "ask"
    assert await verdict_of(silent, params, make_context(mode="locked"), allow=[rule]) == "deny"


async def test_where_narrows_a_command_rule() -> None:
    acting = Acting(kind="command", requirement=UNLESS)
    rule = {"tool": "act(git diff:*)", "where": {"how": "dry"}}

    assert await verdict_of(acting, {"on": "git diff", "how": "dry"}, allow=[rule]) == "allow"
    assert await verdict_of(acting, {"on": "git diff", "how": "wet"}, allow=[rule]) == "ask"
    assert await verdict_of(acting, {"on": "make", "how": "dry"}, allow=[rule]) == "ask"
    assert await verdict_of(acting, {"on": "git diff", "how": "dry"}, deny=[rule]) == "deny"
    assert await verdict_of(acting, {"on": "git diff", "how": "wet"}, deny=[rule]) == "ask"


def test_the_text_of_a_command_allows_nothing() -> None:
    rule = parse_rule(RuleEntry("allow", {"tool": "shell", "where": {"command": "git *"}}))

    with pytest.raises(ConfigError, match="write it as the SPEC"):
        bind_rule(rule, "shell", None, "command")


async def test_a_glob_rule_says_nothing_about_tools_without_such_a_thing() -> None:
    one, other = Acting("act_one"), Acting("other")

    @tool(effects=["read"])
    async def plain(name: str) -> str:
        """Nothing that the rule speaks of."""
        return name

    async with make_runtime(tools=[one, other, plain], deny=["*(how:fast)"]) as rt:
        denied = await rt.run("act_one", {"how": "fast"}, ANA)
        free = await rt.run("plain", {"name": "x"}, ANA)

    assert isinstance(denied.error, NotAuthorized)
    assert free.ok


# conditions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "effects", "restricts", "widens"),
    [
        ({"effects": "read"}, ("read",), True, True),
        ({"effects": "read"}, ("read", "delete"), True, False),
        ({"effects": ["read", "delete"]}, ("read", "delete"), True, True),
        ({"effects": "network"}, ("read",), False, False),
        ({"domain": "orchestrator"}, ("read",), True, True),
        ({"domain": "container"}, ("read",), False, False),
        ({"user": "ana"}, ("read",), True, True),
        ({"user": "a*"}, ("read",), True, True),
        ({"user": ["ben", "eve"]}, ("read",), False, False),
        ({"origin": "library"}, ("read",), True, True),
        ({"origin": ["cli", "gateway"]}, ("read",), False, False),
        ({"provenance": "trusted"}, ("read",), True, True),
        ({"provenance": "private"}, ("read",), False, False),
        ({"user": "ana", "domain": "container"}, ("read",), False, False),
    ],
)
async def test_conditions_are_read_so_that_nothing_slips_through(
    conditions: Any, effects: Any, restricts: bool, widens: bool
) -> None:
    """What takes rights away counts for any effect, what gives them only for all of them."""
    acting = Acting(requirement=UNLESS, effects=effects)

    async def with_rule(decision: str, group: str) -> bool:
        rule = {"tool": "act", group: conditions}
        return await verdict_of(acting, {}, **{decision: [rule]}) == decision

    assert await with_rule("deny", "when") is restricts
    assert await with_rule("deny", "unless") is not widens
    assert await with_rule("allow", "when") is widens
    assert await with_rule("allow", "unless") is not restricts


async def test_a_nested_call_comes_from_its_root_and_from_a_tool() -> None:
    acting = Acting()

    @tool
    async def outer(ctx: JobContext) -> str:
        """Call on."""
        return str((await ctx.services.run("act", {})).ok)

    async def nested(decision: str, origin: str) -> Any:
        rule = {"tool": "act", "when": {"origin": origin}}
        async with make_runtime(
            tools=[outer, acting], origin="gateway", **{decision: [rule]}
        ) as rt:
            return (await rt.run("outer", {}, ANA)).result

    assert await nested("deny", "gateway") == "False", "a tool does not change where a call is from"
    assert await nested("deny", "tool") == "False"
    assert await nested("deny", "cli") == "True"


async def test_the_origin_is_the_runtimes() -> None:
    acting = Acting()
    rule = {"tool": "act", "when": {"origin": "cli"}}

    for origin, decision in (("cli", "deny"), ("gateway", "allow"), ("library", "allow")):
        assert await verdict_of(acting, {}, deny=[rule], origin=origin) == decision


# exactly this call -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "rule", "params", "passes"),
    [
        (None, "act", {}, False),
        (None, "*", {}, False),
        (None, "act(*)", {}, False),
        (None, "act(how:*)", {"how": "fast"}, False),
        (None, "act(how:f*)", {"how": "fast"}, False),
        (None, "act(how:fast)", {"how": "fast"}, True),
        (None, "act(how:fast)", {"how": "fast", "count": 9}, False),
        (
            None,
            {"tool": "act", "where": {"how": "fast", "count": 9}},
            {"how": "fast", "count": 9},
            True,
        ),
        ("path", "act(src)", {"on": "src/a.py", "how": "write"}, False),
        ("path", "act(a.py)", {"on": "src/a.py", "how": "write"}, False),
        ("path", "act(src/*)", {"on": "src/a.py", "how": "write"}, False),
        ("path", "act(src/a.py)", {"on": "src/a.py", "how": "write"}, True),
        ("path", "act(write:src/a.py)", {"on": "src/a.py", "how": "write"}, True),
        ("path", "act(read:src/a.py)", {"on": "src/a.py", "how": "write"}, False),
        ("url", "act(domain:a.example)", {"on": "https://a.example/x", "how": "POST"}, False),
        ("url", "act(https://a.example/*)", {"on": "https://a.example/x", "how": "POST"}, False),
        ("url", "act(https://a.example/x)", {"on": "https://a.example/x", "how": "POST"}, True),
        (
            "url",
            "act(POST https://a.example/x)",
            {"on": "https://a.example/x", "how": "POST"},
            True,
        ),
        ("command", "act", {"on": "git status"}, False),
        ("command", "act(git:*)", {"on": "git status"}, False),
        ("command", "act(git status)", {"on": "git status"}, True),
        ("command", "act(git status)", {"on": "git status; ls"}, False),
    ],
)
@pytest.mark.parametrize("asked_by", ["tool", "config"])
async def test_what_always_asks_is_allowed_only_by_its_exact_name(
    kind: Any, rule: Any, params: Any, passes: bool, asked_by: str
) -> None:
    acting = Acting(kind=kind, requirement=ALWAYS if asked_by == "tool" else NEVER)
    config = {} if asked_by == "tool" else {"tools": {"act": {"approval": "always"}}}

    decision = await verdict_of(acting, params, allow=[rule], settings=config)

    assert decision == ("allow" if passes else "ask")


# modes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "configured", "in_force"),
    [
        ("default", None, {"default"}),
        ("auto", None, {"auto"}),
        ("default", "auto", {"auto"}),
        ("auto", "auto", {"auto"}),
        ("auto", "default", {"auto", "default"}),
        ("plan", "auto", {"plan", "auto"}),
        ("default", "locked", {"locked"}),
        ("plan", "locked", {"plan", "locked"}),
    ],
)
def test_callers_and_configuration_can_each_be_strict(
    asked: str, configured: str | None, in_force: set[str]
) -> None:
    assert set(modes_in_force(asked, configured)) == in_force


async def test_a_configured_mode_holds_for_callers_who_say_nothing() -> None:
    def mode(name: str) -> Any:
        return {"policy": {"mode": name}}

    asks = Acting(requirement=UNLESS, effects=("write",))

    assert await verdict_of(asks, {}, settings=mode("auto")) == "allow"
    assert await verdict_of(asks, {}, settings=mode("plan")) == "deny"
    assert await verdict_of(asks, {}, settings=mode("locked")) == "deny"
    assert await verdict_of(asks, {}, make_context(mode="plan"), settings=mode("auto")) == "deny"
    assert await verdict_of(asks, {}, make_context(mode="auto"), settings=mode("default")) == "ask"


async def test_an_ask_rule_asks_whoever_calls() -> None:
    acting = Acting(requirement=UNLESS)
    for context in (
        make_context(mode="auto"),
        make_context(auto_approve=True),
        make_context(autonomous=True),
        make_context(autonomous=True, allowed_tools=["act"]),
    ):
        assert await verdict_of(acting, {}, context, ask=["act"], allow=["act"]) == "ask"


# properties ------------------------------------------------------------------------------------

requirements = st.sampled_from([NEVER, UNLESS, ALWAYS])
modes = st.sampled_from(["default", "plan", "auto", "locked"])
texts = st.sampled_from(["fast", "slow", ""])
specs = st.sampled_from(
    ["act", "act(*)", "a*", "*", "act(how:fast)", "act(how:*)", "act(how:f*)", "act(count:5)",
     "act(tags:a)"]
)  # fmt: skip
conditions = st.dictionaries(
    st.sampled_from(["user", "origin", "effects", "domain", "provenance"]), st.none(), max_size=2
)
words = {
    "user": ["ana", "ben", "*"],
    "origin": ["library", "cli", "tool"],
    "effects": ["read", "network", "delete"],
    "domain": ["orchestrator", "container"],
    "provenance": ["trusted", "untrusted", "private"],
}


@st.composite
def tables(draw: Any) -> Any:
    spec = draw(specs)
    table: dict[str, Any] = {"tool": spec}
    for group in ("when", "unless"):
        names = draw(conditions)
        if names:
            table[group] = {
                name: draw(st.lists(st.sampled_from(words[name]), min_size=1, max_size=2))
                for name in names
            }
    return table if len(table) > 1 else spec


rules = st.lists(st.tuples(st.sampled_from(["allow", "ask", "deny"]), tables()), max_size=5)
effects = st.sets(st.sampled_from(sorted(ALL_EFFECTS)))


@st.composite
def questions(draw: Any) -> Question:
    return Question(
        tool="act",
        params=draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "how": texts,
                    "count": st.integers(4, 6),
                    "tags": st.lists(st.sampled_from("ab"), max_size=2),
                },
            )
        ),
        subjects=(),
        own=draw(requirements),
        imposed=draw(requirements),
        imposed_by="a plugin",
        facts=Facts(
            domain=draw(st.sampled_from(words["domain"])),
            effects=frozenset(draw(effects)),
            user=draw(st.sampled_from(["ana", "ben"])),
            origins=frozenset(draw(st.sets(st.sampled_from(words["origin"]), min_size=1))),
            seen=frozenset(draw(st.sets(st.sampled_from(["untrusted", "private"])))),
        ),
        modes=modes_in_force(draw(modes), draw(st.none() | modes)),
        auto_approve=draw(st.booleans() | st.sampled_from([("act",), ("other",)])),
        autonomous=draw(st.booleans()),
        allowed_tools=draw(st.sampled_from([(), ("act",), ("other",)])),
        egress_after=draw(st.sampled_from([(), ("private",), ("private", "untrusted")])),
    )


SCHEMA = Acting().parameters_schema()


def bound(pairs: Any) -> list[Any]:
    return [
        bind_rule(parse_rule(RuleEntry(decision, spec)), "act", SCHEMA, None)
        for decision, spec in pairs
    ]


RANK = {"allow": 0, "ask": 1, "deny": 2}


@given(questions(), rules, st.randoms())
def test_merging_rules_is_free_of_order(question: Question, pairs: Any, random: Any) -> None:
    first = decide(question, bound(pairs))
    random.shuffle(pairs)
    second = decide(question, bound(pairs))

    assert first.decision == second.decision
    assert first.requirement == second.requirement
    assert set(map(str, first.reasons)) == set(map(str, second.reasons))


@given(st.lists(requirements), st.randoms())
def test_merging_requirements_is_free_of_order(answers: Any, random: Any) -> None:
    merged = strictest(answers)
    random.shuffle(answers)
    assert strictest(answers) is merged
    assert strictest([strictest(answers[:1]), strictest(answers[1:])]) is merged


@given(questions(), rules)
def test_always_is_never_skipped_silently(question: Question, pairs: Any) -> None:
    """In no mode, for no caller, under no rules but the two ways that name the call or the tool."""
    if strictest((question.own, question.imposed)) is not ALWAYS:
        question = attrs.evolve(question, own=ALWAYS)

    verdict = decide(question, bound(pairs))

    if verdict.decision != "allow":
        return
    listed = question.autonomous and "act" in question.allowed_tools
    spelled_out = any(
        each.rule.decision == "allow"
        and each.applies(question.facts)
        and each.matches(question.params, ())
        and each.spells_out(question.params, ())
        for each in bound(pairs)
    )
    assert listed or spelled_out
    assert verdict.reasons, "it says why"


@given(questions(), rules)
def test_any_deny_is_final(question: Question, pairs: Any) -> None:
    denied = any(
        each.rule.decision == "deny"
        and each.applies(question.facts)
        and each.matches(question.params, ())
        for each in bound(pairs)
    )
    if denied:
        assert decide(question, bound(pairs)).decision == "deny"


@given(questions(), rules, st.tuples(st.sampled_from(["ask", "deny"]), tables()))
def test_one_more_restriction_never_gives_more_rights(
    question: Question, pairs: Any, more: Any
) -> None:
    before = decide(question, bound(pairs)).decision
    after = decide(question, bound([*pairs, more])).decision
    assert RANK[after] >= RANK[before]


@given(questions(), rules)
def test_a_stricter_requirement_never_gives_more_rights(question: Question, pairs: Any) -> None:
    for weaker, stricter in itertools.pairwise((NEVER, UNLESS, ALWAYS)):
        before = decide(attrs.evolve(question, own=weaker), bound(pairs)).decision
        after = decide(attrs.evolve(question, own=stricter), bound(pairs)).decision
        assert RANK[after] >= RANK[before]


@given(questions(), rules)
def test_plan_and_locked_only_take_away(question: Question, pairs: Any) -> None:
    plain = attrs.evolve(question, modes=("default",))
    before = decide(plain, bound(pairs)).decision
    for mode in ("plan", "locked"):
        strict = attrs.evolve(question, modes=(mode,))
        assert RANK[decide(strict, bound(pairs)).decision] >= RANK[before]
    planned = decide(attrs.evolve(question, modes=("plan",)), bound(pairs))
    if not question.facts.effects <= {"read"}:
        assert planned.decision == "deny"


@given(questions(), rules)
def test_what_a_session_has_read_never_gives_more_rights_to_send(
    question: Question, pairs: Any
) -> None:
    leaving = attrs.evolve(
        question, facts=attrs.evolve(question.facts, effects=frozenset(["send"]))
    )
    seen = attrs.evolve(
        leaving, facts=attrs.evolve(leaving.facts, seen=frozenset(["untrusted", "private"]))
    )
    if question.egress_after:
        assert decide(seen, bound(pairs)).decision != "allow"


# through whole calls ---------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    mode=modes,
    configured=st.none() | modes,
    auto=st.booleans(),
    autonomous=st.booleans(),
    interactive=st.booleans(),
    allow=st.lists(st.sampled_from(["act", "*", "act(how:f*)", "act(*)"]), max_size=2),
)
async def test_a_call_that_always_asks_runs_only_after_a_yes(
    mode: Any, configured: Any, auto: bool, autonomous: bool, interactive: bool, allow: Any
) -> None:
    acting = Acting(requirement=ALWAYS)
    context = make_context(
        mode=mode, auto_approve=auto, autonomous=autonomous, interactive=interactive
    )
    policy: Any = {} if configured is None else {"policy": {"mode": configured}}
    approver = ScriptedApprover("no", "once")

    async with make_runtime(tools=[acting], allow=allow, settings=policy, approver=approver) as rt:
        await rt.run("act", {"how": "fast"}, context)
        assert acting.ran == []
        second = await rt.run("act", {"how": "fast"}, context)

    assert second.ok == bool(acting.ran)
    if second.ok:
        assert len(approver.requests) == 2


# limits of rules -------------------------------------------------------------------------------


async def test_a_rule_can_limit_what_it_allows() -> None:
    one, other = Acting("act_one", requirement=UNLESS), Acting("act_two", requirement=UNLESS)
    rule = {
        "tool": "act_*(how:fast)",
        "rate_limit": {"requests_per_minute": 2, "requests_per_hour": 100},
    }

    async with make_runtime(tools=[one, other], allow=[rule, "act_*"]) as rt:
        outcomes = [
            await rt.run(name, {"how": "fast"}, ANA) for name in ("act_one", "act_two", "act_one")
        ]
        slow = await rt.run("act_one", {"how": "slow"}, ANA)
        ben = await rt.run("act_one", {"how": "fast"}, make_context("ben"))

    assert [outcome.ok for outcome in outcomes] == [True, True, False]
    assert isinstance(outcomes[2].error, hardpoint.RateLimited)
    assert outcomes[2].error.retry_after is not None
    assert slow.ok
    assert ben.ok


async def test_nobody_is_asked_about_a_call_that_a_rule_limits() -> None:
    acting = Acting(kind="command", requirement=UNLESS)
    approver = ScriptedApprover("once", "once")
    rule = {"tool": "act(git push:*)", "rate_limit": {"requests_per_minute": 1}}

    async with make_runtime(tools=[acting], ask=[rule], approver=approver) as rt:
        first = await rt.run("act", {"on": "git status && git push origin main"}, ANA)
        second = await rt.run("act", {"on": "git push"}, ANA)

    assert first.ok
    assert isinstance(second.error, hardpoint.RateLimited)
    assert len(approver.requests) == 1


async def test_what_a_failed_call_let_out_counts_as_read() -> None:
    @tool(effects=["read"], provenance="private", timeout=0.01)
    async def diary(ctx: JobContext) -> str:
        """Read on and on."""
        import asyncio

        ctx.emit(hardpoint.Text("dear diary"))
        await asyncio.Event().wait()
        return ""

    @tool(effects=["send"])
    async def post(text: str) -> str:
        """Post."""
        return "posted"

    settings = {"policy": {"egress_after": ["private"]}}
    async with make_runtime(tools=[diary, post], settings=settings) as rt:
        before = await rt.run("post", {"text": "x"}, ANA)
        cut = await rt.run("diary", {}, ANA)
        after = await rt.run("post", {"text": "x"}, ANA)

    assert before.ok
    assert isinstance(cut.error, hardpoint.ToolTimeout)
    assert not after.ok
