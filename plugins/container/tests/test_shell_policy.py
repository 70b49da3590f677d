"""What the policy is told about a call of `shell`."""

from __future__ import annotations

from typing import Any

import pytest

from hardpoint import ApprovalRequirement
from hardpoint.errors import InvalidParameters
from hardpoint_container.shell_policy import canonicalise_command, requirement_of


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"command": "ls"}, "unless_auto_approved"),
        ({"command": "RM -RF build"}, "always"),
        ({"command": "rm -rf /"}, "always"),
        ({"command": ["rm", "-rf", "build"]}, "always"),
        ({"command": ["echo", "rm -rf build; rm -rf /"]}, "unless_auto_approved"),
        ('{"command": "rm -rf build"}', "always"),
        ('{"command": "ls"}', "unless_auto_approved"),
        ("no JSON", "always"),
        ({}, "always"),
    ],
)
def test_every_form_of_the_arguments_is_judged(params: Any, expected: str) -> None:
    assert requirement_of(params) is ApprovalRequirement(expected)


def test_the_command_is_the_subject() -> None:
    canonical = canonicalise_command({"command": "ls -la", "timeout": 5})

    assert canonical.params == {"command": "ls -la", "timeout": 5}
    assert [(s.kind, s.value) for s in canonical.subjects] == [("command", "ls -la")]


@pytest.mark.parametrize(
    "params",
    [{}, {"command": ""}, {"command": "  "}, {"command": None}, {"command": []}, {"command": 5},
     {"command": ["ls", 1]}, {"command": "ls\0"}, {"command": "ls \ud800"}, {"command": [""]},
     "[1]", "{"],
)  # fmt: skip
def test_what_is_no_command_is_refused_before_the_policy_is_asked(params: Any) -> None:
    with pytest.raises(InvalidParameters):
        canonicalise_command(params)
