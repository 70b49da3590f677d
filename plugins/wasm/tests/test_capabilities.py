"""Capabilities files: IronClaw's keys, read strictly; what is granted of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint import ConfigError
from hardpoint_wasm.capabilities import Capabilities
from hardpoint_wasm.capability_file import schema

FILES = Path(__file__).parent / "capabilities"
FULL: dict[str, Any] = {
    "description": "Reads issues",
    "version": "0.2.1",
    "wit_version": "0.3.0",
    "parameters": {"type": "object", "properties": {"repo": {"type": "string"}}},
    "http": {
        "allowlist": [
            {"host": "api.example.com", "path_prefix": "/repos", "methods": ["GET", "post"]},
            {"host": "*.Example.ORG"},
        ],
        "credentials": {
            "token": {
                "secret_name": "Example_Token",
                "location": {"type": "bearer"},
                "host_patterns": ["api.example.com"],
            },
            "basic": {
                "secret_name": "pw",
                "location": {"type": "basic", "username": "bot"},
                "host_patterns": ["*.example.org"],
            },
            "header": {
                "secret_name": "h",
                "location": {"type": "header", "header_name": "X-Key", "prefix": "k "},
                "host_patterns": ["api.example.com"],
            },
            "query": {
                "secret_name": "q",
                "location": {"type": "query_param", "name": "key"},
                "host_patterns": ["api.example.com"],
            },
            "path": {
                "secret_name": "p",
                "location": {"type": "url_path", "placeholder": "{BOT}"},
                "host_patterns": ["api.example.com"],
            },
        },
        "rate_limit": {"requests_per_minute": 10},
        "max_request_bytes": 4_000_000,
        "max_response_bytes": 10_485_760,
        "timeout_secs": 15,
    },
    "secrets": {"allowed_names": ["example_*", "one"]},
    "tool_invoke": {"aliases": {"search": "web_search"}, "rate_limit": {"requests_per_hour": 5}},
    "workspace": {"allowed_prefixes": ["notes/", "daily"]},
    "webhook": {
        "secret_header": "X-Hook",
        "secret_name": "hook",
        "hmac_secret_name": "hook_key",
        "hmac_prefix": "sha256=",
    },
    "auth": {
        "secret_name": "example_token",
        "display_name": "Example",
        "oauth": {
            "authorization_url": "https://example.com/a",
            "token_url": "https://example.com/t",
            "client_id_env": "ID",
            "scopes": ["read"],
            "extra_params": {"access_type": "offline"},
        },
        "instructions": "Make a token",
        "setup_url": "https://example.com/tokens",
        "validation_endpoint": {"url": "https://example.com/me", "headers": {"A": "b"}},
    },
    "setup": {
        "required_secrets": [{"name": "one", "prompt": "Your key from example.com/keys page"}]
    },
}


def test_a_full_file_is_read_with_every_key() -> None:
    capabilities = Capabilities.from_json(json.dumps(FULL))

    assert capabilities.http is not None
    assert capabilities.http.timeout_cap == 15
    assert capabilities.http.rate_limit.requests_per_minute == 10
    assert capabilities.http.rate_limit.requests_per_hour == 1000
    assert len(capabilities.http.bindings()) == 5
    assert capabilities.permissions == (
        "http:api.example.com/repos GET,POST",
        "http:*.example.org",
        "secret:example_token",
        "secret:pw",
        "secret:h",
        "secret:q",
        "secret:p",
        "secret:example_*",
        "secret:one",
        "tool:search",
        "login:example.com",
        "env:ID",
        "validate:example.com",
        "webhook:",
        "workspace:notes/",
        "workspace:daily",
    )


def test_what_is_above_the_hard_caps_loads_under_them_and_says_so() -> None:
    capabilities = Capabilities.from_json(FULL)

    assert capabilities.http is not None
    assert capabilities.http.request_cap == 2 << 20
    assert capabilities.http.response_cap == 8 << 20
    assert any("max_response_bytes" in warning for warning in capabilities.warnings)
    assert any("max_request_bytes" in warning for warning in capabilities.warnings)


@pytest.mark.parametrize("path", sorted(FILES.glob("*.json")), ids=lambda path: path.stem)
def test_files_of_every_version_load_without_a_problem(path: Path) -> None:
    capabilities = Capabilities.from_json(path.read_bytes())

    assert capabilities.http is not None
    assert len(capabilities.http.bindings()) == len(capabilities.http.credentials) > 0
    assert capabilities.only(set(capabilities.permissions)).permissions == capabilities.permissions


def test_an_empty_file_grants_nothing() -> None:
    assert Capabilities.from_json("{}").permissions == ()
    assert Capabilities.from_json("{}") == Capabilities()


def test_a_nested_wrapper_is_lifted_and_the_outer_key_wins() -> None:
    nested = {
        "workspace": {"allowed_prefixes": ["outer"]},
        "capabilities": {
            "workspace": {"allowed_prefixes": ["inner"]},
            "capabilities": {"secrets": {"allowed_names": ["a"]}},
        },
    }

    capabilities = Capabilities.from_json(nested)

    assert capabilities.permissions == ("secret:a", "workspace:outer")


def test_wrappers_may_not_nest_without_end() -> None:
    nested: dict[str, Any] = {}
    for _ in range(9):
        nested = {"capabilities": nested}

    with pytest.raises(ConfigError, match="nested"):
        Capabilities.from_json(nested)


@pytest.mark.parametrize(("document", "words"), [
    ('{"htp": {}}', "htp"),
    ('{"http": {"allowlist": [{"host": "a.example", "port": 1}]}}', "port"),
    ('{"http": {"allowlist": [{}]}}', "host"),
    ('{"http": {"allowlist": [{"host": "https://a.example"}]}}', "https://a.example"),
    ('{"http": {"timeout_secs": "5"}}', "timeout_secs"),
    ('{"http": {"timeout_secs": NaN}}', "NaN"),
    ('{"http": {"max_request_bytes": -1}}', "max_request_bytes"),
    ('{"http": {"max_request_bytes": true}}', "max_request_bytes"),
    ('{"http": {"rate_limit": {"requests_per_minute": 0}}}', "requests_per_minute"),
    ('{"http": {"credentials": {"a": {"secret_name": "x"}}}}', "location"),
    ('{"http": {"credentials": {"a": {"secret_name": "x", "location": {"type": "cookie"}}}}}',
     "type"),
    ('{"http": {"credentials": {"a": {"secret_name": "x", "host_patterns": ["b.example"],'
     ' "location": {"type": "header"}}}}}', "needs a name"),
    ('{"http": {"credentials": {"a": {"secret_name": "x", "host_patterns": ["b.example"],'
     ' "location": {"type": "header", "name": "Host"}}}}}', "Host"),
    ('{"secrets": {"allowed_names": ["a*b"]}}', "allowed_names"),
    ('{"workspace": false}', "workspace"),
    ('{"type": "channel"}', "channel"),
    ('{"workspace": {}, "workspace": {"allowed_prefixes": ["a"]}}', "twice"),
    ("[]", "object"),
    ("{", "JSON"),
    ("[" * 100_000, "JSON"),
])  # fmt: skip
def test_what_cannot_be_followed_is_refused_and_says_where(document: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("*", ".")):
        Capabilities.from_json(document)


def test_a_long_description_is_cut_and_a_giant_schema_dropped() -> None:
    giant = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5000)}}

    capabilities = Capabilities.from_json({"description": "ä" * 5000, "parameters": giant})

    assert capabilities.description == "ä" * 4096
    assert capabilities.parameters is None
    assert len(capabilities.warnings) == 2


@given(st.sets(st.sampled_from(Capabilities.from_json(FULL).permissions)))
def test_what_was_granted_is_what_is_left(granted: set[str]) -> None:
    left = Capabilities.from_json(FULL).only(granted)

    # A variable of a login that was refused is of no use, so it goes with it.
    idle = {"env:ID"} if "login:example.com" not in granted else set()
    assert set(left.permissions) == granted - idle


def test_a_refused_list_of_prefixes_does_not_become_every_document() -> None:
    asked = Capabilities.from_json({"workspace": {"allowed_prefixes": ["notes"]}})

    assert asked.only(set()).workspace is None


@pytest.mark.parametrize(("name", "allowed"), [
    ("example_token", True), ("EXAMPLE_x", True), ("one", True), ("One", True),
    ("exampletoken", False), ("two", False), ("", False), ("*", False),
])  # fmt: skip
def test_secret_names_are_exact_or_a_prefix_in_any_letter_case(name: str, allowed: bool) -> None:
    secrets = Capabilities.from_json(FULL).secrets

    assert secrets is not None
    assert secrets.allows(name) is allowed


def test_the_published_schema_accepts_the_full_file() -> None:
    assert set(FULL) <= set(schema()["properties"])
