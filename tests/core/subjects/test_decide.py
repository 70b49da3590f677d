"""What rules make of a command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from hardpoint.errors import ConfigError
from hardpoint.subjects import CommandPattern, decide_command

CASES = Path(__file__).with_name("rules.jsonl").read_text("utf-8").splitlines()


@attrs.frozen
class Rule:
    """What the policy hands over: anything with a SPEC."""

    spec: str | None
    source: str = "policy.toml:3"


@pytest.mark.parametrize(
    "case", [json.loads(line) for line in CASES], ids=lambda case: case["command"][:40]
)
def test_rules_are_read_as_they_are_documented(case: dict[str, Any]) -> None:
    rules = {
        word: [CommandPattern.parse(spec) for spec in case.get(word, ())]
        for word in ("allow", "ask", "deny")
    }

    answer = decide_command(case["command"], **rules)

    assert (answer.verdict or "ask") in case["expect"], answer.reasons


def test_a_reason_carries_the_rule_that_was_handed_in() -> None:
    rule = Rule("curl:*")

    answer = decide_command("ls; env curl x.example.com", [Rule(None)], [], [rule])

    assert answer.verdict == "deny"
    assert [(r.rule is rule, r.segment) for r in answer.reasons] == [(True, "curl x.example.com")]


def test_what_no_rule_covers_is_named() -> None:
    answer = decide_command("git add . && npm publish", [Rule("git:*")])

    assert answer.verdict is None
    assert [r.segment for r in answer.reasons] == ["npm publish"]


def test_no_rule_at_all_settles_nothing() -> None:
    assert decide_command("ls").verdict is None


def test_the_floor_needs_no_rule() -> None:
    answer = decide_command("rm -rf /", [Rule("rm -rf /")])

    assert answer.verdict == "deny"
    assert answer.reasons[0].rule is None


@pytest.mark.parametrize("spec", ["", "  ", "ls\x07", "\0"])
def test_a_pattern_that_can_match_nothing_is_an_error(spec: str) -> None:
    with pytest.raises(ConfigError):
        CommandPattern.parse(spec)
