from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.errors import NotAuthorized
from hardpoint.net import AllowList, AllowPattern, Denial, parse_url
from hardpoint.net.allowlist import path_segments

V1 = AllowPattern("api.example.com", "/v1", ["GET", "POST"])


def judge(pattern, url, method="GET"):
    return AllowList([pattern]).judge(method, url)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1",
        "https://api.example.com/v1/",
        "https://api.example.com/v1/users?x=/../y#z",
        "HTTPS://API.EXAMPLE.COM:443/v1/users",
        "https://api.example.com/%76%31/users",
        "https://api.example.com/v1/.../a..b",
        "https://api.example.com/v1/my%20file",
        "https://api.example.com/v1/caf%C3%A9",
        "https://api.example.com/v1/caf%E9",
        "https://api.example.com/v1//x",
        "https://api.example.com/x/../v1/y",
        "https://api.example.com/v1/a;b=c",
        "https://api.example.com/v1/?q=100%",
        "https://api.example.com/v1?path=a%2Fb%5c",
    ],
)
def test_requests_below_the_prefix_are_let_through(url):
    assert judge(V1, url).allowed


@pytest.mark.parametrize(
    ("url", "reasons"),
    [
        ("https://api.example.com/v1x", {"path_not_allowed"}),
        ("https://api.example.com/V1", {"path_not_allowed"}),
        ("https://api.example.com/", {"path_not_allowed"}),
        ("https://api.example.com//v1", {"path_not_allowed"}),
        ("https://api.example.com/v1/../v2", {"path_not_allowed"}),
        ("https://api.example.com/v1/%2e%2E/v2", {"path_not_allowed"}),
        ("https://api.example.com/v1/.%2e/v2", {"path_not_allowed"}),
        ("https://api.example.com/v1/%2e", set()),
        ("https://api.example.com/v1%20", {"path_not_allowed"}),
        ("https://api.example.com/?/v1", {"path_not_allowed"}),
        ("https://api.example.com/v1%2fx", {"invalid_url"}),
        ("https://api.example.com/v1/%5c..%5cx", {"invalid_url"}),
        ("https://api.example.com/v1\\x", {"invalid_url"}),
        ("https://api.example.com/v1/%252e%252e/x", {"invalid_url"}),
        ("https://api.example.com/v1/%252f", {"invalid_url"}),
        ("https://api.example.com/v1/%", {"invalid_url"}),
        ("https://api.example.com/v1/%2", {"invalid_url"}),
        ("https://api.example.com/v1/%u0041", {"invalid_url"}),
        ("https://api.example.com/v1/%00", {"invalid_url"}),
        ("https://api.example.com/v1/%0d%0aX:1", {"invalid_url"}),
        ("https://api.example.com/v1/%c0%ae%c0%ae/x", {"invalid_url"}),
        ("https://api.example.com/v1/%e0%80%ae%e0%80%ae/x", {"invalid_url"}),
        ("https://api.example.com/v1/..;/x", {"invalid_url"}),
        ("https://api.example.com/v1/%2e%2e;a/x", {"invalid_url"}),
        ("https://api.example.com/v1\n/x", {"invalid_url"}),
        ("https://user@api.example.com/v1", {"invalid_url"}),
        ("https://api.example.com:0/v1", {"invalid_url"}),
        ("https:///v1", {"invalid_url"}),
        ("not a url", {"invalid_url"}),
        ("http://api.example.com/v1", {"insecure_scheme"}),
        ("wss://api.example.com/v1", {"insecure_scheme"}),
        ("https://example.com/v1", {"host_not_allowed"}),
        ("https://api.example.com:8443/v1", {"host_not_allowed"}),
        ("https://x.api.example.com/v1", {"host_not_allowed"}),
        ("https://api.example.com.evil.example/v1", {"host_not_allowed"}),
        ("https://apiXexample.com/v1", {"host_not_allowed"}),
        ("https://\u0430pi.example.com/v1", {"host_not_allowed"}),
    ],
)
def test_other_requests_are_refused_with_the_furthest_reason(url, reasons):
    verdict = judge(V1, url)

    assert verdict.allowed == (not reasons)
    assert verdict.allowed or verdict.reason in reasons


@pytest.mark.parametrize(
    ("host", "url", "allowed"),
    [
        ("*.example.com", "https://a.example.com/", True),
        ("*.example.com", "https://a.b.example.com/", True),
        ("*.EXAMPLE.com", "https://A.example.COM/", True),
        ("*.example.com", "https://example.com/", False),
        ("*.example.com", "https://xexample.com/", False),
        ("*.example.com", "https://a.example.com.evil.example/", False),
        ("*.example.com:8443", "https://a.example.com:8443/", True),
        ("*.example.com:8443", "https://a.example.com/", False),
        ("*.bücher.example", "https://a.xn--bcher-kva.example/", True),
        ("*.0.0.1", "https://10.0.0.1/", False),
        ("*", "https://example.com/", False),
        ("*.", "https://example.com/", False),
        ("*.*.example.com", "https://a.b.example.com/", False),
        ("a*.example.com", "https://ab.example.com/", False),
        ("api.*.com", "https://api.example.com/", False),
        ("", "https://example.com/", False),
        ("https://example.com", "https://example.com/", False),
        ("example.com/", "https://example.com/", False),
        ("example.com.", "https://example.com/", True),
        ("example.com:443", "https://example.com/", True),
        ("example.com:8443", "https://example.com:8443/", True),
        ("example.com:8443", "https://example.com:443/", False),
        ("example.com:http", "https://example.com/", False),
        ("user@example.com", "https://example.com/", False),
        ("1.1.1.1", "https://1.1.1.1/", True),
        ("1.1.1.1", "https://1.1.1.10/", False),
        ("2606:4700::1", "https://[2606:4700:0::1]/", True),
        ("[2606:4700::1]", "https://[2606:4700::1]/", True),
        ("[2606:4700::1]:8443", "https://[2606:4700::1]:8443/", True),
        ("[2606:4700::1]:8443", "https://[2606:4700::1]/", False),
        ("fe80::1%eth0", "https://[fe80::1%25eth0]/", False),
    ],
)
def test_hosts_are_compared_as_names(host, url, allowed):
    assert judge(AllowPattern(host), url).allowed == allowed


@pytest.mark.parametrize(
    ("prefix", "path", "allowed"),
    [
        (None, "/anything", True),
        ("", "/anything", True),
        ("/", "/", True),
        ("v1", "/v1/x", True),
        ("/v1/", "/v1", True),
        ("/v1/", "/v1x", False),
        ("/caf%C3%A9", "/café/x", True),
        ("/a b", "/a%20b", True),
        ("/a/../b", "/b/c", True),
        ("/a/../b", "/a/c", False),
        ("/a%2fb", "/a/b", False),
        ("/repos/acme/site", "/repos/acme", False),
        ("/*", "/x", False),
    ],
)
def test_a_prefix_ends_at_a_segment(prefix, path, allowed):
    pattern = AllowPattern("example.com", prefix)

    assert judge(pattern, f"https://example.com{path}").allowed == allowed


@pytest.mark.parametrize(
    ("methods", "method", "reason"),
    [
        ([], "DELETE", None),
        (["get"], "GET", None),
        (["GET"], "get", None),
        (["GET"], "HEAD", "method_not_allowed"),
        (["GET"], "GETX", "method_not_allowed"),
        ([], "GET\r\n", "method_not_allowed"),
        ([], "", "method_not_allowed"),
        ([], "GET ", "method_not_allowed"),
        (["GET"], "G\u0415T", "method_not_allowed"),
    ],
)
def test_methods_ignore_letter_case_and_nothing_else(methods, method, reason):
    verdict = judge(AllowPattern("example.com", None, methods), "https://example.com/", method)

    assert verdict.reason == reason


def test_one_pattern_must_match_as_a_whole():
    allow = AllowList(
        [
            AllowPattern("a.example.com", "/read", ["GET"]),
            AllowPattern("a.example.com", "/write", ["POST"]),
            AllowPattern("b.example.com", "/read", ["POST"]),
        ]
    )

    assert allow.judge("GET", "https://a.example.com/read/x").allowed
    assert allow.judge("POST", "https://a.example.com/read").reason is Denial.METHOD_NOT_ALLOWED
    assert allow.judge("GET", "https://b.example.com/write").reason is Denial.PATH_NOT_ALLOWED
    assert allow.judge("GET", "https://c.example.com/read").reason is Denial.HOST_NOT_ALLOWED


def test_an_empty_list_allows_nothing():
    assert AllowList().judge("GET", "https://example.com/").reason is Denial.EMPTY_ALLOWLIST


def test_http_can_be_permitted():
    allow = AllowList([AllowPattern("example.com")], allow_http=True)

    assert allow.judge("GET", "http://example.com/").allowed
    assert not allow.judge("GET", "ftp://example.com/").allowed
    assert not allow.judge("GET", "http://example.com:443/").allowed


def test_patterns_that_match_nothing_say_why():
    allow = AllowList.from_json(
        [
            {"host": "api.*.com"},
            {"host": "example.com", "methods": ["GET X"]},
            {"host": "ok.example"},
        ]
    )

    assert [problem.partition(":")[0] for problem in allow.problems] == [
        "pattern for 'api.*.com'",
        "pattern for 'example.com'",
    ]


def test_a_refusal_names_its_reason():
    with pytest.raises(NotAuthorized, match="/v2") as caught:
        AllowList([V1]).require("GET", "https://api.example.com/v2")

    assert caught.value.decision == {"reason": "path_not_allowed"}


@given(st.text(alphabet="/.%2eEfF5cC;ab\\", max_size=20))
def test_what_is_let_through_is_sent_with_the_segments_that_were_judged(tail):
    url = parse_url(f"https://api.example.com/v1/{tail}")

    if AllowList([V1]).judge("GET", url).allowed:
        assert path_segments(url.path) == path_segments(url.given_path)
        assert url.path == "/v1" or url.path.startswith("/v1/")
