from __future__ import annotations

import json

import pytest

from hardpoint import ApprovalRequirement, InvalidParameters, JobContext
from hardpoint.net import Binding, Header
from hardpoint_builtin import HttpTool
from hardpoint_builtin.http.arguments import read_arguments

NEVER, ASK = ApprovalRequirement.NEVER, ApprovalRequirement.UNLESS_AUTO_APPROVED
URL = "https://api.example.com/v1"
CONTEXT = JobContext(user_id="ana")


@pytest.mark.parametrize(
    "given",
    [
        [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        {"A": "1", "B": "2"},
        {"A": 1, "B": 2},
        '[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]',
        '{"A": "1", "B": "2"}',
    ],
)
def test_headers_are_read_in_every_shape(given):
    assert read_arguments({"url": URL, "headers": given}).headers == (("A", "1"), ("B", "2"))


@pytest.mark.parametrize("given", [None, "", [], {}, "[]", "{}", "null"])
def test_no_headers_are_no_headers(given):
    assert read_arguments({"url": URL, "headers": given}).headers == ()


@pytest.mark.parametrize(
    "given",
    [
        json.dumps('{"A": "1"}'),
        "A: 1",
        "false",
        "[" * 100_000,
        5,
        ["A: 1"],
        [{"name": "A"}],
        [{"name": 1, "value": "x"}],
        {"A": None},
        {"A": True},
        {"A": ["1"]},
        {"A": "1\r\nB: 2"},
        {"A B": "1"},
        {"Host": "other.example"},
        {"Content-Length": "77"},
        {f"X-{n}": "y" for n in range(65)},
    ],
)
def test_other_headers_are_refused(given):
    with pytest.raises(InvalidParameters):
        read_arguments({"url": URL, "headers": given})


@pytest.mark.parametrize(
    ("given", "seconds"), [(None, 30), ("", 30), (1, 1), ("20", 20), (300, 300), (5.0, 5)]
)
def test_the_time_is_read_as_a_number_or_its_text(given, seconds):
    assert read_arguments({"url": URL, "timeout_secs": given}).timeout == seconds


@pytest.mark.parametrize("given", [0, -1, 301, "301", "soon", True, [30], float("nan")])
def test_another_time_is_refused(given):
    with pytest.raises(InvalidParameters, match="300"):
        read_arguments({"url": URL, "timeout_secs": given})


@pytest.mark.parametrize(
    ("body", "headers", "sent", "content_type"),
    [
        ({"a": [1, "ü"]}, {}, '{"a":[1,"ü"]}'.encode(), "application/json"),
        ([1, 2], {}, b"[1,2]", "application/json"),
        (5, {}, b"5", "application/json"),
        (False, {}, b"false", "application/json"),
        ('{"a": 1}', {}, b'{"a": 1}', "application/json"),
        ("plain wörds", {}, "plain wörds".encode(), "text/plain"),
        ("a=b", {"content-type": "application/x-www-form-urlencoded"}, b"a=b", None),
        (
            {"a": "b c", "d": ["1", "2"]},
            {"Content-Type": "application/x-www-form-urlencoded"},
            b"a=b+c&d=1&d=2",
            None,
        ),
        ({"a": 1}, {"Content-Type": "application/vnd.x+json"}, b'{"a":1}', None),
        ("", {}, None, None),
        (None, {}, None, None),
    ],
)
def test_a_body_is_sent_as_it_was_meant(body, headers, sent, content_type):
    arguments = read_arguments({"url": URL, "method": "POST", "body": body, "headers": headers})

    sent_headers, content = arguments.encoded()

    added = dict(sent_headers[len(headers) :])
    assert content == sent
    assert added == ({} if content_type is None else {"Content-Type": content_type})


@pytest.mark.parametrize("body", [float("inf"), "\ud800", {"a": object()}])
def test_a_body_that_is_not_json_is_refused(body):
    with pytest.raises(InvalidParameters):
        read_arguments({"url": URL, "method": "POST", "body": body})


@pytest.mark.parametrize(
    "params", [{}, {"url": ""}, {"url": "example.com"}, {"url": URL, "method": "OPTIONS"}]
)
def test_a_request_needs_a_whole_url_and_a_known_method(params):
    with pytest.raises(InvalidParameters):
        read_arguments(params)


async def test_equal_requests_have_one_canonical_form():
    first = await HttpTool().canonicalise(
        {"url": "HTTPS://API.example.com:443/v1/../v1?q#f", "headers": {"A": "1"}, "body": ""},
        CONTEXT,
    )
    second = await HttpTool().canonicalise(
        {
            "method": "get",
            "url": "https://api.example.com/v1?q",
            "headers": '[{"name": "A", "value": " 1"}]',
            "timeout_secs": "30",
        },
        CONTEXT,
    )

    assert first.params["url"] == second.params["url"]
    assert first.subjects == second.subjects
    [subject] = first.subjects
    assert (subject.kind, subject.value, subject.operation) == (
        "url",
        "https://api.example.com/v1?q",
        "GET",
    )
    again = await HttpTool().canonicalise(first.params, CONTEXT)
    assert again == first


# approval ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"url": URL},
        {"url": URL, "method": "GET"},
        {"url": URL, "method": "get"},
        {"url": URL + "?page=2&author=ana&monkey=1"},
        {"url": URL, "headers": [{"name": "Accept", "value": "text/plain"}]},
        {"url": URL, "headers": {"Authorization": ""}},
        {"url": URL, "headers": {"X-Author": "ana", "Accept-Language": "basic"}},
        {"url": URL + "?token="},
        {"url": URL + "#token=abc"},
    ],
)
def test_a_plain_get_needs_no_approval(params):
    assert HttpTool().requires_approval(params) is NEVER


@pytest.mark.parametrize(
    "params",
    [
        {"url": URL, "method": "POST"},
        {"url": URL, "method": "put"},
        {"url": URL, "method": "DELETE"},
        {"url": URL, "method": "PATCH"},
        {"url": URL, "method": "UNKNOWN"},
        {"url": URL, "headers": [{"name": "authorization", "value": "x"}]},
        {"url": URL, "headers": {"COOKIE": "a=b"}},
        {"url": URL, "headers": '{"X-API-Key": "x"}'},
        {"url": URL, "headers": {"X-My-Secret-Thing": "x"}},
        {"url": URL, "headers": {"X-OAuth": "x"}},
        {"url": URL, "headers": {"X-Custom": "Bearer x"}},
        {"url": URL, "headers": {"X-Custom": "AWS4-HMAC-SHA256 Credential=x"}},
        {"url": URL, "headers": "not readable"},
        {"url": URL + "?a=b&API_KEY=x"},
        {"url": URL + "?my_password=x"},
        {"url": URL + "?to%6ben=x"},
        {"url": URL + "?sig=x"},
        {"url": "https://ana:pw@api.example.com/"},
        {"url": "https://ana@api.example.com/"},
        json.dumps({"url": URL, "method": "POST"}),
        json.dumps({"url": URL, "headers": {"Authorization": "x"}}),
    ],
)
def test_what_changes_something_or_carries_a_credential_needs_approval(params):
    assert HttpTool().requires_approval(params) is ASK


def test_a_request_that_gets_a_stored_secret_needs_approval():
    tool = HttpTool([Binding("key", "api.example.com", "GET", "/v1", Header("X-Key"))])

    assert tool.requires_approval({"url": URL}) is ASK
    assert tool.requires_approval({"url": "https://API.example.com./v1/x"}) is ASK
    assert tool.requires_approval({"url": "https://api.example.com/v2"}) is NEVER
    assert tool.requires_approval({"url": "https://other.example.com/v1"}) is NEVER


@pytest.mark.parametrize(
    ("params", "effects"),
    [
        ({"url": URL}, {"read", "network"}),
        ({"url": URL, "body": "x"}, {"read", "network", "send"}),
        ({"url": URL, "method": "POST"}, {"write", "network", "send"}),
        ({"url": URL, "method": "delete"}, {"delete", "network", "send"}),
    ],
)
def test_effects_follow_the_method(params, effects):
    assert HttpTool().effects(params) == effects
