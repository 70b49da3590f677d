"""Each hook, in a plugin of its own, through a runtime. One test or more for every hook."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import hardpoint
from hardpoint import ApprovalRequirement, JobContext, ToolOutput, ToolRateLimitConfig, tool
from hardpoint.errors import PluginError
from hardpoint.interfaces import ExecutionDomain, Invocation, OutputFilter
from hardpoint.testing import ScriptedApprover, make_context, make_runtime

ANA = make_context("ana")


@tool(effects=())
async def greet(name: str) -> str:
    """Greet a person."""
    return f"Hello {name}."


def plugin(**hooks: Any) -> Any:
    """A plugin of these functions, as a module would have them."""
    marked = {name: hardpoint.hookimpl(function) for name, function in hooks.items()}
    return SimpleNamespace(HARDPOINT_API=1, __name__="acme", **marked)


@attrs.frozen
class Settings:
    units: str = "metric"


async def test_hardpoint_config_type_gives_the_other_hooks_typed_settings() -> None:
    seen: list[Any] = []
    acme = plugin(
        hardpoint_config_type=lambda: Settings,
        hardpoint_register_tools=lambda registry, config: seen.append(config),
    )

    async with make_runtime(
        plugins={"acme": acme}, settings={"plugin": {"acme": {"units": "imperial"}}}
    ):
        pass
    with pytest.raises(hardpoint.ConfigError, match="units"):
        make_runtime(plugins={"acme": acme}, settings={"plugin": {"acme": {"unit": "imperial"}}})

    assert seen == [Settings("imperial")]


async def test_hardpoint_register_tools_adds_tools_of_the_plugin() -> None:
    acme = plugin(hardpoint_register_tools=lambda registry: registry.register(greet))

    async with make_runtime(plugins={"acme": acme}) as rt:
        output = await rt.call("greet", {"name": "Ada"}, ANA)
        entry = rt.registry.entry("greet")

    assert output.result == "Hello Ada."
    assert entry is not None
    assert entry.owner == "acme"


class Elsewhere(ExecutionDomain):
    async def run(self, invocation: Invocation) -> ToolOutput:
        return ToolOutput.text(f"elsewhere: {invocation.name}")


async def test_hardpoint_register_domains_adds_a_place_to_run() -> None:
    @tool(domain="elsewhere")
    async def far(ctx: JobContext) -> str:
        """Run elsewhere."""
        return "here"

    acme = plugin(
        hardpoint_register_domains=lambda registry: registry.register("elsewhere", Elsewhere())
    )

    async with make_runtime(tools=[far], plugins={"acme": acme}) as rt:
        output = await rt.call("far", {}, ANA)

    assert output.result == "elsewhere: far"


async def test_hardpoint_register_approvers_adds_somebody_to_ask() -> None:
    approver = ScriptedApprover("once")
    acme = plugin(hardpoint_register_approvers=lambda registry: registry.register("chat", approver))

    async with make_runtime(
        tools=[greet],
        ask=["greet"],
        plugins={"acme": acme},
        settings={"approval": {"approvers": ["chat"]}},
    ) as rt:
        outcome = await rt.run("greet", {"name": "Ada"}, ANA)

    assert outcome.ok
    assert [request.tool for request in approver.requests] == ["greet"]


async def test_hardpoint_register_rate_limiters_adds_a_backend() -> None:
    class Full(hardpoint.RateLimiterBackend):
        async def acquire(self, requests: Any) -> Any:
            raise AssertionError("not asked: the call was refused before")

        async def check(self, requests: Any) -> Any:
            from datetime import timedelta

            return timedelta(seconds=9)

    limited = tool(greet.function, rate_limit=ToolRateLimitConfig(5, 5), name="limited")
    acme = plugin(
        hardpoint_register_rate_limiters=lambda registry: registry.register("full", Full())
    )

    async with make_runtime(
        tools=[limited], plugins={"acme": acme}, settings={"limits": {"backend": "full"}}
    ) as rt:
        outcome = await rt.run("limited", {"name": "Ada"}, ANA)

    assert isinstance(outcome.error, hardpoint.RateLimited)


async def test_hardpoint_register_extensions_adds_things_by_kind() -> None:
    class Upper(OutputFilter):
        async def apply(self, output: ToolOutput, call: Any, context: JobContext) -> ToolOutput:
            return attrs.evolve(output, result=output.result.upper())

    acme = plugin(
        hardpoint_register_extensions=lambda registry: registry.register(
            "output_filter", "upper", Upper()
        )
    )

    async with make_runtime(tools=[greet], plugins={"acme": acme}) as rt:
        output = await rt.call("greet", {"name": "Ada"}, ANA)

    assert output.result == "HELLO ADA."


def test_hardpoint_register_extensions_refuses_what_is_not_of_its_kind() -> None:
    acme = plugin(
        hardpoint_register_extensions=lambda registry: registry.register("channel", "x", object())
    )
    unknown = plugin(
        hardpoint_register_extensions=lambda registry: registry.register("chanel", "x", object())
    )

    with pytest.raises(PluginError, match="Channel"):
        make_runtime(plugins={"acme": acme})
    with pytest.raises(PluginError, match="channel"):
        make_runtime(plugins={"acme": unknown})


def test_hardpoint_register_commands_adds_words_to_the_command_line() -> None:
    from hardpoint.config import Config
    from hardpoint.plugins import PluginManager
    from hardpoint.registry import ToolRegistry

    manager = PluginManager(Config(), ToolRegistry())
    manager.add(
        "acme",
        plugin(
            hardpoint_register_commands=lambda registry: registry.register(
                "weather", "acme_weather.cli:group", "Weather stations"
            )
        ),
    )

    command = manager.commands["weather"].value
    assert (command.target, command.help) == ("acme_weather.cli:group", "Weather stations")


async def test_hardpoint_approval_requirement_can_only_demand_more() -> None:
    def demand(call: Any) -> ApprovalRequirement | None:
        return ApprovalRequirement.ALWAYS if call.params["name"] == "Eve" else None

    acme = plugin(hardpoint_approval_requirement=demand)
    lenient = plugin(hardpoint_approval_requirement=lambda tool: ApprovalRequirement.NEVER)

    async with make_runtime(tools=[greet], plugins={"acme": acme, "lenient": lenient}) as rt:
        usual = await rt.run("greet", {"name": "Ada"}, ANA)
        refused = await rt.run("greet", {"name": "Eve"}, ANA)

    assert usual.ok
    assert isinstance(refused.error, hardpoint.NotAuthorized)


async def test_hardpoint_rate_limits_adds_limits_that_all_count() -> None:
    acme = plugin(hardpoint_rate_limits=lambda tool: [ToolRateLimitConfig(2, 100)])
    other = plugin(hardpoint_rate_limits=lambda context: [ToolRateLimitConfig(1, 100)])

    async with make_runtime(tools=[greet], plugins={"acme": acme, "other": other}) as rt:
        outcomes = [await rt.run("greet", {"name": "Ada"}, ANA) for _ in range(2)]

    assert [outcome.ok for outcome in outcomes] == [True, False]


@pytest.mark.parametrize("hook", ["hardpoint_approval_requirement", "hardpoint_rate_limits"])
async def test_a_decision_hook_that_fails_denies(hook: str) -> None:
    def broken() -> None:
        raise RuntimeError("no idea")

    async with make_runtime(tools=[greet], plugins={"acme": plugin(**{hook: broken})}) as rt:
        outcome = await rt.run("greet", {"name": "Ada"}, ANA)

    assert isinstance(outcome.error, hardpoint.NotAuthorized)
    assert "acme" in outcome.error.message


async def test_hardpoint_call_started_is_told_before_the_body_runs() -> None:
    order: list[str] = []

    @tool
    async def body() -> str:
        """Run."""
        order.append("body")
        return ""

    acme = plugin(hardpoint_call_started=lambda call: order.append(f"started {call.tool}"))

    async with make_runtime(tools=[body], plugins={"acme": acme}) as rt:
        await rt.call("body", {}, ANA)

    assert order == ["started body", "body"]


async def test_hardpoint_call_finished_is_told_of_every_end() -> None:
    ends: list[tuple[str, bool]] = []
    acme = plugin(
        hardpoint_call_finished=lambda call, outcome: ends.append((call.tool, outcome.ok))
    )

    async with make_runtime(tools=[greet], deny=["greet(name:Eve)"], plugins={"acme": acme}) as rt:
        await rt.run("greet", {"name": "Ada"}, ANA)
        await rt.run("greet", {"name": "Eve"}, ANA)
        await rt.run("greet", {}, ANA)

    assert ends == [("greet", True), ("greet", False), ("greet", False)]


@pytest.mark.parametrize("hook", ["hardpoint_call_started", "hardpoint_call_finished"])
async def test_an_observer_that_fails_changes_nothing(hook: str) -> None:
    def broken() -> None:
        raise RuntimeError("no idea")

    async with make_runtime(tools=[greet], plugins={"acme": plugin(**{hook: broken})}) as rt:
        assert (await rt.run("greet", {"name": "Ada"}, ANA)).ok
