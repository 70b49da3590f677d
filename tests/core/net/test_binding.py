from __future__ import annotations

import base64

import pytest

from hardpoint.errors import ConfigError, NotAuthorized
from hardpoint.net import (
    Basic,
    Bearer,
    Binding,
    Header,
    HttpRequest,
    Query,
    UrlPath,
    inject,
    matching,
    parse_url,
)

VALUE = "synthetic-value/1"


def request(url="https://api.example.com/v1?x=1", method="GET", headers=()):
    return HttpRequest(method, parse_url(url), tuple(headers))


def injected(binding, made, value=VALUE):
    return inject(made, matching([binding], made.method, made.url), {binding.secret: value})


@pytest.mark.parametrize(
    ("location", "header", "sent"),
    [
        (Bearer(), "Authorization", f"Bearer {VALUE}"),
        (Header("X-Api-Key"), "X-Api-Key", VALUE),
        (Header("X-Auth", "Token "), "X-Auth", f"Token {VALUE}"),
        (
            Basic("ana"),
            "Authorization",
            "Basic " + base64.b64encode(f"ana:{VALUE}".encode()).decode(),
        ),
    ],
)
def test_a_secret_goes_into_a_header(location, header, sent):
    made, masker = injected(Binding("s", "api.example.com", location=location), request())

    assert dict(made.headers)[header] == sent
    assert masker.finds(sent)


def test_a_secret_goes_into_the_query_and_replaces_what_was_there():
    binding = Binding("s", "api.example.com", location=Query("key"))

    made, _ = injected(binding, request("https://api.example.com/v1?key=mine&x=1&k%65y=2"))

    assert made.url.query == "x=1&key=synthetic-value%2F1"


def test_a_secret_goes_into_the_path_where_the_placeholder_stands():
    binding = Binding("s", "api.example.com", location=UrlPath("TOKEN"))

    made, _ = injected(binding, request("https://api.example.com/bot{TOKEN}/send"))

    assert made.url.path == "/botsynthetic-value%2F1/send"


def test_a_path_secret_needs_its_placeholder():
    binding = Binding("s", "api.example.com", location=UrlPath("TOKEN"))

    assert not matching([binding], "GET", parse_url("https://api.example.com/bot/send"))


def test_the_callers_own_header_gives_way():
    binding = Binding("s", "api.example.com")

    made, _ = injected(binding, request(headers=[("AUTHORIZATION", "Bearer mine"), ("X", "y")]))

    assert made.headers == (("X", "y"), ("Authorization", f"Bearer {VALUE}"))


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", "https://other.example.com/v1"),
        ("GET", "https://api.example.com.evil.example/v1"),
        ("GET", "https://api.example.com/v2"),
        ("GET", "https://api.example.com/v1/%2e%2e/v2"),
        ("GET", "https://api.example.com:8443/v1"),
        ("GET", "http://api.example.com/v1"),
        ("POST", "https://api.example.com/v1"),
    ],
)
def test_a_secret_stays_away_from_other_requests(method, url):
    binding = Binding("s", "api.example.com", "GET", "/v1")

    assert matching([binding], method, parse_url(url)) == []


def test_the_narrowest_binding_for_one_place_wins():
    bindings = [
        Binding("any", "*.example.com"),
        Binding("host", "api.example.com"),
        Binding("path", "api.example.com", paths="/v1/admin"),
        Binding("key", "api.example.com", location=Header("X-Key")),
    ]

    def names(path):
        found = matching(bindings, "GET", parse_url(f"https://api.example.com{path}"))
        return {binding.secret for binding in found}

    assert names("/v1/admin/x") == {"path", "key"}
    assert names("/v1") == {"host", "key"}


@pytest.mark.parametrize("value", [None, "", "  \n", "two\nlines", "nul\x00", "a\u2028b"])
def test_a_value_that_cannot_be_sent_stops_the_request(value):
    binding = Binding("api_key", "api.example.com")

    with pytest.raises(NotAuthorized, match="api_key") as caught:
        inject(request(), [binding], {} if value is None else {"api_key": value})

    assert "hardpoint secrets set api_key" in (caught.value.hint or "")


def test_a_final_line_break_is_not_part_of_a_value():
    made, _ = injected(Binding("s", "api.example.com"), request(), "abc\r\n")

    assert dict(made.headers)["Authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    "fields",
    [
        {"hosts": []},
        {"hosts": "api.*.com"},
        {"hosts": "https://api.example.com"},
        {"hosts": "api.example.com", "methods": "GET POST"},
        {"hosts": "api.example.com", "paths": "/a%2fb"},
        {"hosts": "api.example.com", "location": Header("X Y")},
        {"hosts": "api.example.com", "location": Header("Host")},
        {"hosts": "api.example.com", "location": Header("X", "a\r\nY: ")},
        {"hosts": "api.example.com", "location": Basic("a:b")},
        {"hosts": "api.example.com", "location": Query("")},
        {"hosts": "api.example.com", "location": UrlPath("{x}")},
    ],
)
def test_a_binding_that_could_not_be_followed_is_refused(fields):
    with pytest.raises(ConfigError, match="api_key"):
        Binding("api_key", **fields)


def test_a_binding_is_read_from_json():
    data = {
        "secret": "s",
        "hosts": ["api.example.com"],
        "paths": ["/v1"],
        "location": {"type": "header", "name": "X-Key", "prefix": "k "},
    }

    assert Binding.from_json(data) == Binding(
        "s", "api.example.com", paths="/v1", location=Header("X-Key", "k ")
    )
    assert Binding.from_json({"secret": "s", "hosts": ["a.example"]}).location == Bearer()


@pytest.mark.parametrize(
    "extra",
    [
        {"location": {"type": "cookie"}},
        {"location": {"type": "bearer", "name": "x"}},
        {"host": "x"},
    ],
)
def test_unknown_keys_and_places_are_errors(extra):
    with pytest.raises(ConfigError):
        Binding.from_json({"secret": "s", "hosts": ["api.example.com"], **extra})
