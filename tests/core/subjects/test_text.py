"""Text patterns, and the choice of a pattern by kind."""

from __future__ import annotations

import pytest

from hardpoint.errors import ConfigError
from hardpoint.subjects import TextPattern, parse_pattern


@pytest.mark.parametrize(
    ("spec", "text", "expected"),
    [
        ("deploy *", "deploy prod", True),
        ("deploy *", "Deploy prod", False),
        ("a?c", "abc", True),
        ("a.c", "abc", False),
        ("*", "two\nlines", True),
        ("[ab]", "b", True),
    ],
)
def test_a_glob_must_fit_the_whole_text(spec: str, text: str, expected: bool) -> None:
    assert TextPattern.parse(spec).matches(text) is expected


def test_the_kind_chooses_the_pattern() -> None:
    assert parse_pattern("text", "a*").matches("abc")
    assert parse_pattern("path", "a").matches("a/b", "read")
    assert parse_pattern("url", "domain:a.com").matches("https://a.com/", "GET")


@pytest.mark.parametrize(("kind", "spec"), [("text", ""), ("command", "ls"), ("other", "x")])
def test_a_pattern_for_no_kind_is_an_error(kind: str, spec: str) -> None:
    with pytest.raises(ConfigError):
        parse_pattern(kind, spec)
