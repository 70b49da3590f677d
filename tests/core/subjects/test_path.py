"""Path patterns, as in a .gitignore file."""

from __future__ import annotations

import pytest

from hardpoint.errors import ConfigError
from hardpoint.subjects import PathPattern, parse_pattern


@pytest.mark.parametrize(
    ("spec", "path", "expected"),
    [
        ("src/**", "src/a.py", True),
        ("src/**", "src/a/b.py", True),
        ("src/**", "srcs/a.py", False),
        ("src/**", "lib/src/a.py", False),
        ("src", "src/a.py", True),
        ("src", "lib/src/a.py", True),
        ("/src", "lib/src/a.py", False),
        ("src/", "src/a", True),
        ("*.py", "a.py", True),
        ("*.py", "a/b/c.py", True),
        ("*.py", "a.pyc", False),
        ("/*.py", "a/b.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("src/**/test_*", "src/test_a", True),
        ("src/**/test_*", "src/a/b/test_a", True),
        ("**/secret", "a/b/secret", True),
        ("**", "anything/at/all", True),
        (".env", ".env", True),
        (".env", "a/.env", True),
        (".env*", ".env.local", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].txt", "a.txt", True),
        ("[!ab].txt", "c.txt", True),
        ("[!ab].txt", "a.txt", False),
        ("a.c", "abc", False),
        ("A.py", "a.py", False),
        ("src/**", "src/../etc/passwd", False),
        ("src/**", "./src/a", True),
        ("//etc/**", "/etc/passwd", True),
        ("//etc/**", "etc/passwd", False),
        ("etc/**", "/etc/passwd", False),
        ("a+b(c)", "a+b(c)", True),
    ],
)
def test_a_pattern_covers_what_git_would_ignore(spec: str, path: str, expected: bool) -> None:
    assert PathPattern.parse(spec).matches(path, "read") is expected


def test_an_operation_limits_a_pattern() -> None:
    pattern = PathPattern.parse("write:docs/**")

    assert pattern.matches("docs/a.md", "write")
    assert not pattern.matches("docs/a.md", "read")


@pytest.mark.parametrize("spec", ["", "/", "!a", "a/../b", "a\\b", "[a", "a\0", "read:"])
def test_a_pattern_that_can_match_no_path_is_an_error(spec: str) -> None:
    with pytest.raises(ConfigError):
        PathPattern.parse(spec)


def test_what_is_no_path_matches_nothing() -> None:
    assert not parse_pattern("path", "**").matches(None, "read")


def test_many_stars_take_no_time() -> None:
    assert not PathPattern.parse("*a" * 30 + "b").matches("a" * 60, "read")
