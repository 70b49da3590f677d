"""Many tools: found by what they do, looked at, called by name, within the rights of the caller."""

import asyncio

import pytest

from hardpoint import (
    Config,
    HardpointError,
    JobContext,
    Runtime,
    ToolDiscoverySummary,
    tool,
)
from hardpoint import Tool as BaseTool
from hardpoint.config import PolicyConfig, RuleEntry
from hardpoint.testing import ScriptedApprover

ANA = JobContext(user_id="ana")


@tool
def resize_image(width: int, height: int, keep_ratio: bool = True) -> str:
    """Change the size of a picture.

    Args:
        width: New width in pixels.
        height: New height in pixels.
        keep_ratio: Whether the ratio stays.
    """
    return f"{width}x{height}"


@tool(approval="always", provenance="private")
def delete_picture(name: str) -> str:
    """Delete a picture for ever."""
    return f"deleted {name}"


class Documented(BaseTool):
    name = "documented"
    description = "Has guidance."

    def parameters_schema(self):
        return {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}

    def discovery_summary(self):
        return ToolDiscoverySummary(["a"], ["b with c"], ["be quick"], [{"a": "x"}])

    def discovery_schema(self):
        schema = self.parameters_schema()
        schema["properties"]["b"] = {"type": "integer"}
        return schema

    async def execute(self, params, ctx):
        raise AssertionError


@pytest.fixture
def make():
    def make(*, rules=(), tools=(), **options):
        config = Config(
            load_only=frozenset({"builtin"}),
            policy=PolicyConfig(rules=tuple(RuleEntry(*rule) for rule in rules)),
        )
        tools = [resize_image, delete_picture, Documented(), *tools]
        return Runtime(config, tools=tools, installed_plugins=True, **options)

    return make


async def names(runtime, query):
    outcome = await runtime.run("tool_search", {"query": query}, ANA)
    return [each["name"] for each in outcome.result["results"]]


# searching -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("resize a picture", "resize_image"),
        ("keep ratio", "resize_image"),
        ("image width height", "resize_image"),
        ("remember a fact", "memory_write"),
        ("download a web page", "web_fetch"),
        ("current time in a zone", "time"),
        ("background job status", "job_status"),
        ("delete_picture", "delete_picture"),
    ],
)
async def test_tools_are_found_by_what_they_do(make, query, best):
    async with make() as runtime:
        assert best in (await names(runtime, query))[:3]


async def test_a_result_says_enough_to_choose(make):
    async with make() as runtime:
        outcome = await runtime.run("tool_search", {"query": "resize"}, ANA)

    assert outcome.result["count"] == len(outcome.result["results"])
    assert outcome.result["searched_online"] is False
    assert outcome.result["results"][0] == {
        "name": "resize_image",
        "kind": "tool",
        "status": "active",
        "description": "Change the size of a picture.",
        "parameters": ["width", "height", "keep_ratio"],
    }


async def test_what_is_denied_as_a_whole_is_neither_found_nor_shown(make):
    async with make(rules=[("deny", "delete_picture")]) as runtime:
        found = await names(runtime, "delete picture")
        info = await runtime.run("tool_info", {"name": "delete_picture"}, ANA)
        listed = await runtime.run("tool_list", {}, ANA)
        called = await runtime.run(
            "tool_call", {"name": "delete_picture", "params": {"name": "x"}}, ANA
        )

    assert "delete_picture" not in found
    assert info.error.kind == "not_found"
    assert "delete_picture" not in str(listed.result)
    assert called.error.kind == "not_authorized"


async def test_hidden_tools_do_not_crowd_out_the_others(make):
    def numbered(number):
        return tool(lambda: "x", name=f"paint_{number}", description="Paint a wall.")

    hidden = [numbered(number) for number in range(60)]
    rules = [("deny", f"paint_{number}") for number in range(59)]
    async with make(tools=hidden, rules=rules) as runtime:
        assert "paint_59" in await names(runtime, "paint a wall")


@pytest.mark.parametrize("query", ["", "   "])
async def test_an_empty_query_is_refused(make, query):
    async with make() as runtime:
        outcome = await runtime.run("tool_search", {"query": query}, ANA)

    assert outcome.error.kind == "invalid_parameters"


async def test_nothing_found_says_what_to_try(make):
    async with make() as runtime:
        outcome = await runtime.run("tool_search", {"query": "zzzz"}, ANA)

    assert outcome.result["results"] == []
    assert "discover=true" in outcome.result["hint"]


# looking ---------------------------------------------------------------------------------------


async def test_info_has_three_depths(make):
    async with make() as runtime:

        async def info(**params):
            return (await runtime.run("tool_info", {"name": "documented", **params}, ANA)).result

        by_default, summary = await info(), await info(detail="summary")
        schema, old = await info(detail="schema"), await info(include_schema=True)

    assert by_default["parameters"] == ["a"]
    assert by_default["required"] == ["a"]
    assert "schema" not in by_default
    assert summary["summary"] == {
        "always_required": ["a"],
        "conditional_requirements": ["b with c"],
        "notes": ["be quick"],
        "examples": [{"a": "x"}],
    }
    assert list(schema["schema"]["properties"]) == ["a", "b"]
    assert old == schema


async def test_an_unknown_tool_names_near_ones(make):
    async with make() as runtime:
        outcome = await runtime.run("tool_info", {"name": "resize-imag"}, ANA)
        wrong = await runtime.run("tool_info", {"name": "echo", "detail": "all"}, ANA)

    assert "resize_image" in outcome.error.message
    assert wrong.error.kind == "invalid_parameters"


async def test_the_list_says_where_tools_come_from(make):
    async with make() as runtime:
        everything = (await runtime.run("tool_list", {}, ANA)).result
        servers = (await runtime.run("tool_list", {"kind": "mcp_server"}, ANA)).result

    owners = {each["name"]: each for each in everything["extensions"]}
    assert everything["count"] == len(everything["extensions"])
    assert owners["application"]["tools"] == ["delete_picture", "documented", "resize_image"]
    assert "echo" in owners["hardpoint-builtin"]["tools"]
    assert servers == {"extensions": [], "count": 0}


# calling ---------------------------------------------------------------------------------------


async def test_a_tool_is_called_by_name_with_its_own_result(make):
    async with make(rules=[("allow", "delete_picture(name:x)")]) as runtime:
        plain = await runtime.run("tool_call", {"name": "echo", "params": {"message": "hi"}}, ANA)
        private = await runtime.run(
            "tool_call", {"name": "delete_picture", "params": {"name": "x"}}, ANA
        )
        coerced = await runtime.run(
            "tool_call", {"name": "resize_image", "params": '{"width": "3", "height": 4}'}, ANA
        )

    assert plain.result == "hi"
    assert private.result == "deleted x"
    assert private.provenance == "private"
    assert coerced.result == "3x4"


async def test_the_called_tool_is_approved_as_if_called_directly(make):
    nobody = JobContext(user_id="ana", interactive=False)
    params = {"name": "delete_picture", "params": {"name": "x"}}
    async with make() as runtime:
        waits = await runtime.run("tool_call", params, nobody)
        plan = await runtime.run("tool_call", params, JobContext(user_id="ana", mode="plan"))
    approver = ScriptedApprover("once")
    async with make(approver=approver) as runtime:
        approved = await runtime.run("tool_call", params, ANA)

    assert waits.error.kind == "approval_required"
    assert plan.error.kind == "not_authorized"
    assert approved.result == "deleted x"
    assert [request.tool for request in approver.requests] == ["delete_picture"]


async def test_wrong_arguments_give_the_schema_and_a_wrong_name_a_hint(make):
    async with make() as runtime:
        wrong = await runtime.run(
            "tool_call", {"name": "resize_image", "params": {"width": 1}}, ANA
        )
        missing = await runtime.run("tool_call", {"name": "paint_wall"}, ANA)

    assert wrong.error.kind == "invalid_parameters"
    assert '"height"' in wrong.error.hint
    assert missing.error.kind == "not_found"
    assert "tool_search" in missing.error.hint


async def test_calling_through_many_layers_ends(make):
    params = {"name": "echo", "params": {"message": "deep"}}
    for _ in range(8):
        params = {"name": "tool_call", "params": params}
    async with make() as runtime:
        outcome = await runtime.run("tool_call", params, ANA)

    assert outcome.error.kind == "not_authorized"
    assert "5 deep" in outcome.error.message


async def test_the_called_tools_own_limits_count(make):
    @tool(rate_limit=__import__("hardpoint").ToolRateLimitConfig(1, 5))
    def rare() -> str:
        """Rarely."""
        return "x"

    async with make(tools=[rare]) as runtime:
        first = await runtime.run("tool_call", {"name": "rare"}, ANA)
        second = await runtime.run("tool_call", {"name": "rare"}, ANA)

    assert first.ok
    assert second.error.kind == "rate_limited"


async def test_a_slow_tool_is_not_cut_short_by_the_one_that_calls_it(make):
    @tool(timeout=0.05)
    async def slow() -> str:
        """Too slow."""
        await asyncio.sleep(60)
        return "x"

    async with make(tools=[slow]) as runtime:
        outcome = await runtime.run("tool_call", {"name": "slow"}, ANA)

    assert outcome.error.kind == "timeout"


# search mode -----------------------------------------------------------------------------------


def test_search_mode_gives_a_few_definitions_and_a_way_to_the_rest(make):
    runtime = make()

    usual = [d["name"] for d in runtime.definitions(search=True)]
    chosen = [d["name"] for d in runtime.definitions(search=["echo", "nothing"])]

    assert usual == [
        "memory_search", "result_read", "tool_call", "tool_info", "tool_search", "web_fetch",
    ]  # fmt: skip
    assert chosen == ["echo", "tool_call", "tool_info", "tool_search"]
    assert len(runtime.definitions()) > 20


async def test_tools_that_were_not_given_can_still_be_called_directly(make):
    async with make() as runtime:
        assert (await runtime.run("resize_image", {"width": 1, "height": 2}, ANA)).ok


def test_without_the_search_tools_there_is_no_search_mode():
    with pytest.raises(HardpointError, match="tool_search"):
        Runtime(tools=[resize_image]).definitions(search=True)
