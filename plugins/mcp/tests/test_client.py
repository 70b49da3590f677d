"""One server from Python: connect, list, load, close; with and without `async with`."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

import hardpoint_mcp
from hardpoint import Runtime, ToolOutput
from hardpoint.errors import ConfigError, ExternalService, ToolNotFound
from hardpoint.interfaces import Approver, Decision
from hardpoint_mcp import McpClient, ServerConfig


def words(command: list[str]) -> str:
    return shlex.join(command)


@pytest.mark.parametrize("form", [list, words, tuple])
async def test_a_command_can_be_words_or_a_line(form, fake, context):
    client = await McpClient.connect(form(fake()))
    try:
        tool = await client.load_tool("echo")
        output = await tool.execute({"message": "hi"}, context)
    finally:
        await client.aclose()

    assert isinstance(output, ToolOutput)
    assert output.result == "hi"


async def test_tools_carry_the_servers_own_names(fake):
    async with await McpClient.connect(fake()) as client:
        names = [definition.name for definition in await client.list_tools()]
    assert names == ["echo", "env", "slow", "fail", "ask", "pid"]


async def test_a_client_connects_when_it_is_first_needed(fake, context):
    client = McpClient.of(fake())
    tool = await client.load_tool("echo")
    assert (await tool.execute({"message": "a"}, context)).result == "a"
    await client.aclose()


async def test_closing_twice_or_unopened_is_fine(fake, mark, alive):
    await McpClient.of(fake()).aclose()
    client = await McpClient.connect(fake(), env={"MARK": mark})
    assert alive(mark)
    await client.aclose()
    await client.aclose()
    assert not alive(mark)


async def test_a_configuration_can_be_given_whole(fake):
    command, *args = fake()
    config = ServerConfig(command=command, args=args, include=("e*",))
    async with McpClient.of(config, name="mine") as client:
        assert client.name == "mine"
        assert [one.name for one in await client.list_tools()] == ["echo", "env"]


async def test_an_unknown_tool_names_the_nearest(fake):
    async with McpClient.of(fake()) as client:
        with pytest.raises(ToolNotFound, match="did you mean 'echo'"):
            await client.load_tool("ecko")


@pytest.mark.parametrize(
    ("server", "options"),
    [
        ("", {}),
        ([], {}),
        ("'unclosed", {}),
        ("http://elsewhere.example/mcp", {}),
        ("https://user:word@a.example/", {}),
        ("https://a.example/", {"env": {"A": "b"}}),
        ("program", {"no_such_option": 1}),
        ("program", {"timeout": 0}),
    ],
)
async def test_what_cannot_be_a_server_is_refused_at_once(server, options):
    with pytest.raises(ConfigError, match="not a server"):
        McpClient.of(server, **options)


async def test_a_server_that_cannot_be_reached_is_an_error_of_connecting(kit, http):
    url = await http.start(lambda request: kit.Reply(404))
    await http.stop()
    with pytest.raises(ExternalService):
        await McpClient.connect(url)


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("uvx mcp-server-time", "mcp-server-time"),
        ("npx -y @scope/server-files /tmp", "tmp"),
        ("/usr/bin/server --flag", "server"),
        ("https://mcp.example:8443/mcp", "mcp.example"),
    ],
)
def test_a_client_is_named_after_its_server(server, name):
    assert McpClient.of(server).name == name


async def test_a_loaded_tool_runs_like_any_other_in_a_runtime(fake, context):
    """Its calls are asked about and marked: the server is a stranger all the same."""
    asked: list[str] = []

    class Person(Approver):
        async def decide(self, request: Any, context: Any) -> Decision:
            asked.append(request.tool)
            return Decision.once()

    async with McpClient.of(fake(), name="s") as client:
        tool = await client.load_tool("slow")
        async with Runtime(in_memory=True, approver=[Person()], tools=[tool]) as runtime:
            told = await runtime.explain("slow", {}, context)
            outcome = await runtime.run("slow", {}, context)

    assert (outcome.ok, outcome.provenance, asked) == (True, "untrusted", ["slow"])
    assert told["contains"]["server"].startswith("a process of its own")


def test_the_package_names_what_it_offers_and_nothing_else():
    assert {hasattr(hardpoint_mcp, name) for name in hardpoint_mcp.__all__} == {True}
    with pytest.raises(AttributeError):
        _ = hardpoint_mcp.Nothing
