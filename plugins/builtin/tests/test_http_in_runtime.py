"""`http` through every step of a call: configuration, coercion, approval, secrets, leak scan."""

from __future__ import annotations

import json

import pytest

from hardpoint import JobContext, PluginError, Runtime

HOST = "api.example.com"
ANA = JobContext(user_id="ana", auto_approve=True)


async def echo(request, writer):
    body = json.dumps({"headers": request.headers, "body": request.body.decode()})
    return 200, [("content-type", "application/json")], body.encode()


@pytest.fixture
def make_runtime(tmp_path, services, monkeypatch):
    monkeypatch.setenv("HARDPOINT_LOAD_PLUGINS", "builtin")

    def make(text=""):
        path = tmp_path / "config.toml"
        path.write_text(text, "utf-8")
        return Runtime.from_config(path, in_memory=True, http_client=services._client)

    return make


async def test_a_configured_credential_is_injected_and_masked(make_runtime, serve, monkeypatch):
    monkeypatch.setenv("HARDPOINT_SECRET_API_KEY", "synthetic-value-1")
    server = await serve({"/v1": echo})
    config = f"""
        [[plugin.builtin.credentials]]
        secret = "api_key"
        hosts = ["{HOST}:{server.port}"]
        paths = ["/v1"]
        location = {{ type = "header", name = "X-Key" }}
    """

    async with make_runtime(config) as runtime:
        outcome = await runtime.run("http", {"url": server.url("/v1")}, ANA)

    assert server.received[0].headers["x-key"] == "synthetic-value-1"
    assert outcome.output.result["body"]["headers"]["x-key"] == "[REDACTED]"


async def test_a_credential_that_cannot_be_placed_is_an_error_of_the_configuration(make_runtime):
    config = """
        [plugins]
        required = ["builtin"]
        [[plugin.builtin.credentials]]
        secret = "api_key"
        hosts = ["api.*.com"]
    """

    with pytest.raises(PluginError, match="api_key"):
        make_runtime(config)


async def test_habits_of_models_are_understood(make_runtime, serve):
    server = await serve({"/": echo})
    params = {
        "url": server.url(),
        "method": "POST",
        "headers": '{"X-A": "1"}',
        "timeout_secs": "20",
        "save_to": "",
        "body": {"a": 1},
    }

    async with make_runtime() as runtime:
        outcome = await runtime.run("http", params, ANA)

    body = outcome.output.result["body"]
    assert body["headers"]["x-a"] == "1"
    assert body["body"] == '{"a":1}'


async def test_a_post_waits_for_approval_and_a_get_does_not(make_runtime, serve):
    server = await serve({"/": echo})
    nobody = JobContext(user_id="ana", interactive=False)

    async with make_runtime() as runtime:
        post = await runtime.run("http", {"url": server.url(), "method": "POST"}, nobody)
        get = await runtime.run("http", {"url": server.url()}, nobody)

    assert not post.ok
    assert get.ok
    assert [got.method for got in server.received] == ["GET"]


async def test_a_rule_can_name_a_host(make_runtime, serve):
    server = await serve({"/": echo})
    config = '[policy]\ndeny = ["http(domain:*.example.com)"]'

    async with make_runtime(config) as runtime:
        outcome = await runtime.run("http", {"url": server.url()}, ANA)

    assert outcome.error.kind == "not_authorized"
    assert server.received == []


async def test_a_secret_in_the_request_is_not_sent(make_runtime, serve):
    server = await serve({"/": echo})
    token = "ghp_" + "SyntheticSyntheticSyntheticSyntheticSyn"[:36]

    async with make_runtime() as runtime:
        outcome = await runtime.run("http", {"url": server.url(f"/?q={token}")}, ANA)

    assert outcome.error.kind == "not_authorized"
    assert server.received == []


async def test_web_fetch_gives_its_fields(make_runtime, serve):
    page = b"<title>T</title><main><p>Hello there.</p></main>"
    server = await serve({"/": (200, [("content-type", "text/html")], page)})

    async with make_runtime() as runtime:
        outcome = await runtime.run("web_fetch", {"url": server.url()}, ANA)

    assert outcome.output.result == {
        "url": server.url(),
        "final_url": server.url(),
        "status": 200,
        "title": "T",
        "content": "Hello there.",
        "word_count": 2,
    }


async def test_a_saved_body_can_be_read_page_by_page(make_runtime, serve):
    body = b"0123456789" * 200_000
    server = await serve({"/": (200, [("content-type", "text/plain")], body)})

    async with make_runtime("[output]\nkeep_bytes = 1000000") as runtime:
        saved = await runtime.run("http", {"url": server.url(), "save_to": "digits"}, ANA)
        reference = saved.output.result["saved_to"]
        page = await runtime.run("result_read", {"result_ref": reference, "offset": 12}, ANA)

    assert saved.output.result["size_bytes"] == 1_000_000
    assert saved.output.result["truncated"] is True
    assert page.output.result["text"].startswith("23456789")
