"""Host functions against hostile arguments: nothing beyond the grant, no secret in any answer."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs
import pytest
from wasm_services import CAPABILITIES, SECRET, Services

import hardpoint
from hardpoint import JobContext
from hardpoint.interfaces import CallHandle
from hardpoint.net import AllowList
from hardpoint_wasm.capabilities import Capabilities
from hardpoint_wasm.execution import Execution
from hardpoint_wasm.host import Host, readable
from hardpoint_wasm.limits import Limits
from hardpoint_wasm.world import Failure, HttpResponse

ROWS = Path(__file__).parents[3] / "tests/data/acceptance/allowlist.jsonl"


@pytest.fixture
def ask(services: Services) -> Callable[..., Awaitable[Any]]:
    """Call a host function as a guest does: on another thread, while the loop goes on."""

    async def ask(
        function: str, *args: Any, capabilities: Any = CAPABILITIES, **options: Any
    ) -> Any:
        host = options.pop("host", None) or make_host(services, capabilities, **options)
        return await asyncio.to_thread(getattr(host, function), *args)

    return ask


def make_host(services: Services, capabilities: Any = CAPABILITIES, **limits: Any) -> Host:
    context = JobContext(user_id="ana").bound(CallHandle("call-1", services))
    granted = Capabilities.from_json(capabilities)
    host = Host("guest", granted, context)
    loop = asyncio.get_running_loop()
    host.execution = Execution(attrs.evolve(Limits(timeout=5), **limits), host, loop=loop)
    return host


async def get(ask: Any, url: str, method: str = "GET", headers: str = "{}", body: Any = None,
              **options: Any) -> Any:  # fmt: skip
    return await ask("http_request", method, url, headers, body, None, **options)


# requests --------------------------------------------------------------------------------------


async def test_a_request_carries_the_secret_and_the_answer_does_not(
    ask: Any, services: Any
) -> None:
    answer = await get(ask, "https://api.example.com/v1/x")

    assert answer.status == 200
    assert services.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in repr(answer)


LOCATIONS: dict[str, tuple[dict[str, str], Callable[[Any], str]]] = {
    "bearer": ({"type": "bearer"}, lambda r: r.headers["authorization"]),
    "basic": (
        {"type": "basic", "username": "bot"},
        lambda r: base64.b64decode(r.headers["authorization"].split()[1]).decode(),
    ),
    "header": ({"type": "header", "name": "X-Key", "prefix": "k "}, lambda r: r.headers["x-key"]),
    "query_param": ({"type": "query_param", "name": "key"}, lambda r: r.url.params["key"]),
    "url_path": ({"type": "url_path", "placeholder": "BOT"}, lambda r: r.url.path),
}


@pytest.mark.parametrize("location", LOCATIONS)
async def test_each_location_is_filled_and_no_echo_of_it_comes_back(
    ask: Any, services: Any, location: str
) -> None:
    import httpx2

    place, found = LOCATIONS[location]
    capabilities = json.loads(json.dumps(CAPABILITIES))
    capabilities["http"]["credentials"]["key"]["location"] = place
    encoded = [
        SECRET, quote(SECRET, safe=""), SECRET.encode().hex(), json.dumps(SECRET),
        base64.b64encode(f"bot:{SECRET}".encode()).decode(),
    ]  # fmt: skip

    def echo(request: Any) -> httpx2.Response:
        everything = f"{request.url} {request.headers} {encoded}"
        return httpx2.Response(
            302, headers={"location": f"https://evil.example/{SECRET}", "x-echo": SECRET},
            content=everything.encode(),
        )  # fmt: skip

    services.answer = echo
    path = "/v1/bot{BOT}/send" if location == "url_path" else "/v1/send"
    answer = await get(ask, f"https://api.example.com{path}", capabilities=capabilities)

    assert SECRET in found(services.requests[0])
    assert isinstance(answer, HttpResponse)
    seen = answer.headers_json + answer.body.decode()
    for form in encoded:
        assert form.strip('"') not in seen


async def test_a_secret_is_not_sent_to_a_host_outside_its_patterns(ask: Any, services: Any) -> None:
    capabilities = json.loads(json.dumps(CAPABILITIES))
    capabilities["http"]["allowlist"].append({"host": "other.example.com"})

    await get(ask, "https://other.example.com/", capabilities=capabilities)

    assert "authorization" not in services.requests[0].headers


@pytest.mark.parametrize(("value", "sent"), [("", None), (SECRET, f"Bearer {SECRET}")])
async def test_an_optional_secret_goes_along_when_it_is_set(
    ask: Any, services: Any, value: str, sent: str | None
) -> None:
    asked = json.loads(json.dumps(CAPABILITIES))
    asked["http"]["credentials"]["key"]["optional"] = True
    services.secrets.values["api_key"] = value

    answer = await get(ask, "https://api.example.com/v1/x", capabilities=asked)

    assert answer.status == 200
    assert services.requests[0].headers.get("authorization") == sent


async def test_a_guest_cannot_put_the_secret_somewhere_else(ask: Any, services: Any) -> None:
    headers = json.dumps({"Authorization": "mine", "x-a": "{api_key}", "x-b": "$API_KEY"})

    await get(ask, "https://api.example.com/v1/{api_key}", "POST", headers, b"{api_key}")

    [request] = services.requests
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in str(request.url)
    assert SECRET not in request.headers["x-a"] + request.headers["x-b"]
    assert request.content == b"{api_key}"


@pytest.mark.parametrize("place", ["url", "headers", "body"])
async def test_what_holds_a_stored_secret_is_not_sent(ask: Any, services: Any, place: str) -> None:
    url = f"https://api.example.com/v1/{SECRET if place == 'url' else 'x'}"
    headers = json.dumps({"x-a": SECRET if place == "headers" else "1"})
    body = b"\xff" + SECRET.encode() if place == "body" else None

    answer = await get(ask, url, "POST", headers, body)

    assert isinstance(answer, Failure)
    assert answer.code in ("leak", "denied")
    assert SECRET not in answer.message
    assert services.requests == []


async def test_a_stored_secret_in_an_answer_is_removed(ask: Any, services: Any) -> None:
    import httpx2

    services.answer = lambda request: httpx2.Response(200, content=b"\xff\xfe" + SECRET.encode())

    answer = await get(ask, "https://api.example.com/v1/x")

    assert answer.body == b"\xff\xfe[REDACTED]"


@pytest.mark.parametrize("path", [
    "/v2/x", "/v1evil", "/v1/../admin", "/v1/%2e%2e/admin", "/v1/..%2fadmin", "/V1/x", "//v1/x",
])  # fmt: skip
async def test_tricks_with_the_path_do_not_leave_the_prefix(
    ask: Any, services: Any, path: str
) -> None:
    answer = await get(ask, f"https://api.example.com{path}")

    assert isinstance(answer, Failure)
    assert services.requests == []


@pytest.mark.parametrize("url", [
    "http://api.example.com/v1/x", "https://api.example.com.evil.example/v1/x",
    "https://api.example.com@evil.example/v1/x", "https://evil.example/v1/x#api.example.com",
    "https://127.0.0.1/v1/x", "https://[::1]/v1/x", "https://localhost/v1/x",
    "https://api.example.com:8443/v1/x", "file:///etc/passwd", "", "\0",
    "https://api.example.com\\@evil.example/v1", "https://api.example.com/v1/x\r\nHost: a",
])  # fmt: skip
async def test_tricks_with_the_host_are_refused(ask: Any, services: Any, url: str) -> None:
    answer = await get(ask, url)

    assert isinstance(answer, Failure)
    assert services.requests == []


@pytest.mark.parametrize("row", ROWS.read_text().splitlines() if ROWS.exists() else [])
async def test_the_allow_list_decides_as_everywhere(ask: Any, services: Any, row: str) -> None:
    case = json.loads(row)
    patterns, request = case["patterns"], case["request"]
    expected = AllowList.from_json(patterns).judge(request["method"], request["url"])
    if AllowList.from_json(patterns).problems:
        return  # such a capabilities file is refused when it is read
    capabilities = {"http": {"allowlist": patterns}}

    answer = await get(ask, request["url"], request["method"], capabilities=capabilities)

    if not expected.allowed:
        assert isinstance(answer, Failure)
        assert services.requests == []
    elif services.requests:
        assert isinstance(answer, HttpResponse)
    else:
        assert isinstance(answer, Failure)  # allowed by the list, refused by address or method


@pytest.mark.parametrize("headers", [
    "[]", "{", '{"a": {}}', '{"a": null}', '{"Host": "evil"}', '{"a b": "c"}',
    '{"a": "b\\r\\nc: d"}', "[" * 50_000,
])  # fmt: skip
async def test_headers_that_are_none_are_an_error(ask: Any, services: Any, headers: str) -> None:
    answer = await get(ask, "https://api.example.com/v1/x", headers=headers)

    assert isinstance(answer, Failure)
    assert answer.kind == "input"
    assert services.requests == []


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET /", "", "DELETE", "OPTIONS"])
async def test_methods_that_are_not_granted_are_refused(
    ask: Any, services: Any, method: str
) -> None:
    answer = await get(ask, "https://api.example.com/v1/x", method)

    assert isinstance(answer, Failure)
    assert services.requests == []


async def test_a_post_without_a_body_says_that_it_is_empty(ask: Any, services: Any) -> None:
    await get(ask, "https://api.example.com/v1/x", "post")

    assert services.requests[0].headers["content-length"] == "0"


async def test_bodies_have_a_limit_in_both_directions(ask: Any, services: Any) -> None:
    import httpx2

    capabilities = json.loads(json.dumps(CAPABILITIES))
    capabilities["http"] |= {"max_request_bytes": 10, "max_response_bytes": 20}
    services.answer = lambda request: httpx2.Response(200, content=b"x" * 21)

    out = await get(ask, "https://api.example.com/v1/x", "POST", "", b"x" * 11,
                    capabilities=capabilities)  # fmt: skip
    back = await get(ask, "https://api.example.com/v1/x", capabilities=capabilities)

    assert (out.kind, out.code) == ("input", "too_large")
    assert (back.kind, back.code) == ("output-too-large", "too_large")


async def test_a_redirect_is_an_answer_and_is_not_followed(ask: Any, services: Any) -> None:
    import httpx2

    inside = {"location": "http://169.254.169.254/latest"}
    services.answer = lambda request: httpx2.Response(302, headers=inside)

    answer = await get(ask, "https://api.example.com/v1/x")

    assert answer.status == 302
    assert len(services.requests) == 1


async def test_requests_of_one_execution_are_counted(ask: Any, services: Any) -> None:
    host = make_host(services, http_requests=2)

    answers = [await get(ask, "https://api.example.com/v1/x", host=host) for _ in range(3)]

    assert [isinstance(answer, HttpResponse) for answer in answers] == [True, True, False]
    assert answers[2].code == "too_many"


async def test_the_rate_limit_of_a_capability_holds_across_executions(
    ask: Any, services: Any
) -> None:
    capabilities = json.loads(json.dumps(CAPABILITIES))
    capabilities["http"]["rate_limit"] = {"requests_per_minute": 2}
    answers = []
    for _ in range(3):
        host = make_host(services, capabilities)
        answers.append(await get(ask, "https://api.example.com/v1/x", host=host))

    assert [getattr(answer, "code", "ok") for answer in answers] == ["ok", "ok", "rate_limited"]


async def test_what_cannot_be_counted_is_not_sent(ask: Any, services: Any) -> None:
    services.limiter = None

    answer = await get(ask, "https://api.example.com/v1/x")

    assert (answer.kind, answer.code) == ("network-denied", "rate_limited")
    assert services.requests == []


# the workspace ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "allowed"), [
    ("notes/a.txt", True), ("notes/sub/b", True), ("notes", True),
    ("notesx/a", False), ("private/b.txt", False), ("/notes/a.txt", False), ("", False),
    ("notes/../private/b.txt", False), ("./notes/a.txt", False), ("notes//a", False),
    ("notes\\a", False), ("notes/a\0", False), ("C:/notes/a", False), ("notes/.", False),
])  # fmt: skip
def test_documents_are_read_beneath_the_granted_prefixes_only(path: str, allowed: bool) -> None:
    assert readable(path, ("notes/",)) is allowed


async def test_a_document_comes_without_stored_secrets(ask: Any, services: Any) -> None:
    services.workspace.documents["notes/a.txt"] = f"the key is {SECRET}"

    assert await ask("workspace_read", "notes/a.txt") == "the key is [REDACTED]"
    assert services.workspace.asked == [("ana", "notes/a.txt")]


async def test_a_refused_path_is_not_even_looked_up(ask: Any, services: Any) -> None:
    assert await ask("workspace_read", "private/b.txt") is None
    assert services.workspace.asked == []


async def test_a_giant_document_is_not_handed_over(ask: Any, services: Any) -> None:
    services.workspace.documents["notes/a.txt"] = "x" * (5 << 20)

    assert await ask("workspace_read", "notes/a.txt") is None


# secrets and other tools -----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "exists"), [
    ("api_key", True), ("API_KEY", True), ("other", False), ("unlisted", False), ("", False),
])  # fmt: skip
async def test_secret_exists_tells_the_truth_about_granted_names(
    ask: Any, services: Any, name: str, exists: bool
) -> None:
    services.secrets.values["unlisted"] = "there, but not granted"

    assert await ask("secret_exists", name) is exists


async def test_a_tool_is_called_by_its_alias_with_the_callers_context(
    ask: Any, services: Any
) -> None:
    assert await ask("tool_invoke", "adder", '{"a": 1, "b": 2}') == "3"
    assert services.calls == [("add", {"a": 1, "b": 2})]


@pytest.mark.parametrize(("alias", "params", "code"), [
    ("add", "{}", "alias"), ("", "{}", "alias"), ("adder", "[]", "invalid_json"),
    ("adder", "{", "invalid_json"), ("adder", "[" * 90_000, "invalid_json"),
])  # fmt: skip
async def test_other_tools_are_called_by_granted_aliases_and_json_objects_only(
    ask: Any, services: Any, alias: str, params: str, code: str
) -> None:
    answer = await ask("tool_invoke", alias, params)

    assert answer.code == code
    assert services.calls == []


async def test_a_secret_in_the_result_of_another_tool_is_removed(ask: Any, services: Any) -> None:
    services.tools["add"] = lambda params: {"key": SECRET}

    assert await ask("tool_invoke", "adder", "{}") == '{"key": "[REDACTED]"}'


async def test_the_error_of_another_tool_is_an_answer(ask: Any, services: Any) -> None:
    def refuse(params: Any) -> Any:
        raise hardpoint.NotAuthorized(f"denied, and here is {SECRET}")

    services.tools["add"] = refuse

    answer = await ask("tool_invoke", "adder", "{}")

    assert (answer.message, answer.code) == ("denied, and here is [REDACTED]", "not_authorized")


async def test_calls_of_tools_are_counted(ask: Any, services: Any) -> None:
    host = make_host(services, tool_invocations=1)

    answers = [await ask("tool_invoke", "adder", '{"a": 1, "b": 1}', host=host) for _ in range(2)]

    assert answers[0] == "2"
    assert answers[1].code == "too_many"


async def test_logs_reach_the_log_without_secrets(
    services: Any, caplog: pytest.LogCaptureFixture
) -> None:
    host = make_host(services)

    host.log("warn", f"key={SECRET}")
    with caplog.at_level(logging.DEBUG, "hardpoint_wasm.guest"):
        host.emit_logs()

    assert caplog.messages == ["guest: key=[REDACTED]"]


async def test_a_long_log_line_is_cut_between_characters(services: Any) -> None:
    host = make_host(services)

    host.log("info", "ä" * 4000)

    assert host.logs[0].message.endswith("ä... (truncated)")
    assert len(host.logs[0].message.encode()) <= 4096
