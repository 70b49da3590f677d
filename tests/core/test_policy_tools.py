"""Replay, suggestions and importers."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hardpoint.audit import read
from hardpoint.config import AuditConfig, Config, RuleEntry
from hardpoint.errors import ConfigError
from hardpoint.policy.importers import import_rules
from hardpoint.policy.replay import replay, suggest
from hardpoint.policy.rules import parse_rule
from hardpoint.testing import ScriptedApprover, make_context, make_runtime
from hardpoint.tools import ApprovalRequirement, Canonical, Subject, Tool, tool


class Runs(Tool):
    name = "run_it"
    description = "Run a command."
    subject_kind = "command"

    def parameters_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {"command": {"type": "string"}}}

    async def canonicalise(self, params: dict[str, Any], context: Any) -> Canonical:
        return Canonical(params, (Subject("command", params["command"]),))

    def requires_approval(self, params: Any) -> ApprovalRequirement:
        return ApprovalRequirement.UNLESS_AUTO_APPROVED

    async def execute(self, params: dict[str, Any], ctx: Any, /) -> Any:
        from hardpoint import ToolOutput

        return ToolOutput.text("ran")


@tool(approval="unless_auto_approved", sensitive=["token"])
async def send(to: str, token: str = "") -> str:
    """Send."""
    return to


async def recorded(folder: Path, answers: list[str], calls: list[tuple[str, Any]]) -> Any:
    config = Config(audit=AuditConfig(path=folder))
    async with make_runtime(
        tools=[Runs(), send], config=config, approver=ScriptedApprover(*answers)
    ) as rt:
        for name, params in calls:
            await rt.run(name, params, make_context())
        return rt.registry


def rules(**lists: list[Any]) -> list[Any]:
    return [
        parse_rule(RuleEntry(decision, spec))  # type: ignore[arg-type]
        for decision, specs in lists.items()
        for spec in specs
    ]


async def test_replay_lists_every_verdict_that_changes(tmp_path: Path) -> None:
    calls = [("run_it", {"command": c}) for c in ("git diff", "ls", "rm -rf /")]
    registry = await recorded(tmp_path, ["once", "no"], calls)
    records = list(read(tmp_path))

    same = replay(records, [], registry)
    other = replay(records, rules(allow=["run_it(git diff:*)"], deny=["run_it(ls)"]), registry)

    assert (same.judged, same.changes) == (3, ())
    assert [(c.before, c.now) for c in other.changes] == [("ask", "allow"), ("ask", "deny")]


async def test_replay_does_not_guess_what_was_redacted(tmp_path: Path) -> None:
    registry = await recorded(tmp_path, ["once"], [("send", {"to": "ben", "token": "t0p"})])
    records = list(read(tmp_path))

    hidden = replay(records, rules(deny=["send(token:t*)"]), registry)
    plain = replay(records, rules(deny=["send(to:b*)"]), registry)

    assert hidden.undecidable == 1
    assert plain.changes[0].now == "deny"


async def test_suggestions_are_small_and_never_for_what_always_asks(tmp_path: Path) -> None:
    commands = ["git diff --stat", "git diff", "ls -l", "rm -rf build", "cat x | wc -l"]
    answers = ["once"] * 4 + ["no"]
    await recorded(tmp_path, answers, [("run_it", {"command": c}) for c in commands])

    found = {each.rule: each.calls for each in suggest(read(tmp_path))}

    assert found["run_it(git diff:*)"] == 2
    assert found["run_it(ls:*)"] == 1
    assert not any("rm" in rule or "wc" in rule for rule in found)


class Opens(Runs):
    name = "open_it"
    subject_kind = "path"

    async def canonicalise(self, params: dict[str, Any], context: Any) -> Canonical:
        return Canonical(params, (Subject("path", params["command"], "read"),))


async def test_a_run_in_mode_auto_shows_what_rules_it_would_need(tmp_path: Path) -> None:
    config = Config(audit=AuditConfig(path=tmp_path))
    commands = ["git -C x diff", "python build.py", "npm run test -- -v", "rm -rf build", "ls"]
    paths = ["src/a.py", "src/b.py", "docs/x.md", "README.md"]
    async with make_runtime(tools=[Runs(), Opens()], config=config, allow=["run_it(ls:*)"]) as rt:
        for name, values in (("run_it", commands), ("open_it", paths)):
            for value in values:
                await rt.run(name, {"command": value}, make_context(mode="auto"))

    found = [each.rule for each in suggest(read(tmp_path))]

    assert found == [
        "open_it(README.md)",
        "open_it(docs/x.md)",
        "open_it(src/**)",
        "run_it(git -C x diff)",
        "run_it(npm run test:*)",
        "run_it(python build.py)",
    ]
    for rule in found:
        parse_rule(RuleEntry("allow", rule))


CLAUDE = json.dumps(
    {
        "permissions": {
            "allow": ["Bash(git diff:*)", "Read(src/**)", "mcp__time", "mcp__time__now"],
            "ask": ["WebFetch(domain:example.com)", "NotebookEdit"],
            "deny": ["Bash(curl:*)", "Read(~/.ssh/**)"],
        }
    }
)
CODEX = """
prefix_rule(
    pattern = ["git", ["push", "fetch"]],
    decision = "prompt",
    justification = "it reaches the network",
)
prefix_rule(pattern = ["rm"], decision = "forbidden", match = ["rm x", ["rm", "-r", "y"]])
"""
GEMINI = """
[[rule]]
toolName = "run_shell_command"
commandPrefix = ["git status", "git log"]
decision = "allow"
priority = 10
[[rule]]
toolName = "replace"
decision = "deny"
denyMessage = "read only today"
[[rule]]
toolName = "glob"
argsPattern = "secret"
decision = "allow"
"""
INSPECT = """
approvers:
  - name: human
    tools: ["web_*", "run_it"]
  - name: auto
    tools: "*"
"""


@pytest.mark.parametrize(
    ("kind", "text", "expected", "notes"),
    [
        (
            "claude",
            CLAUDE,
            {
                "allow": [
                    "shell(git diff:*)", "read_file(src/**)", "list_dir(src/**)", "grep(src/**)",
                    "glob(src/**)", "time__*", "time__now",
                ],
                "ask": ["web_fetch(domain:example.com)", "http(domain:example.com)"],
                "deny": ["shell(curl:*)"],
            },
            ["NotebookEdit", "workspace"],
        ),
        (
            "codex",
            CODEX,
            {
                "ask": [
                    {"tool": "shell(git push:*)", "reason": "it reaches the network"},
                    {"tool": "shell(git fetch:*)", "reason": "it reaches the network"},
                ],
                "deny": [{"tool": "shell(rm:*)", "match": ["rm x", "rm -r y"]}],
            },
            [],
        ),
        (
            "gemini",
            GEMINI,
            {
                "allow": ["shell(git status:*)", "shell(git log:*)"],
                "deny": [{"tool": "apply_patch", "reason": "read only today"}],
            },
            ["priority", "argsPattern"],
        ),
        ("inspect", INSPECT, {"ask": ["web_*", "run_it"], "allow": ["*"]}, []),
    ],
)  # fmt: skip
def test_other_programs_permissions_become_rules(
    kind: str, text: str, expected: dict[str, Any], notes: list[str]
) -> None:
    imported = import_rules(text, kind)

    assert tomllib.loads(imported.to_toml())["policy"] == expected
    for note in notes:
        assert any(note in each for each in imported.notes)
    for decision, spec in imported.rules:
        parse_rule(RuleEntry(decision, spec))


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini", "inspect"])
def test_a_file_of_another_kind_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match=kind):
        import_rules("{[", kind)


@pytest.mark.parametrize(
    ("kind", "text", "note"),
    [
        (
            "claude",
            '{"permissions": {"defaultMode": "bypassPermissions", "deny": ["Read(~/.ssh/**)"],'
            ' "allow": ["Bash(a\\u0007b)", "Skill(x)"], "additionalDirectories": ["/x"]}}',
            ["defaultMode", "workspace", "control character", "Skill", "additionalDirectories"],
        ),
        ("codex", 'prefix_rule(pattern=["ls", "*.py"])\nprint(1)', ["star", "line 2"]),
        (
            "gemini",
            '[[rule]]\ntoolName = "glob"\ndecision = "deny"\ncommandRegex = "x"',
            ["commandRegex is not carried over; the rule is broader"],
        ),
        ("inspect", "approvers:\n  - name: model\n    tools: x", ["Approver plugin"]),
    ],
)
def test_what_has_no_meaning_here_is_said(kind: str, text: str, note: list[str]) -> None:
    imported = import_rules(text, kind)

    for part in note:
        assert any(part in each for each in imported.notes), imported.notes
    assert tomllib.loads(imported.to_toml())


def test_what_may_be_fetched_may_not_be_posted_to() -> None:
    text = '{"permissions": {"allow": ["WebFetch(domain:a.example)", "WebFetch"]}}'

    rules = [spec for _, spec in import_rules(text, "claude").rules]

    assert rules == [
        "web_fetch(domain:a.example)", "http(GET domain:a.example)", "web_fetch",
        "http(method:GET)",
    ]  # fmt: skip


def test_a_file_cannot_make_a_million_rules() -> None:
    words = "[" + ", ".join(f'"{letter}"' for letter in "abcdefghij") + "]"
    with pytest.raises(ConfigError, match="too many prefixes"):
        import_rules(f"prefix_rule(pattern=[{', '.join([words] * 12)}])", "codex")


async def test_a_caller_with_rights_is_judged_again_with_them(tmp_path: Path) -> None:
    config = Config(audit=AuditConfig(path=tmp_path))
    async with make_runtime(tools=[send], config=config, origin="gateway") as rt:
        for context in (
            make_context(auto_approve=True),
            make_context(autonomous=True, mode="auto"),
            make_context(mode="plan"),
            make_context(interactive=False),
        ):
            await rt.run("send", {"to": "ben"}, context)
        registry = rt.registry
    records = list(read(tmp_path))

    same = replay(records, [], registry)
    by_origin = rules(deny=[{"tool": "send", "when": {"origin": "gateway"}}])
    other = replay(records, by_origin, registry)

    assert (same.judged, same.changes) == (4, ())
    assert [change.now for change in other.changes] == ["deny"] * 3
