from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.errors import InvalidParameters
from hardpoint.net import canonical_host, parse_url


@pytest.mark.parametrize(
    ("given_url", "canonical"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://EXAMPLE.com:443/A", "https://example.com/A"),
        ("https://example.com:8443/a?b=c#d", "https://example.com:8443/a?b=c"),
        ("https://example.com./", "https://example.com/"),
        ("https://example.com:/", "https://example.com/"),
        ("https://example.com?x", "https://example.com/?x"),
        ("https://example.com/a b?c d", "https://example.com/a%20b?c%20d"),
        ("https://example.com/100%", "https://example.com/100%25"),
        ("https://example.com/%41%zz", "https://example.com/%41%25zz"),
        ("https://example.com/ä", "https://example.com/%C3%A4"),
        ("https://example.com/a\\b?c\\d", "https://example.com/a%5Cb?c%5Cd"),
        ("https://example.com/a/./b/../c", "https://example.com/a/c"),
        ("https://example.com/a/%2E%2e/b", "https://example.com/b"),
        ("https://example.com/a/..", "https://example.com/"),
        ("https://example.com/a/.", "https://example.com/a/"),
        ("https://example.com/../../a", "https://example.com/a"),
        ("https://example.com//a//", "https://example.com//a//"),
        ("https://example.com/?next=/../x", "https://example.com/?next=/../x"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
        ("https://[2606:4700:0:0::1]:8443/", "https://[2606:4700::1]:8443/"),
        (" https://example.com/ ", "https://example.com/"),
        ("http://example.com:80/", "http://example.com/"),
        ("http://example.com:443/", "http://example.com:443/"),
    ],
)
def test_a_url_has_one_canonical_form(given_url, canonical):
    url = parse_url(given_url)

    assert str(url) == canonical
    assert parse_url(canonical) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com",
        "//example.com/",
        "/path",
        "https:/example.com/",
        "https:example.com/",
        "https:///example.com/",
        "https:////example.com/",
        "https://",
        "https:// /",
        "https://./",
        "https://../",
        "https://.example.com/",
        "https://a..example.com/",
        "https://?q",
        "https://:443/",
        "https://@/",
        "https://user@example.com/",
        "https://@example.com/",
        "https://user:pw@example.com/",
        "https://a@b@example.com/",
        "https://example.com\\@other.example/",
        "https:\\\\example.com/",
        "https://example.com\\/",
        "https://exa mple.com/",
        "https://exa\tmple.com/",
        "https://example.com\n/",
        "https://example.com/\r\nX: 1",
        "https://example.com/\x00",
        "https://example.com/\x85",
        "https://example.com/\u2028",
        "https://example.com/\ud800",
        "https://exam\ud800ple.com/",
        "https://ex%61mple.com/",
        "https://example.com%2f.evil.example/",
        "https://evil.example\uff0f.example.com/",
        "https://evil.example\uff1a443.example.com/",
        "https://evil.example\uff20example.com/",
        "https://evil.example\u2044x/",
        "https://*.example.com/",
        "https://exa<mple.com/",
        "https://example.com,other.example/",
        "https://example.com|x/",
        "https://example.com;x/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:099999/",
        "https://example.com:-1/",
        "https://example.com:+443/",
        "https://example.com: 443/",
        "https://example.com:4_4/",
        "https://example.com:\u0664\u0664\u0663/",
        "https://example.com:443:443/",
        "https://[::1/",
        "https://::1/",
        "https://[::1]x/",
        "https://[::1]443/",
        "https://[]/",
        "https://[example.com]/",
        "https://[::1%25lo]/",
        "https://[fe80::1%eth0]/",
        "https://[v1.x]/",
        "https://[\uff11::1]/",
        "https://1.2.3/",
        "https://1.2.3.4.5/",
        "https://01.2.3.4/",
        "https://0x7f.0.0.1/",
        "https://0x7f000001/",
        "https://0x/",
        "https://2130706433/",
        "https://256.1.1.1/",
        "https://1.1.1.0x1/",
        "https://1.1.1.1.0x1/",
        "https://example.123/",
        "https://example.0x1/",
        "https://1.1.1.1../",
        "https://" + "a" * 64 + ".example.com/",
        "https://" + "a." * 127 + "example/",
        "https://" + "ü" * 2000 + "/",
        "https://example.com/" + "a" * 20_000,
        "https://\u0301a.example/",
        "https://a\u200d\u00e9.example/",
    ],
)
def test_what_cannot_be_read_in_one_way_is_refused(text):
    with pytest.raises(InvalidParameters):
        parse_url(text)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("", "https://example.com/a/b?q"),
        ("#top", "https://example.com/a/b?q"),
        ("?page=2", "https://example.com/a/b?page=2"),
        ("c", "https://example.com/a/c"),
        ("./c", "https://example.com/a/c"),
        ("../c", "https://example.com/c"),
        ("../../../c", "https://example.com/c"),
        ("/c", "https://example.com/c"),
        (" https://other.example/ ", "https://other.example/"),
        ("//other.example/c", "https://other.example/c"),
        ("https://other.example", "https://other.example/"),
        ("c?u=https://x/\\y", "https://example.com/a/c?u=https://x/%5Cy"),
    ],
)
def test_a_location_is_resolved_against_its_url(location, target):
    url = parse_url("https://example.com/a/b?q#f")

    assert str(parse_url(url.join(location))) == target


@pytest.mark.parametrize(
    "location",
    ["\\\\other.example/", "/\\other.example/", "a\\..\\b", "https://x\n.example/", "\t//x"],
)
def test_a_location_with_two_meanings_is_refused(location):
    with pytest.raises(InvalidParameters):
        parse_url("https://example.com/").join(location)


@given(st.text(max_size=60))
def test_whatever_is_accepted_reaches_the_wire_as_it_was_judged(text):
    import httpx2

    try:
        url = parse_url(f"https://example.com/{text}")
    except InvalidParameters:
        return

    wire = httpx2.URL(str(url))
    assert wire.raw_host.decode() == url.host
    assert wire.raw_path.decode() == url.target
    assert parse_url(str(url)) == url


@given(st.text(min_size=1, max_size=40))
def test_a_canonical_host_is_ascii_and_stays_itself(text):
    try:
        host = canonical_host(text)
    except InvalidParameters:
        return

    assert host.isascii()
    assert canonical_host(f"[{host}]" if ":" in host else host) == host
