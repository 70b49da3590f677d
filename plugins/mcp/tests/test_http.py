"""Servers behind HTTP: sessions lost, pages of HTML, streams that break, redirects, odd answers."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from hardpoint.errors import ConfigError, ExternalService, ToolTimeout
from hardpoint_mcp.client import McpClient
from hardpoint_mcp.wire.errors import AuthRequired


async def call(client: Any, context: Any, tool: str = "echo", **arguments: Any) -> Any:
    return (await (await client.load_tool(tool)).execute(arguments, context)).result


async def test_a_server_with_sessions_is_used(http, kit, connect, context):
    await http.start(lambda r: kit.old_server(r, echo=lambda r, head: kit.text("hi")))
    client = await connect(http.url)

    assert await call(client, context) == "hi"

    called = http.seen[-1]
    assert called.headers["mcp-session-id"] == "session-1"
    assert called.headers["mcp-protocol-version"] == "2025-06-18"
    await client.aclose()
    assert http.seen[-1].method == "DELETE"


async def test_an_accepted_notification_without_a_body_is_no_error(http, kit, connect, context):
    await http.start(lambda r: kit.old_server(r, echo=lambda r, head: kit.text("hi")))
    client = await connect(http.url)

    assert any(r.method == "POST" and b"initialized" in r.body for r in http.seen)
    assert await call(client, context) == "hi"


async def test_a_busy_server_is_not_taken_for_an_old_one(http, kit, connect, monkeypatch):
    """One that is silent over a pipe may not know the question; over HTTP it is only slow."""
    from hardpoint_mcp.wire import session

    monkeypatch.setattr(session, "_PROBE_PATIENCE", 0.01)

    async def slowly(request):
        message = request.json
        await asyncio.sleep(0.3)
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        if message["method"] == "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        return kit.Reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    await http.start(slowly)
    client = await connect(http.url)

    assert [tool.name for tool in await client.list_tools()] == ["echo"]
    assert {seen.json["method"] for seen in http.seen} == {"server/discover", "tools/list"}


@pytest.mark.parametrize(
    "lost",
    [
        (404, b""),
        (
            404,
            {
                "jsonrpc": "2.0",
                "id": None,
                "error": {"code": -32600, "message": "Session not found"},
            },
        ),
        (400, b"Bad Request: No valid session ID provided"),
    ],
)
async def test_a_lost_session_is_made_anew_and_the_call_repeated(lost, http, kit, connect, context):
    sessions = []

    def answer(request):
        method = request.json.get("method") if request.method == "POST" else None
        if method == "initialize":
            sessions.append(1)
        if method == "tools/call" and len(sessions) == 1:
            return kit.Reply(*lost)
        return kit.old_server(request, echo=lambda r, head: kit.text("hi"))

    await http.start(answer)
    client = await connect(http.url)

    assert await call(client, context) == "hi"
    assert len(sessions) == 2


async def test_an_error_page_is_told_in_one_short_line(http, kit, connect, context):
    page = b"<html><head><style>p{}</style></head><body><h1>Bad\n Gateway</h1>" + b"x" * 5000

    def broken(request, head):
        return kit.Reply(502, page, {"content-type": "text/html"})

    await http.start(lambda r: kit.old_server(r, echo=broken))
    client = await connect(http.url)

    with pytest.raises(ExternalService) as caught:
        await call(client, context)

    assert "HTTP 502: Bad Gateway x" in caught.value.message
    assert "<" not in caught.value.message
    assert len(caught.value.message) < 400


async def test_a_page_in_place_of_an_answer_is_named(http, kit, connect, context):
    def page(request, head):
        return kit.Reply(200, b"<h1>Please log in</h1>", {"content-type": "text/html"})

    await http.start(lambda r: kit.old_server(r, echo=page))
    client = await connect(http.url)

    with pytest.raises(ExternalService, match=r"text/html where JSON.*Please log in"):
        await call(client, context)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, b"no"),
        (403, b"no"),
        (400, b'{"error": "Unauthorized: authentication required"}'),
    ],
)
async def test_a_server_that_wants_a_login_says_how(status, body, http, kit):
    await http.start(lambda r: kit.Reply(status, body))
    client = McpClient.of(http.url, name="notes")

    with pytest.raises(AuthRequired) as caught:
        await client.list_tools()

    assert caught.value.hint == "log in with: hardpoint mcp auth notes"
    await client.aclose()


async def test_an_answer_can_come_as_a_stream_with_progress(http, kit, sse, connect):
    def stream(request, head):
        token = request.json["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
        return sse(
            b": a comment\r\n\r\n",
            kit.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}),
            kit.event("not json"),
            kit.event({"jsonrpc": "2.0", "id": 99, "result": {}}),
            kit.event(head | {"result": kit.text("done")}).replace(b"\n", b"\r\n"),
        )

    await http.start(lambda r: kit.old_server(r, echo=stream))
    client = await connect(http.url)
    reports = []
    tool = await client.load_tool("echo")

    class Context:
        report = staticmethod(lambda *report: reports.append(report))

    output = await tool.execute({}, Context())

    assert output.result == "done"
    assert reports == [(1, 2, "half")]


async def test_a_stream_that_ends_early_is_resumed_where_it_was(http, kit, sse, connect, context):
    def answer(request):
        if request.method == "GET" and "last-event-id" in request.headers:
            assert request.headers["last-event-id"] == "7"
            return sse(kit.event({"jsonrpc": "2.0", "id": calls[-1], "result": kit.text("late")}))
        return kit.old_server(request, echo=stream)

    calls = []

    def stream(request, head):
        calls.append(head["id"])
        return sse(b"id: 7\nretry: 10\ndata:\n\n")

    await http.start(answer)
    client = await connect(http.url)

    assert await call(client, context) == "late"


async def test_a_stream_that_ends_without_an_answer_costs_its_call(
    http, kit, sse, connect, context
):
    replies = [sse(b": bye\n\n"), kit.text("fine")]
    await http.start(lambda r: kit.old_server(r, echo=lambda r, head: replies.pop(0)))
    client = await connect(http.url)

    with pytest.raises(ExternalService, match="without an answer"):
        await call(client, context)

    assert await call(client, context) == "fine"


async def test_a_dropped_connection_costs_its_call(http, kit, connect, context):
    replies = [kit.Reply(drop=True), kit.text("fine")]
    await http.start(lambda r: kit.old_server(r, echo=lambda r, head: replies.pop(0)))
    client = await connect(http.url)

    with pytest.raises(ExternalService, match=r"broke"):
        await call(client, context)

    assert await call(client, context) == "fine"


async def test_a_server_that_is_down_fails_at_once_and_works_when_it_is_back(
    http, kit, connect, context
):
    await http.start(lambda r: kit.old_server(r, echo=lambda r, head: kit.text("hi")))
    client = await connect(http.url)
    port = int(http.url.split(":")[2].split("/")[0])
    await http.stop()

    with pytest.raises(ExternalService, match="cannot reach"):
        await call(client, context)

    await http.start(lambda r: kit.old_server(r, echo=lambda r, head: kit.text("back")), port=port)
    assert await call(client, context) == "back"


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server(
    http, kit, connect, context, wait_until
):
    async def never(request, head):
        await asyncio.sleep(30)

    async def answer(request):
        if request.method == "POST" and request.json.get("method") == "tools/call":
            await never(request, {})
        return kit.old_server(request, slow=None)

    await http.start(answer)
    client = await connect(http.url, timeout=0.2)

    with pytest.raises(ToolTimeout):
        await call(client, context, "slow")

    assert await wait_until(lambda: any(b"notifications/cancelled" in r.body for r in http.seen))


async def test_a_big_answer_arrives_and_a_bigger_one_costs_its_call(http, kit, connect, context):
    sizes = [3_000_000, 9_000_000, 10]
    await http.start(lambda r: kit.old_server(r, echo=lambda r, head: kit.text("x" * sizes.pop(0))))
    client = await connect(http.url, max_result=5_000_000)

    assert len(await call(client, context)) == 3_000_000
    with pytest.raises(ExternalService, match="more than 5000000 bytes"):
        await call(client, context)
    assert len(await call(client, context)) == 10


async def test_a_decompression_bomb_stops_at_the_limit(http, kit, connect, context):
    def bomb(request, head):
        body = gzip.compress(json.dumps(head | {"result": kit.text("0" * 50_000_000)}).encode())
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        return kit.Reply(200, body, headers)

    await http.start(lambda r: kit.old_server(r, echo=bomb))
    client = await connect(http.url, max_result=1_000_000)

    with pytest.raises(ExternalService, match="more than 1000000 bytes"):
        await call(client, context)


async def test_a_redirect_is_followed_on_the_same_origin_alone(http, kit, connect, context):
    def answer(request):
        if request.path == "/mcp":
            return kit.Reply(307, b"", {"location": "/mcp/"})
        return kit.old_server(request, echo=lambda r, head: kit.text("hi"))

    await http.start(answer)
    client = await connect(http.url, headers={"Authorization": "Bearer t0ken"})

    assert await call(client, context) == "hi"
    assert http.seen[-1].headers["authorization"] == "Bearer t0ken"


async def test_a_redirect_elsewhere_is_named_and_not_followed(http, kit):
    await http.start(
        lambda r: kit.Reply(307, b"", {"location": "http://127.0.0.1:1/mcp?token=secret"})
    )
    client = McpClient.of(http.url)

    with pytest.raises(ExternalService) as caught:
        await client.list_tools()

    assert "redirects to http://127.0.0.1:1/mcp" in caught.value.message
    assert "token=secret" not in caught.value.message
    await client.aclose()


async def test_the_transport_of_2024_is_found_by_trying(http, kit, sse, connect, context):
    queue: asyncio.Queue[bytes] = asyncio.Queue()

    async def events():
        yield b"event: endpoint\ndata: /messages?session_id=1\n\n"
        while True:
            yield await queue.get()

    def answer(request):
        if request.method == "GET":
            return kit.Reply(200, events(), {"content-type": "text/event-stream"})
        if not request.path.startswith("/messages"):
            return kit.Reply(405)
        reply = kit.old_server(request, echo=lambda r, head: kit.text("old but good"))
        if isinstance(reply.body, dict):
            queue.put_nowait(b"event: message\n" + kit.event(reply.body))
        return kit.Reply(202, b"Accepted")

    await http.start(answer)
    client = await connect(http.url)

    assert await call(client, context) == "old but good"
    assert client.upstream.memory.kind == "sse"


async def test_messages_are_never_posted_to_another_origin(http, kit, sse):
    await http.start(
        lambda r: (
            sse(b"event: endpoint\ndata: http://evil.example/steal\n\n")
            if r.method == "GET"
            else kit.Reply(405)
        )
    )
    client = McpClient.of(http.url, transport="sse")

    with pytest.raises(ExternalService, match="another origin"):
        await client.list_tools()
    await client.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/mcp",
        "http://localhost.evil.example/mcp",
        "https://user:password@example.com/mcp",
        "http://127.0.0.1.example.com/",
    ],
)
def test_an_address_that_may_not_be_used_is_refused(url):
    with pytest.raises(ConfigError):
        McpClient.of(url)


@pytest.mark.parametrize(
    "headers",
    [{"X-Bad\r\nName": "x"}, {"X": "a\nb"}, {"": "x"}, {"with space": "x"}, {"colon:": "x"}],
)
def test_a_header_that_could_smuggle_another_is_refused(headers):
    with pytest.raises(ConfigError):
        McpClient.of("https://example.com/mcp", headers=headers)


async def test_an_empty_header_from_a_secret_is_trimmed(http, kit, context):
    from hardpoint_mcp.config import ServerConfig
    from hardpoint_mcp.upstream import Surroundings, Upstream

    async def secrets(name):
        return f"value-of-{name}\n"

    await http.start(lambda r: kit.old_server(r, echo=lambda r, head: kit.text("hi")))
    config = ServerConfig(url=http.url, headers={"Authorization": "Bearer secret:notes"})
    upstream = Upstream("notes", config, surroundings=Surroundings(secrets=secrets))

    await upstream.refresh()
    await upstream.aclose()

    assert http.seen[0].headers["authorization"] == "Bearer value-of-notes"
