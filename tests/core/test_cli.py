"""The command line: what it prints where, and how it ends."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from hardpoint.cli.app import COMMANDS, run

Install = Callable[..., str]

# One tool for each way in which a call can end.
ENDINGS = """
    import asyncio
    import sys
    from datetime import timedelta
    import hardpoint
    from hardpoint import ToolError

    HARDPOINT_API = 1

    ENDINGS = {
        "execution_failed": ToolError.ExecutionFailed("it failed"),
        "external_service": ToolError.ExternalService("the service is down"),
        "sandbox": ToolError.Sandbox("out of memory"),
        "rate_limited": ToolError.RateLimited(timedelta(seconds=7)),
        "budget_exceeded": hardpoint.BudgetExceeded("nothing left"),
        "timeout": ToolError.Timeout(timedelta(seconds=3)),
        "domain_unavailable": hardpoint.DomainUnavailable("no such place"),
    }

    async def end(kind: str) -> str:
        '''End in some way.'''
        raise ENDINGS[kind]

    async def typed(
        count: int = 0, ratio: float = 0.0, on: bool = False, tags: list[str] = [], text: str = ""
    ) -> dict:
        '''Give back what came in.'''
        return {"count": count, "ratio": ratio, "on": on, "tags": tags, "text": text}

    async def wait(seconds: float) -> str:
        '''Wait.'''
        print("waiting", file=sys.stderr, flush=True)
        await asyncio.sleep(seconds)
        return "done"

    async def shown() -> object:
        '''Give text and a picture.'''
        picture = hardpoint.Image(b"x", "image/png")
        return hardpoint.ToolOutput.text("a\\x1b[31mb").with_parts(picture)

    async def asks(x: int) -> int:
        '''Ask first.'''
        return x

    async def broken() -> str:
        '''Fail by mistake.'''
        return 1 / 0

    @hardpoint.hookimpl
    def hardpoint_register_tools(registry):
        for function in (end, typed, wait, shown, broken):
            registry.register(hardpoint.tool(function, effects=()))
        registry.register(hardpoint.tool(asks, approval="unless_auto_approved", effects=()))
        registry.register(hardpoint.tool(asks, name="always_asks", approval="always", effects=()))
"""


@attrs.frozen
class Shown:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Shown]


@pytest.fixture
def cli(
    home: Path,
    install: Install,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Cli:
    """Run a command in this process, with the plugin `endings` and nothing else installed."""
    install("endings", ENDINGS)
    monkeypatch.setenv("HARDPOINT_LOAD_PLUGINS", "endings")

    def command(*arguments: str, stdin: str = "") -> Shown:
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = run(list(arguments))
        shown = capsys.readouterr()
        return Shown(code, shown.out, shown.err)

    return command


def settings(home: Path) -> dict[str, Any]:
    return tomllib.loads((home / "config" / "config.toml").read_text("utf-8"))


def write_settings(home: Path, text: str) -> Path:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


# files -----------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    "command",
    [
        ("call", "typed", "text=hi"),
        ("call", "nowhere"),
        ("approvals", "list"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_a_run_leaves_no_file_of_its_state_open(
    cli: Cli, home: Path, command: Sequence[str]
) -> None:
    cli(*command)

    assert not open_files(home)


def open_files(folder: Path) -> list[str]:
    """The files below a folder that this process has open."""
    held = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own is closed by now
            held.append(os.readlink(f"/proc/self/fd/{number}"))
    return [name for name in held if name.startswith(str(folder))]


# call ------------------------------------------------------------------------------------------


def test_a_result_is_all_that_stands_on_stdout(cli: Cli) -> None:
    shown = cli("call", "typed", "text=hi")

    assert (shown.code, shown.err) == (0, "")
    assert shown.json["text"] == "hi"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("execution_failed", 1),
        ("external_service", 1),
        ("sandbox", 1),
        ("rate_limited", 5),
        ("budget_exceeded", 5),
        ("timeout", 124),
        ("domain_unavailable", 126),
    ],
)
def test_each_kind_of_error_has_its_exit_code(cli: Cli, kind: str, code: int) -> None:
    shown = cli("call", "end", f"kind={kind}")

    assert (shown.code, shown.out) == (code, "")
    assert shown.err.startswith("error: ")
    assert "Traceback" not in shown.err


def test_bad_arguments_end_2_and_every_problem_is_listed(cli: Cli) -> None:
    shown = cli("call", "typed", "count=many", "onn=1", "ratio=x")

    assert (shown.code, shown.out) == (2, "")
    assert all(path in shown.err for path in ("/count", "/onn", "/ratio"))
    assert "did you mean 'on'" in shown.err


def test_an_unknown_tool_ends_127_and_suggests_the_nearest(cli: Cli) -> None:
    shown = cli("call", "tipped")

    assert shown.code == 127
    assert "did you mean 'typed'" in shown.err


def test_a_denied_call_ends_3_and_names_the_rule_with_its_line(cli: Cli, home: Path) -> None:
    file = write_settings(home, '[policy]\ndeny = [\n  "typed(count:7)",\n]\n')

    shown = cli("call", "typed", "count=7")

    assert shown.code == 3
    assert "typed(count:7)" in shown.err
    assert f"{file}:3" in shown.err
    assert cli("call", "typed", "count=8").code == 0


def test_a_tool_that_is_off_ends_3(cli: Cli, home: Path) -> None:
    write_settings(home, "[tools.typed]\nenabled = false\n")

    shown = cli("call", "typed")

    assert shown.code == 3
    assert "config.toml:2" in shown.err


def test_nobody_to_ask_ends_4_with_an_id_to_answer(cli: Cli) -> None:
    shown = cli("call", "asks", "x=1", "--json")

    assert shown.code == 4
    assert shown.json["error"]["kind"] == "approval_required"
    assert shown.json["error"]["approval_id"].startswith("ap_")


def test_yes_answers_what_the_session_could_and_never_what_always_asks(cli: Cli) -> None:
    assert cli("call", "asks", "x=1", "--yes").out == "1\n"
    assert cli("call", "always_asks", "x=1", "--yes").code == 4


def test_an_answer_from_elsewhere_lets_the_call_through_once(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = cli("call", "always_asks", "x=1", "--json").json["error"]["approval_id"]
    assert approval in cli("approvals", "list").out
    refused = cli("approvals", "answer", approval, "yes")
    give_token(home, monkeypatch)
    answered = cli("approvals", "answer", approval, "yes")

    assert refused.code == 3
    assert answered.code == 0
    assert cli("call", "always_asks", "x=1").out == "1\n"
    assert cli("call", "always_asks", "x=1").code == 4


def test_a_limit_that_is_used_up_ends_5_across_processes(cli: Cli, home: Path) -> None:
    write_settings(
        home, "[tools.typed]\nrate_limit = { requests_per_minute = 1, requests_per_hour = 5 }\n"
    )

    first, second = cli("call", "typed"), cli("call", "typed", "--json")

    assert (first.code, second.code) == (0, 5)
    assert 0 < second.json["error"]["retry_after"] <= 60


def test_a_time_out_of_the_caller_ends_124(cli: Cli) -> None:
    shown = cli("call", "wait", "seconds=30", "--timeout", "0.05")

    assert shown.code == 124


def test_bad_configuration_ends_78_with_file_line_and_the_nearest_key(cli: Cli, home: Path) -> None:
    file = write_settings(home, "[policy]\n\ndenny = []\n")

    shown = cli("call", "typed")

    assert shown.code == 78
    assert f"{file}:3" in shown.err
    assert "deny" in shown.err


def test_a_mistake_inside_a_tool_is_one_line(cli: Cli) -> None:
    shown = cli("call", "broken")

    assert (shown.code, shown.err) == (1, "error: ZeroDivisionError: division by zero\n")


def test_the_shape_of_a_success(cli: Cli) -> None:
    shown = cli("call", "typed", "count=2", "--json").json

    assert list(shown) == [
        "ok", "tool", "call_id", "result", "cost", "duration_ms", "truncated", "result_ref",
        "warnings",
    ]  # fmt: skip
    assert (shown["ok"], shown["tool"], shown["result"]["count"]) == (True, "typed", 2)


def test_the_shape_of_a_failure(cli: Cli) -> None:
    shown = cli("call", "typed", "count=x", "--json").json

    assert list(shown) == ["ok", "tool", "call_id", "error"]
    assert list(shown["error"]) == [
        "kind", "message", "hint", "issues", "retry_after", "approval_id", "decision",
    ]  # fmt: skip
    assert list(shown["error"]["issues"][0]) == ["path", "code", "expected", "received"]


@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (["count=5"], "count", 5),
        (["ratio=1e3"], "ratio", 1000.0),
        (["on=true"], "on", True),
        (["text=5"], "text", "5"),
        (["text="], "text", ""),
        (["text=a=b"], "text", "a=b"),
        (["tags=a"], "tags", ["a"]),
        (["tags=a", "tags=b"], "tags", ["a", "b"]),
        (['tags=["a", "b"]'], "tags", ["a", "b"]),
        (['tags:=["a"]'], "tags", ["a"]),
        (["count:=5"], "count", 5),
        (["--input", '{"count": 3}'], "count", 3),
        (["--input", '{"count": 3}', "text=x"], "text", "x"),
    ],
)
def test_arguments_are_typed_by_the_schema(
    cli: Cli, arguments: Sequence[str], key: str, value: object
) -> None:
    assert cli("call", "typed", *arguments).json[key] == value


def test_arguments_come_from_a_file_and_from_stdin(cli: Cli) -> None:
    Path("in.json").write_text('{"count": 4}')

    assert cli("call", "typed", "--input", "@in.json").json["count"] == 4
    assert cli("call", "typed", "--input", "-", stdin='{"count": 5}').json["count"] == 5


@pytest.mark.parametrize(
    "arguments",
    [
        ["--input", "{"],
        ["--input", "@missing.json"],
        ["--input", "[1]", "text=x"],
        ["text"],
        ["=x"],
        ["count:=x"],
        ["--timeout", "-1"],
        ["--workspace", "/does/not/exist"],
        ["--nonsense"],
    ],
)
def test_a_mistake_on_the_command_line_ends_2(cli: Cli, arguments: Sequence[str]) -> None:
    shown = cli("call", "typed", *arguments)

    assert (shown.code, shown.out) == (2, "")
    assert "Traceback" not in shown.err


def test_parts_are_described_and_control_characters_stay_out_of_a_terminal(cli: Cli) -> None:
    shown = cli("call", "shown")

    assert "image" in shown.out
    assert at_a_terminal(["call", "shown"]).count("\x1b") == 0


# tools -----------------------------------------------------------------------------------------


def test_tools_are_listed_with_where_they_run_and_whose_they_are(cli: Cli) -> None:
    names = [tool["name"] for tool in cli("tools", "list", "--json").json]

    assert names == sorted(names)
    assert {"typed", "end", "result_read"} <= set(names)
    assert "acme-endings" in cli("tools").out


@pytest.mark.parametrize(
    ("provider", "place"),
    [
        ("openai", ["function", "name"]),
        ("openai-strict", ["function", "strict"]),
        ("openai-responses", ["name"]),
        ("anthropic", ["input_schema"]),
        ("mcp", ["inputSchema"]),
    ],
)
def test_definitions_come_in_a_providers_shape(cli: Cli, provider: str, place: list[str]) -> None:
    listed = cli("tools", "list", "--format", provider).json
    one: Any = cli("tools", "info", "typed", "--format", provider).json

    assert one in listed
    for key in place:
        one = one[key]


def test_gemini_takes_all_tools_in_one(cli: Cli) -> None:
    shown = cli("tools", "list", "--format", "gemini").json

    assert "typed" in json.dumps(shown)


def test_one_tool_with_its_parameters(cli: Cli) -> None:
    shown = cli("tools", "info", "typed")
    told = cli("tools", "info", "typed", "--json").json

    assert "count" in shown.out
    assert told["parameters"]["properties"]["count"]["type"] == "integer"
    assert told["effects"] == []
    assert cli("tools", "info", "tiped").code == 127


def test_a_search_finds_by_words(cli: Cli) -> None:
    found = [tool["name"] for tool in cli("tools", "search", "give", "back", "--json").json]

    assert found[0] == "typed"
    assert cli("tools", "search", "zebra", "--json").json == []


def test_a_listing_follows_every_change(cli: Cli, home: Path, install: Install) -> None:
    def names() -> set[str]:
        return {tool["name"] for tool in cli("tools", "list", "--json").json}

    before = names()
    write_settings(home, "[tools.typed]\nenabled = false\n")
    after = names()
    without = {tool["name"] for tool in cli("-p", "no:endings", "tools", "list", "--json").json}

    assert before - after == {"typed"}
    assert without == {"result_read"}


# plugins ---------------------------------------------------------------------------------------


def test_plugins_are_listed_with_status_and_reason(cli: Cli, install: Install) -> None:
    install("crash", "raise RuntimeError('no luck')")
    os.environ["HARDPOINT_LOAD_PLUGINS"] = "endings,crash"

    records = {each["name"]: each for each in cli("plugins", "list", "--json").json}

    assert records["endings"]["status"] == "active"
    assert records["crash"]["status"] == "failed"
    assert "no luck" in records["crash"]["reason"]
    assert "no luck" in cli("plugins").out
    assert cli("call", "typed").code == 0


def test_one_plugin_in_detail(cli: Cli) -> None:
    told = cli("plugins", "info", "endings", "--json").json
    unknown = cli("plugins", "info", "endigs")

    assert told["tools"] == [
        "always_asks", "asks", "broken", "end", "shown", "typed", "wait",
    ]  # fmt: skip
    assert "acme-endings" in cli("plugins", "info", "endings").out
    assert unknown.code == 1
    assert "did you mean 'endings'" in unknown.err


def test_a_switched_off_plugin_is_not_imported(cli: Cli, home: Path) -> None:
    file = write_settings(home, '# mine\n[plugins]  # switches\ndisabled = ["other"] # why\n')

    off = cli("plugins", "disable", "endings")
    sys.modules.pop("plugin_acme_endings", None)
    listed = cli("plugins", "list")

    assert off.code == 0
    assert settings(home)["plugins"]["disabled"] == ["other", "endings"]
    assert "blocked" in listed.out
    assert f"{file}:3" in listed.out
    assert "plugin_acme_endings" not in sys.modules
    assert cli("call", "typed").code == 127
    assert cli("plugins", "enable", "endings").code == 0
    assert cli("call", "typed").code == 0
    assert file.read_text() == '# mine\n[plugins]  # switches\ndisabled = ["other"] # why\n'


@pytest.mark.parametrize("switch", ["no:endigns", "endigns"])
def test_a_switch_for_a_plugin_that_is_not_installed_is_refused(cli: Cli, switch: str) -> None:
    shown = cli("-p", switch, "tools", "list")

    assert shown.code == 2
    assert not shown.out
    assert "no plugin 'endigns' is installed; did you mean 'endings'?" in shown.err


def test_a_variable_that_names_a_plugin_that_is_not_installed_is_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARDPOINT_LOAD_PLUGINS", "endings,endigns")

    shown = cli("call", "typed", "text=hi")

    assert shown.code == 78
    assert "HARDPOINT_LOAD_PLUGINS names 'endigns'" in shown.err


def test_a_single_tool_is_switched_in_the_projects_file(cli: Cli) -> None:
    off = cli("plugins", "disable", "typed", "--project")
    refused = cli("call", "typed")
    on = cli("plugins", "enable", "typed", "--project")

    assert (off.code, refused.code, on.code) == (0, 3, 0)
    assert tomllib.loads(Path(".hardpoint/config.toml").read_text())["tools"] == {
        "typed": {"enabled": True}
    }
    assert cli("call", "typed").code == 0


def test_what_is_not_there_cannot_be_switched(cli: Cli) -> None:
    shown = cli("plugins", "disable", "endinks")

    assert shown.code == 1
    assert "did you mean 'endings'" in shown.err


def test_a_plugin_that_something_stronger_keeps_off_says_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARDPOINT_LOAD_PLUGINS", "")

    shown = cli("plugins", "enable", "endings")

    assert "stays off" in shown.err
    assert "HARDPOINT_LOAD_PLUGINS" in shown.err


# config ----------------------------------------------------------------------------------------


def test_the_configuration_in_force_with_its_sources(cli: Cli, home: Path) -> None:
    file = write_settings(home, "[output]\nmax_bytes = 5000\n")

    shown = cli("config", "show")
    told = cli("config", "show", "--json").json

    assert f"output.max_bytes = 5000  ({file}:2)" in shown.out
    assert "output.leak_scan = true  (default)" in shown.out
    assert told["output"]["max_bytes"] == 5000
    assert told["sources"]["output.max_bytes"] == f"{file}:2"


def test_a_first_file_is_written_once(cli: Cli, home: Path) -> None:
    wrote = cli("config", "init")
    again = cli("config", "init")

    assert wrote.code == 0
    assert settings(home)["policy"] == {"allow": [], "ask": [], "deny": []}
    assert again.code == 1
    assert cli("config", "init", "--project").code == 0
    assert str(home / "config" / "config.toml") in cli("config", "path").out


def test_the_schema_covers_the_core_and_the_plugins(cli: Cli, install: Install) -> None:
    install(
        "weather",
        """
        import attrs, hardpoint
        HARDPOINT_API = 1

        @attrs.frozen
        class Settings:
            units: str = "metric"

        @hardpoint.hookimpl
        def hardpoint_config_type():
            return Settings
        """,
    )
    os.environ["HARDPOINT_LOAD_PLUGINS"] = "weather"

    schema = cli("config", "schema").json

    assert schema["properties"]["policy"]
    assert "units" in json.dumps(schema["properties"]["plugin"])


def test_trust_needs_a_person_and_belongs_to_one_content(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Path(".hardpoint/config.toml")
    project.parent.mkdir()
    project.write_text('[policy]\nallow = ["always_asks(x:1)"]\n')

    refused = cli("config", "trust", "--yes")
    before = cli("call", "always_asks", "x=1")
    give_token(home, monkeypatch)
    trusted = cli("config", "trust", "--yes")
    after = cli("call", "always_asks", "x=1")
    project.write_text('[policy]\nallow = ["always_asks(x:1)"]\n# changed\n')
    changed = cli("call", "always_asks", "x=1")

    assert refused.code == 3
    assert before.code == 4
    assert "not trusted" in before.err
    assert trusted.code == 0
    assert after.code == 0
    assert changed.code == 4


def give_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's token, as somebody without a terminal has it."""
    file = home / "config" / "operator-token"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("let-me")
    file.chmod(0o600)
    monkeypatch.setenv("HARDPOINT_OPERATOR_TOKEN", "let-me")


@pytest.mark.parametrize("how", ["wrong", "readable", "inside"])
def test_a_token_that_proves_nothing_is_refused(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    give_token(home, monkeypatch)
    Path(".hardpoint").mkdir()
    Path(".hardpoint/config.toml").write_text("")
    if how == "wrong":
        monkeypatch.setenv("HARDPOINT_OPERATOR_TOKEN", "guess")
    elif how == "readable":
        (home / "config" / "operator-token").chmod(0o644)
    else:
        monkeypatch.setenv("HARDPOINT_INSIDE_CALL", "1")

    assert cli("config", "trust", "--yes").code == 3


# policy, doctor, demo, new ---------------------------------------------------------------------


def test_a_decision_is_explained_without_a_call(cli: Cli, home: Path) -> None:
    write_settings(home, '[policy]\nask = ["typed"]\n')

    told = cli("policy", "check", "typed", "count=1", "--json")
    explained = cli("explain", "typed", '{"count": 1}', "--json").json

    assert told.code == 0
    assert list(told.json) == ["tool", "requirement", "decision", "reasons"]
    assert told.json["decision"] == "ask"
    assert list(told.json["reasons"][0]) == ["rule", "source", "segment", "why"]
    assert explained["decision"] == "ask"
    assert "ask typed" in explained["rules"][0]


def test_an_explanation_for_a_person_is_plain_lines(cli: Cli) -> None:
    shown = cli("explain", "typed", json.dumps({"count": 1, "on": True, "text": "a\ndecision: b"}))

    lines = shown.out.splitlines()
    assert lines[lines.index("params:") + 1 :][:2] == ["  count: 1", "  on: yes"]
    assert [line for line in lines if line.startswith("decision:")] == ["decision: allow"]
    assert "{'" not in shown.out
    assert "True" not in shown.out


def test_a_batch_answers_line_by_line_and_survives_bad_lines(cli: Cli) -> None:
    rows = [
        {"id": 1, "tool": "typed", "params": {}, "rules": {"deny": ["typed"]}},
        {"id": 2, "tool": "typed", "params": {}, "rules": {"deny": []}},
        {"id": 3, "tool": "nothing", "params": {}},
        {"id": 4, "tool": "typed", "params": {}, "rules": {"denny": []}},
    ]
    lines = "\n".join(["not json", *map(json.dumps, rows)])

    answers = [
        json.loads(line) for line in cli("policy", "check", "--batch", stdin=lines).out.splitlines()
    ]

    assert answers[0]["error"]["kind"] == "usage"
    assert [(a["id"], a.get("decision")) for a in answers[1:3]] == [(1, "deny"), (2, "allow")]
    assert answers[3]["error"]["kind"] == "not_found"
    assert answers[4]["error"]["kind"] == "config"


def test_doctor_tries_what_it_reports(cli: Cli) -> None:
    shown = cli("doctor", "--json")

    results = {each["name"]: each["status"] for each in shown.json}
    assert shown.code == 0
    assert set(results.values()) <= {"ok", "skipped"}
    assert {"configuration", "state", "audit", "network guard", "approvals"} <= set(results)
    assert cli("doctor", "audit").out.count("\n") == 2


def test_doctor_goes_on_when_the_secrets_cannot_be_read(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(home, '[secrets]\nstores = ["file"]\nkey = "passphrase"\n')
    give_token(home, monkeypatch)
    monkeypatch.setenv("HARDPOINT_PASSPHRASE", "correct horse")
    assert cli("secrets", "set", "api_key", stdin="synthetic-value").code == 0
    monkeypatch.delenv("HARDPOINT_PASSPHRASE")

    alone = cli("doctor", "python")
    shown = cli("doctor")
    called = cli("call", "typed", "text=hi")

    assert (alone.code, shown.code, called.code) == (0, 1, 78)
    failed = [line for line in shown.out.splitlines() if line.startswith("NO ")]
    assert len(failed) == 1
    assert failed[0].startswith("NO  secrets: ")
    assert "1 failed (NO)" in shown.out.splitlines()[-1]
    assert "leak scan must know" in called.err
    assert "set HARDPOINT_PASSPHRASE" in called.err


def test_a_secret_is_not_asked_for_when_nothing_can_keep_it(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Untouched(io.StringIO):
        def read(self, size: int | None = -1, /) -> str:
            raise AssertionError("nobody has to give the value")

    give_token(home, monkeypatch)
    monkeypatch.setattr("io.StringIO", Untouched)

    shown = cli("secrets", "set", "api_key")

    assert shown.code == 78
    assert 'key = "passphrase"' in shown.err


def test_doctor_names_what_takes_protection_away(cli: Cli, home: Path) -> None:
    write_settings(
        home,
        """
[policy]
mode = "auto"
allow = ["typed", "typed(count:1)"]
[network]
allow_private = ["10.0.0.0/8"]
[output]
leak_scan = false
""",
    )

    shown = cli("doctor", "configuration", "--json")

    assert shown.code == 0
    assert [each["status"] for each in shown.json].count("warning") == 4
    text = shown.out
    assert all(word in text for word in ("auto", "config.toml:4", "10.0.0.0/8", "leak_scan"))


def test_doctor_names_a_plugin_that_failed(cli: Cli, install: Install) -> None:
    install("crash", "raise RuntimeError('no luck')")
    os.environ["HARDPOINT_LOAD_PLUGINS"] = "crash"

    shown = cli("doctor", "plugins")

    assert shown.code == 1
    assert "no luck" in shown.out


def test_a_new_plugin_is_written_where_it_is_asked_for(cli: Cli) -> None:
    shown = cli("new", "acme-weather")

    assert shown.code == 0
    assert Path("acme-weather/pyproject.toml").exists()
    assert cli("new", "acme-weather").code == 1
    assert cli("new", "Not A Name").code == 1


# the program itself ----------------------------------------------------------------------------


def test_every_command_has_help(cli: Cli) -> None:
    shown = cli("--help")

    assert shown.code == 0
    listed = re.findall(r"^  ([a-z]+)  ", shown.out, re.M)
    assert set(listed) <= set(COMMANDS)
    for name in listed:
        assert cli(name, "--help").code == 0, name


@pytest.mark.parametrize(
    ("given", "meant"),
    [(["coll"], "call"), (["tools", "lst"], "list"), (["plugins", "disabel"], "disable")],
)
def test_a_mistyped_command_suggests_the_nearest(
    cli: Cli, given: Sequence[str], meant: str
) -> None:
    shown = cli(*given)

    assert shown.code == 2
    assert meant in shown.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(cli: Cli, shell: str) -> None:
    assert "_HARDPOINT_COMPLETE" in cli("completion", shell).out


def test_words_are_completed() -> None:
    shown = program(
        [],
        env={
            "_HARDPOINT_COMPLETE": "bash_complete",
            "COMP_WORDS": "hardpoint plu",
            "COMP_CWORD": "1",
        },
    )

    assert "plugins" in shown.stdout


def test_commands_of_plugins_stand_beside_the_cores(cli: Cli, install: Install) -> None:
    install(
        "hello",
        """
        import click, hardpoint
        HARDPOINT_API = 1

        @click.command()
        def greet():
            click.echo("hello")

        @hardpoint.hookimpl
        def hardpoint_register_commands(registry):
            registry.register("hello", f"{__name__}:greet", "Say hello")
        """,
    )
    os.environ["HARDPOINT_LOAD_PLUGINS"] = "hello"

    assert "Say hello" in cli("--help").out
    assert cli("hello").out == "hello\n"


def test_the_version_is_printed(cli: Cli) -> None:
    import hardpoint

    assert program(["--version"]).stdout == f"hardpoint {hardpoint.__version__}\n"
    assert cli("--version").out == f"hardpoint {hardpoint.__version__}\n"


# a program among others ------------------------------------------------------------------------


def command_line(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "hardpoint", *arguments]


def surroundings(**more: str) -> dict[str, str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, **more}


def program(
    arguments: Sequence[str], *, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command_line(arguments),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=surroundings(**(env or {})),
        timeout=60,
    )


def at_a_terminal(arguments: Sequence[str], typed: str = "", **env: str) -> str:
    """Everything that a terminal shows; `typed` is typed when the program asks."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command_line(arguments),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=surroundings(TERM="xterm", **env),
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    try:
        while select.select([ours], [], [], 60)[0]:
            try:
                data = os.read(ours, 65536)
            except OSError:  # how Linux says that the other side is closed
                break
            if not data:
                break
            shown += data
            if typed and b"?" in shown:
                os.write(ours, typed.encode())
                typed = ""
    finally:
        process.wait(timeout=60)
        os.close(ours)
    return shown.decode()


def test_a_reader_that_goes_away_is_no_error(cli: Cli) -> None:
    process = subprocess.Popen(
        command_line(["tools", "list", "--json"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=surroundings(),
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)

    assert (process.returncode, errors) == (0, b"")


def test_an_interrupt_ends_130_without_a_traceback(cli: Cli) -> None:
    process = subprocess.Popen(
        command_line(["call", "wait", "seconds=60"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=surroundings(),
        # A shell in the background hands down that interrupts are ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "waiting\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)

    assert (process.returncode, out) == (130, ""), errors
    assert "Traceback" not in errors
    assert time.monotonic() - began < 30


def test_a_person_at_a_terminal_is_asked(cli: Cli) -> None:
    assert at_a_terminal(["call", "asks", "x=5"], typed="y\n").rstrip().endswith("5")
    assert "said no: not now" in at_a_terminal(["call", "asks", "x=5"], typed="n\nnot now\n")


def test_no_color_is_respected(cli: Cli) -> None:
    shown = at_a_terminal(["call", "typed", "count=x"], NO_COLOR="1")

    assert "\x1b[" not in shown


def test_text_that_is_not_unicode_does_not_break_the_output(cli: Cli) -> None:
    shown = program(["call", "typed", "text=ü"], env={"PYTHONIOENCODING": "ascii:backslashreplace"})

    assert shown.returncode == 0
