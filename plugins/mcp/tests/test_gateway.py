"""The gateway as clients see it: lists, calls, changes, resources, prompts; in both eras."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp.types as types
import pytest
from mcp import MCPError

ERAS = ["modern", "legacy"]


def text(result: Any) -> str:
    return result.content[0].text


def server(fake: Any, *behaviours: str, **settings: Any) -> dict[str, Any]:
    command, *args = fake(*behaviours)
    return {"command": command, "args": args, "read_only": ["*"], **settings}


async def names(client: Any) -> list[str]:
    found, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += [tool.name for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("era", ERAS)
async def test_tools_of_every_kind_are_listed_in_order_page_by_page(era, front, fake):
    made = await front({"s": server(fake)}, serve={"page_size": 2})

    async with made.client(era) as client:
        listed = await names(client)

    assert listed == sorted(listed)
    assert set(listed) >= {"pay", "greet", "count", "s__echo", "s__ask", "result_read"}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("cursor", ["rubbish", "bmFtZTp4OnBheQ==", "dXJpOjE6eA=="])
async def test_a_cursor_that_was_not_made_here_is_refused(era, cursor, front):
    made = await front()
    async with made.client(era) as client:
        with pytest.raises(MCPError, match="Invalid cursor"):
            await client.list_tools(cursor=cursor)


@pytest.mark.parametrize("era", ERAS)
async def test_results_carry_what_tool_and_server_gave(era, front, fake):
    made = await front({"s": server(fake, "output-schema")})
    async with made.client(era) as client:
        own = await client.call_tool("greet", {"name": "Ada"})
        theirs = await client.call_tool("s__echo", {"message": "hi"})
        failed = await client.call_tool("s__fail", {})

    assert own.structured_content == {"greeting": "Hello Ada."}
    assert (text(theirs), theirs.structured_content) == ("hi", {"n": 1})
    assert theirs.meta["hardpoint/provenance"] == "untrusted"
    assert (text(failed), failed.is_error) == ("it failed", True)


@pytest.mark.parametrize("era", ERAS)
async def test_structured_content_that_does_not_fit_is_passed_on_with_a_warning(era, front, fake):
    made = await front({"s": server(fake, "bad-output")})
    params = types.CallToolRequestParams(name="s__echo", arguments={"message": "the text"})
    async with made.client(era) as client:
        # The SDK's own call throws such a result away.
        request = types.CallToolRequest(params=params)
        result = await client.session.send_request(request, types.CallToolResult)

    assert text(result) == "the text"
    assert result.structured_content == {"n": "not a number"}
    assert "does not fit" in result.meta["hardpoint/warning"]


@pytest.mark.parametrize("era", ERAS)
async def test_wrong_arguments_are_an_error_of_the_tool(era, front):
    made = await front()
    async with made.client(era) as client:
        result = await client.call_tool("count", {"to": "many", "more": 1})

    assert result.is_error
    assert result.meta["hardpoint/error"]["kind"] == "invalid_parameters"
    assert "/to" in text(result)


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_is_an_error_of_the_protocol_that_names_the_nearest(era, front):
    made = await front()
    async with made.client(era) as client:
        with pytest.raises(MCPError, match="did you mean 'greet'") as caught:
            await client.call_tool("greeet", {"name": "x"})

    assert caught.value.code == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_is_denied_as_a_whole_is_not_shown(era, front, fake):
    made = await front({"s": server(fake)}, deny=["s__e*", "pay"])
    async with made.client(era) as client:
        listed = await names(client)
        with pytest.raises(MCPError):
            await client.call_tool("s__echo", {})

    assert "s__slow" in listed
    assert not {"pay", "s__echo", "s__env"} & set(listed)


@pytest.mark.parametrize("era", ERAS)
async def test_progress_is_passed_on_in_order_and_before_the_result(era, front, fake):
    made = await front({"s": server(fake)})
    seen: list[Any] = []

    async def progress(*report: Any) -> None:
        seen.append(report)

    async with made.client(era) as client:
        await client.call_tool("count", {"to": 3}, progress_callback=progress)
        mine, seen[:] = list(seen), []
        await client.call_tool("s__slow", {}, progress_callback=progress)

    assert mine == [(1, 3, "at 1"), (2, 3, "at 2"), (3, 3, "at 3")]
    assert [(done, total) for done, total, _ in seen] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_is_given_up_is_cancelled_at_the_server(
    era, front, fake, tmp_path, wait_until
):
    log = tmp_path / "log"
    env = {"FAKE": "cancel-file", "FAKE_FILE": str(log)}
    made = await front({"s": server(fake, "hang", env=env)})

    async with made.client(era) as client:
        with pytest.raises(MCPError):
            await client.call_tool("s__slow", {}, read_timeout_seconds=0.3)

        assert await wait_until(log.exists)


@pytest.mark.parametrize("era", ERAS)
async def test_changes_are_announced(era, front, wait_until):
    made = await front()
    notes: list[str] = []

    async def heard(message: Any) -> None:
        notes.append(getattr(message, "method", ""))

    def fresh() -> str:
        """A new tool."""
        return "new"

    async with made.client(era, message_handler=heard) as client:
        await client.list_tools()
        if era == "modern":
            async with client.listen(tools_list_changed=True) as subscription:
                made.runtime.registry.register(fresh)
                async with asyncio.timeout(10):
                    async for event in subscription:
                        notes.append(type(event).__name__)
                        break
        else:
            made.runtime.registry.register(fresh)
            await wait_until(lambda: notes)

        assert notes[0] in ("ToolsListChanged", "notifications/tools/list_changed")
        assert "fresh" in await names(client)


async def test_a_servers_own_change_is_fetched_and_announced(front, fake, wait_until):
    made = await front({"s": server(fake, "rugpull", "rugpull-notice", pin=False)})

    async with made.client() as client:
        before = {tool.name: tool for tool in (await client.list_tools()).tools}
        await client.call_tool("s__echo", {"message": "x"})
        assert await wait_until(
            lambda: made.runtime.registry.entry("s__echo").definition.description.startswith(
                "Sends"
            )
        )
        after = {tool.name: tool for tool in (await client.list_tools()).tools}

    assert before["s__echo"].description != after["s__echo"].description


async def test_a_server_out_of_reach_keeps_its_tools_listed(front, fake):
    made = await front({"s": server(fake, "crash")})
    async with made.client() as client:
        before = await names(client)
        for _ in range(3):
            result = await client.call_tool("s__echo", {})
            assert result.is_error
        after = await names(client)

    assert "s__echo" in after
    assert before == after


async def test_a_secret_in_a_result_is_redacted(front, fake):
    made = await front({"s": server(fake)})
    token = "ghp_" + "aB3dE5" * 6
    async with made.client() as client:
        result = await client.call_tool("s__echo", {"message": f"my token is {token}"})

    assert token not in result.model_dump_json()


async def test_many_tools_are_found_by_searching(front, fake):
    made = await front({"s": server(fake)}, serve={"search": True})
    async with made.client() as client:
        listed = await names(client)
        found = await client.call_tool("find_tools", {"query": "greet somebody"})
        called = await client.call_tool(
            "call_tool", {"name": "greet", "arguments": {"name": "Ada"}}
        )

    assert listed == ["find_tools", "call_tool"]
    assert found.structured_content["tools"][0]["name"] == "greet"
    assert called.structured_content == {"greeting": "Hello Ada."}


@pytest.mark.parametrize("era", ERAS)
async def test_what_stands_behind_the_gateway_decides_what_it_offers(era, front, fake):
    made = await front({"s": server(fake)})
    async with made.client(era) as client:
        offered = client.server_capabilities
        with pytest.raises(MCPError) as caught:
            await client.list_prompts()

    assert offered.tools.list_changed
    assert offered.prompts is offered.resources is offered.completions is None
    assert caught.value.code == -32601


async def test_an_error_inside_never_reaches_the_wire(front, monkeypatch):
    made = await front()

    def broken(*args: Any) -> Any:
        raise ValueError("internal detail")

    monkeypatch.setattr(made.gateway.tools, "for_client", broken)
    for era in ERAS:
        async with made.client(era) as client:
            with pytest.raises(MCPError) as caught:
                await client.list_tools()
            assert caught.value.message == "Internal error"
            assert caught.value.code == -32603


async def test_no_words_of_a_server_change_what_is_asked(front, fake):
    made = await front({"s": server(fake, "rugpull", read_only=[], trusted=False)})
    claims = {tool.name: tool for tool in made.runtime.visible()}

    async with made.client() as client:
        result = await client.call_tool("s__echo", {"message": "approve everything"})

    assert claims["s__echo"].annotations == {"readOnlyHint": True}
    assert result.meta["hardpoint/error"]["kind"] == "approval_required"
