"""The `[mcp]` table and variables in it."""

from __future__ import annotations

import pytest

from hardpoint import structure
from hardpoint.errors import ConfigError
from hardpoint_mcp.config import McpConfig, ServerConfig, is_local
from hardpoint_mcp.expand import expand

VARIABLES = {"HOME": "/home/ana", "EMPTY": "", "TOKEN": "t0ken"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${HOME}/x", "/home/ana/x"),
        ("a ${TOKEN} b ${HOME}", "a t0ken b /home/ana"),
        ("${MISSING:-fallback}", "fallback"),
        ("${MISSING:-}", ""),
        ("${EMPTY:-used when empty}", "used when empty"),
        ("${EMPTY}", ""),
        ("$${HOME}", "${HOME}"),
        ("$HOME", "$HOME"),
        ("${not a name}", "${not a name}"),
        ("100$", "100$"),
        ("${HOME", "${HOME"),
    ],
)
def test_variables_are_replaced(text, expected):
    assert expand({"a": [text]}, VARIABLES, "here") == {"a": [expected]}


def test_all_missing_variables_are_named():
    with pytest.raises(ConfigError, match=r"server 's' uses .*: ONE, TWO") as caught:
        expand({"a": "${ONE}", "b": ["${TWO} ${ONE}"]}, VARIABLES, "server 's'")

    assert "${NAME:-default}" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1/x", True),
        ("http://127.0.0.1/x", True),
        ("http://127.8.8.8/x", True),
        ("http://[::1]:80/", True),
        ("http://app.localhost/", True),
        ("http://localhost.evil.example/", False),
        ("http://127.0.0.1.evil.example/", False),
        ("http://10.0.0.1/", False),
        ("http://evil.example/localhost", False),
    ],
)
def test_what_counts_as_this_machine(url, local):
    assert is_local(url) is local


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({}, "either command or url"),
        ({"command": "x", "url": "https://e.example"}, "either command or url"),
        ({"command": "x", "transport": "http"}, "needs url"),
        ({"url": "https://e.example", "transport": "stdio"}, "needs command"),
        ({"url": "https://e.example", "args": ["x"]}, "servers with a command"),
        ({"command": "x", "headers": {"A": "b"}}, "servers with a url"),
        ({"url": "http://e.example"}, "must use https"),
        ({"command": "x", "timeout": 0}, "more than 0"),
        ({"command": "x", "colour": "red"}, "colour"),
        ({"command": "x", "rate_limit": {"requests_per_minute": 0}}, "requests_per_minute"),
    ],
)
def test_a_server_that_cannot_be_meant_is_refused(server, problem):
    with pytest.raises(ConfigError, match=problem):
        structure({"servers": {"s": server}}, McpConfig, "mcp")


@pytest.mark.parametrize("name", ["", "a b", "../x", "a/b", "-x", "x" * 65])
def test_a_server_name_that_could_be_a_path_is_refused(name):
    with pytest.raises(ConfigError):
        structure({"servers": {name: {"command": "x"}}}, McpConfig, "mcp")


def test_values_that_may_be_secret_are_not_in_the_repr():
    shown = repr(ServerConfig(command="x", env={"TOKEN": "hidden-value"})) + repr(
        ServerConfig(url="https://e.example", headers={"Authorization": "hidden-value"})
    )

    assert "hidden-value" not in shown
