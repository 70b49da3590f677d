"""URL patterns."""

from __future__ import annotations

import pytest

from hardpoint.errors import ConfigError
from hardpoint.subjects import UrlPattern


@pytest.mark.parametrize(
    ("spec", "url", "method", "expected"),
    [
        ("domain:example.com", "https://example.com/x", "GET", True),
        ("domain:example.com", "https://EXAMPLE.com./x", "GET", True),
        ("domain:example.com", "https://a.example.com/x", "GET", False),
        ("domain:example.com", "https://example.com.evil.net/", "GET", False),
        ("domain:example.com", "https://evil.net/example.com", "GET", False),
        ("domain:example.com", "https://example.com@evil.net/", "GET", False),
        ("domain:*.example.com", "https://a.b.example.com/", "GET", True),
        ("domain:*.example.com", "https://example.com/", "GET", False),
        ("domain:*.example.com", "https://badexample.com/", "GET", False),
        ("domain:a.com,b.com", "https://b.com/", "GET", True),
        ("domain:bücher.example", "https://xn--bcher-kva.example/", "GET", True),
        ("method:POST", "https://x.com/", "POST", True),
        ("method:post", "https://x.com/", "POST", True),
        ("method:POST", "https://x.com/", "GET", False),
        ("method:POST,PUT domain:x.com", "https://x.com/", "PUT", True),
        ("method:POST domain:x.com", "https://y.com/", "POST", False),
        ("GET https://x.com/v1/*", "https://x.com/v1/a", "GET", True),
        ("GET https://x.com/v1/*", "https://x.com/v1/a", "POST", False),
        ("https://x.com/v1/*", "https://x.com/v2/a", "GET", False),
        ("https://x.com/v1/*", "http://x.com/v1/a", "GET", False),
        ("https://x.com/v1/*", "https://x.com:8443/v1/a", "GET", True),
        ("https://x.com:8443/*", "https://x.com/v1", "GET", False),
        ("https://x.com/v1/*", "https://x.com/v1/../admin", "GET", False),
        ("https://x.com/v1/*", "https://x.com/v1/%2e%2e/admin", "GET", False),
        ("https://x.com/v1/*", "https://x.com/v1/a?b=c", "GET", True),
        ("https://*/v1", "https://evil.net/v1", "GET", True),
        ("https://x.com", "https://x.com/any", "GET", True),
        ("*", "https://x.com/", "GET", True),
        ("*", "no url", "GET", False),
        ("domain:x.com", "https://[::1", "GET", False),
    ],
)
def test_a_pattern_speaks_of_host_method_and_path(
    spec: str, url: str, method: str, expected: bool
) -> None:
    assert UrlPattern.parse(spec).matches(url, method) is expected


@pytest.mark.parametrize(
    "spec",
    ["", "example.com", "domain:", "domain:a*b.com", "domain:https://x.com", "domain:x.com/p",
     "https://", "https://u@x.com/", "https://a.*.com/", "https://x.com:y/", "method:"],
)  # fmt: skip
def test_what_is_no_url_pattern_is_an_error(spec: str) -> None:
    with pytest.raises(ConfigError):
        UrlPattern.parse(spec)
