from __future__ import annotations

import pytest

from hardpoint.errors import InvalidParameters
from hardpoint.net import HttpResponse, check_headers, check_method, parse_url

URL = parse_url("https://example.com:8443/")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "x"),
        ("X Y", "x"),
        ("X:", "x"),
        ("X\r\nY", "x"),
        ("Ü", "x"),
        ("X" * 513, "x"),
        ("X", "a\r\nY: b"),
        ("X", "a\nb"),
        ("X", "a\rb"),
        ("X", "a\x00b"),
        ("X", "a\x7f"),
        ("X", "\ud800"),
        ("X", "a" * 8193),
        ("Host", "other.example"),
        ("host", "example.com"),
        ("Content-Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("Upgrade", "h2c"),
        ("TE", "trailers"),
        ("Proxy-Authorization", "x"),
        ("Accept-Encoding", "br"),
    ],
)
def test_a_header_that_could_change_the_message_is_refused(name, value):
    with pytest.raises(InvalidParameters):
        check_headers([(name, value)], url=URL, body=b"abc")


def test_ordinary_headers_are_kept_in_order_and_trimmed():
    headers = [("B", " two\t"), ("A", "1"), ("B", "wörd"), ("Host", "EXAMPLE.com:8443")]

    assert check_headers(headers, url=URL, body=b"abc") == (("B", "two"), ("A", "1"), ("B", "wörd"))
    assert check_headers({"Content-Length": "3"}, url=URL, body=b"abc") == ()


def test_too_many_headers_are_refused():
    with pytest.raises(InvalidParameters, match="64"):
        check_headers([("X", "y")] * 65, url=URL, body=None)


@pytest.mark.parametrize("method", ["", "GET ", "GET\r\nX: y", "CONNECT", "trace", "GÉT", "a/b"])
def test_other_words_are_no_methods(method):
    with pytest.raises(InvalidParameters):
        check_method(method)


def test_a_method_ignores_letter_case():
    assert check_method("patch") == "PATCH"


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain", "wörd".encode(), "wörd"),
        ("text/plain; charset=latin-1", "wörd".encode("latin-1"), "wörd"),
        ('text/html;charset="windows-1252"', "€".encode("cp1252"), "€"),
        ("text/plain; charset=nonsense", "wörd".encode(), "wörd"),
        ("text/plain; charset=base64", b"YQ==", "YQ=="),
        ("text/plain; charset=rot13", b"abc", "abc"),
        ("text/plain; charset=unicode-escape", b"\\x41", "\\x41"),
        ("text/plain; charset=punycode", b"abc", "abc"),
        ("text/plain; charset=utf-8", b"a\xffb", "a\ufffdb"),
        ("", b"plain", "plain"),
    ],
)
def test_a_body_is_read_by_its_character_set(content_type, body, text):
    response = HttpResponse(200, "https://x/", (("content-type", content_type),), body)

    assert response.text == text


def test_only_a_redirect_with_a_location_is_one():
    location = (("location", "/x"),)

    assert HttpResponse(302, "https://x/", location).location == "/x"
    assert HttpResponse(200, "https://x/", location).location is None
    assert HttpResponse(304, "https://x/", location).location is None
    assert HttpResponse(302, "https://x/").location is None
