"""`http` against real servers on the loopback interface."""

from __future__ import annotations

import asyncio
import json

import pytest

from hardpoint import (
    Audio,
    Blob,
    ExternalService,
    Image,
    JobContext,
    NotAuthorized,
    ToolTimeout,
    validate_tool_schema,
)
from hardpoint.net import Bearer, Binding
from hardpoint_builtin import HttpTool

HOST = "api.example.com"
JSON = [("content-type", "application/json")]


def answer(status=200, headers=(), body=b""):
    return status, headers, body


@pytest.fixture
def call(context):
    async def run(tool=None, **params):
        return await (tool or HttpTool()).execute(params, context)

    return run


def test_the_schemas_are_valid():
    assert validate_tool_schema(HttpTool().parameters_schema()) == []
    assert validate_tool_schema(HttpTool().discovery_schema()) == []


async def test_json_comes_back_as_a_value(call, serve):
    body = b'{"a": [1, 2.5, 12345678901234567890], "b": null}'
    server = await serve({"/": answer(200, [*JSON, ("x-a", "1"), ("X-A", "2")], body)})

    output = await call(url=server.url())

    assert output.result["status"] == 200
    assert output.result["body"] == {"a": [1, 2.5, 12345678901234567890], "b": None}
    assert output.result["headers"]["x-a"] == "1, 2"
    assert "url" not in output.result


@pytest.mark.parametrize(
    "body",
    [
        b"{broken",
        b"[1e999]",
        b"[NaN]",
        b'["\\ud800"]',
        b"[" * 100_000,
        b"1" * 5000,
        b'{"a": "\xff"}',
    ],
)
async def test_what_is_no_json_comes_back_as_text(call, serve, body):
    server = await serve({"/": answer(200, JSON, body)})

    output = await call(url=server.url())

    assert isinstance(output.result["body"], str)
    json.dumps(output.result, ensure_ascii=False, allow_nan=False).encode()


async def test_a_page_comes_back_as_markdown(call, serve):
    page = b"<html><nav>menu</nav><main><h1>Hello</h1><p>A <a href='/x'>link</a>.</p></main></html>"
    server = await serve({"/": answer(200, [("content-type", "text/html")], page)})

    output = await call(url=server.url())

    assert output.result["body"] == f"# Hello\n\nA [link]({server.url('/x')})."
    assert output.raw == page.decode()


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain; charset=latin-1", "wörd".encode("latin-1"), "wörd"),
        ("application/xml", b"<a/>", "<a/>"),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
        ("text/csv", b"a,b", "a,b"),
        ("", b"anything", "anything"),
        ("text/plain", b"", ""),
    ],
)
async def test_text_comes_back_as_text(call, serve, content_type, body, text):
    headers = [("content-type", content_type)] if content_type else []
    server = await serve({"/": answer(200, headers, body)})

    output = await call(url=server.url())

    assert output.result["body"] == text
    assert output.parts == ()


@pytest.mark.parametrize(
    ("content_type", "part"),
    [
        ("image/png", Image(b"\x00\x01\xff", "image/png")),
        ("audio/ogg", Audio(b"\x00\x01\xff", "audio/ogg")),
        ("application/pdf", Blob(b"\x00\x01\xff", "application/pdf")),
        ("", Blob(b"\x00\x01\xff", "application/octet-stream")),
    ],
)
async def test_other_bytes_are_attached(call, serve, content_type, part):
    headers = [("content-type", content_type)] if content_type else []
    server = await serve({"/": answer(200, headers, b"\x00\x01\xff")})

    output = await call(url=server.url())

    assert output.parts == (part,)
    assert "3 bytes" in output.result["body"]


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503])
async def test_an_error_status_is_a_result_to_read(call, serve, status):
    server = await serve({"/": answer(status, JSON, b'{"error": "because"}')})

    output = await call(url=server.url(), method="POST", body={"a": 1})

    assert output.result["status"] == status
    assert output.result["body"] == {"error": "because"}


async def test_a_post_sends_json(call, serve):
    server = await serve({"/": answer()})

    await call(url=server.url(), method="POST", body={"a": 1}, headers={"X-A": "b"})

    [got] = server.received
    assert (got.method, got.body) == ("POST", b'{"a":1}')
    assert got.headers["content-type"] == "application/json"
    assert got.headers["x-a"] == "b"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_missing_body_has_the_length_zero(call, serve, method):
    server = await serve({"/": answer()})

    await call(url=server.url(), method=method)

    assert server.received[0].headers["content-length"] == "0"


# redirects --------------------------------------------------------------------------------------


def redirect(location):
    return answer(302, [("location", location)])


async def test_a_plain_get_follows_redirects(call, serve):
    server = await serve(
        {"/": redirect("/1"), "/1": redirect("2"), "/2": answer(200, JSON, b"[1]")}
    )

    output = await call(url=server.url())

    assert output.result["body"] == [1]
    assert output.result["url"] == server.url("/2")


async def test_too_many_redirects_are_refused(call, serve):
    server = await serve({"/": redirect("/")})

    with pytest.raises(NotAuthorized, match="more than 3 redirects"):
        await call(url=server.url())

    assert len(server.received) == 4


@pytest.mark.parametrize(
    ("params", "warns"),
    [
        ({"method": "POST"}, True),
        ({"method": "DELETE"}, True),
        ({"headers": {"X-A": "b"}}, False),
        ({"body": "x"}, False),
    ],
)
async def test_any_other_request_does_not_follow_and_says_where_to(call, serve, params, warns):
    server = await serve({"/": redirect("https://elsewhere.example.com/x"), "/x": answer()})

    with pytest.raises(NotAuthorized, match=r"https://elsewhere\.example\.com/x") as caught:
        await call(url=server.url(), **params)

    assert ("do not repeat" in str(caught.value)) == warns
    assert len(server.received) == 1


async def test_a_redirect_to_a_private_address_is_refused(call, serve):
    server = await serve({"/": redirect("https://10.0.0.1/")})

    with pytest.raises(NotAuthorized, match="private"):
        await call(url=server.url())


# stored secrets ---------------------------------------------------------------------------------


async def test_a_bound_secret_is_sent_and_not_shown(call, serve):
    async def echo(request, writer):
        return answer(200, JSON, json.dumps(request.headers).encode())

    server = await serve({"/": echo, "/away": redirect("/")})
    tool = HttpTool([Binding("key", f"{HOST}:{server.port}", location=Bearer())])

    output = await call(tool, url=server.url())

    assert server.received[0].headers["authorization"] == "Bearer synthetic-value/1"
    assert output.result["body"]["authorization"] == "Bearer [REDACTED]"
    with pytest.raises(NotAuthorized, match="not followed"):
        await call(tool, url=server.url("/away"))


async def test_a_missing_secret_names_itself(call, serve, services):
    services.secrets.clear()
    server = await serve({"/": answer()})
    tool = HttpTool([Binding("key", f"{HOST}:{server.port}")])

    with pytest.raises(NotAuthorized, match="'key'"):
        await call(tool, url=server.url())

    assert server.received == []


# bounds -----------------------------------------------------------------------------------------


async def test_a_body_over_five_megabytes_is_cut_and_says_how_to_go_on(call, serve):
    body = b"x" * (5 * 1024 * 1024 + 1)
    server = await serve({"/": answer(200, [("content-type", "text/plain")], body)})

    output = await call(url=server.url())

    assert len(output.result["body"]) == 5 * 1024 * 1024
    assert output.result["truncated"] is True
    assert "save_to" in output.result["note"]


async def test_a_saved_body_may_be_larger_and_gives_a_reference(call, serve, services):
    body = b"x" * (5 * 1024 * 1024 + 1)
    server = await serve({"/": answer(200, [("content-type", "text/plain")], body)})

    output = await call(url=server.url(), save_to="big.txt")

    assert output.result["saved_to"] == "ref-big.txt"
    assert output.result["size_bytes"] == len(body)
    assert "body" not in output.result
    assert services.saved == {"big.txt": body}


async def test_a_slow_server_ends_at_the_time_that_was_asked_for(call, serve):
    async def stalling(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbeginning")
        await writer.drain()
        await asyncio.Event().wait()

    server = await serve({"/": stalling})

    with pytest.raises(ToolTimeout, match="within 1 s") as caught:
        await call(url=server.url(), timeout_secs=1)

    assert caught.value.partial.result == "beginning"


async def test_without_a_runtime_there_are_no_secrets_and_no_private_addresses():
    with pytest.raises(NotAuthorized, match="private"):
        await HttpTool().execute({"url": "https://10.0.0.1/"}, JobContext(user_id="ana"))


async def test_an_unreachable_host_is_named(call):
    with pytest.raises(ExternalService, match=HOST):
        await call(url=f"https://{HOST}:1/", timeout_secs=10)
