"""Every tool of the builtin family, called as a person would, with its documented parameters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hardpoint import Config, Runtime

CATALOGUE = {"version": 1, "name": "none", "entries": []}
CALLS = 'calls:=[{"tool": "echo", "params": {"message": "a"}}]'
JOB = ["create_job", "title=t", "description=d", CALLS]

# tool, arguments, keys of the result, or the kind of error that is the right answer here
TABLE: list[tuple[str, list[str], Any]] = [
    ("echo", ["message=hi"], "hi"),
    ("time", ["operation=now", "timezone=Asia/Tokyo"], {"iso", "utc_iso", "unix", "unix_millis"}),
    ("time", ["operation=parse", "timestamp=2026-03-08T07:30:00Z"], {"iso", "unix", "unix_millis"}),
    ("time", ["operation=convert", "input=2026-03-08 07:30", "from_timezone=UTC",
              "to_timezone=Asia/Tokyo"], {"input", "utc_iso", "output", "timezone"}),
    ("time", ["operation=format", "input=2026-03-08T07:30:00Z", "format_string=%Y"],
     {"formatted", "utc_iso"}),
    ("time", ["operation=diff", "input=2026-03-08", "timestamp2=2026-03-09", "timezone=UTC"],
     {"seconds", "minutes", "hours", "days"}),
    ("json", ["operation=parse", 'data=[1]'], [1]),
    ("json", ["operation=query", 'data={"a": [{"b": 2}]}', "path=a[0].b"], 2),
    ("json", ["operation=stringify", 'data:={"a": 1}'], '{\n  "a": 1\n}'),
    ("json", ["operation=validate", "data={"], {"valid"}),
    ("http", ["url=https://127.0.0.1/", "method=GET", "timeout_secs=5"], "not_authorized"),
    ("web_fetch", ["url=https://localhost/"], "not_authorized"),
    ("message", ["content=hi", "channel=console"], "Sent message to console:person"),
    ("memory_write", ["content=tea", "target=n/a.md", "append=false"],
     {"status", "path", "append", "content_length"}),
    ("memory_read", ["path=seed.md"], {"path", "content", "word_count", "updated_at"}),
    ("memory_search", ["query=jasmine", "limit=3"], {"query", "results", "result_count"}),
    ("memory_tree", ["path=", "depth=2"], ["seed.md"]),
    ("create_job", [*JOB[1:], "wait=true"], {"job_id", "title", "status", "message"}),
    ("list_jobs", ["filter=active"], {"jobs", "summary"}),
    ("job_status", ["job_id={job}"],
     {"job_id", "title", "description", "status", "created_at", "started_at", "completed_at",
      "actual_cost", "fallback_deliverable"}),
    ("job_events", ["job_id={job}", "limit=5"], {"job_id", "events"}),
    ("job_prompt", ["job_id={job}", "content=x", "done=true"], "invalid_parameters"),
    ("cancel_job", ["job_id={job}"], {"job_id", "status"}),
    ("secret_list", [], {"secrets", "count"}),
    ("secret_delete", ["name=none"], {"status"}),
    ("routine_create", ["name=other", "prompt=p", 'request:={"kind": "cron", "schedule": '
                        '"0 0 9 * * *", "timezone": "UTC"}'],
     {"id", "name", "trigger_type", "next_fire_at", "status"}),
    ("routine_list", [], {"count", "routines"}),
    ("routine_update", ["name=daily", "enabled=false"], {"name", "enabled", "status"}),
    ("routine_history", ["name=daily", "limit=2"], None),
    ("routine_fire", ["name=daily"], None),
    ("routine_delete", ["name=daily"], None),
    ("event_emit", ["event_source=ci", "event_type=done", 'payload:={"a": 1}'], None),
    ("tool_search", ["query=memory", "discover=true"], {"results", "count", "searched_online"}),
    ("tool_info", ["name=echo", "detail=schema"], {"name", "description", "parameters", "schema"}),
    ("tool_list", ["include_available=true"], {"extensions", "count"}),
    ("tool_call", ["name=echo", 'params:={"message": "x"}'], "x"),
    ("tool_install", ["name=nothing"], "invalid_parameters"),
    ("tool_auth", ["name=nothing"], "invalid_parameters"),
    ("tool_activate", ["name=nothing"], "invalid_parameters"),
    ("tool_upgrade", ["name=nothing"], "invalid_parameters"),
    ("tool_remove", ["name=nothing"], "approval_required"),
    ("extension_info", ["name=nothing"], "invalid_parameters"),
    ("result_read", ["result_ref=r_AAAAAAAAAAAAAAAAAAAAAA"], "invalid_parameters"),
]  # fmt: skip

Call = Callable[..., Any]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Call a tool by the command line, in a home that has one document, routine and job."""
    (tmp_path / "catalogue.json").write_text(json.dumps(CATALOGUE))
    (tmp_path / "config.toml").write_text(
        f'[plugin.builtin]\ncatalogues = ["{tmp_path / "catalogue.json"}"]\n'
    )
    env = {
        **os.environ,
        "HARDPOINT_HOME": str(tmp_path / "home"),
        "HARDPOINT_LOAD_PLUGINS": "builtin",
    }

    def command(*arguments: str) -> Any:
        program = [sys.executable, "-m", "hardpoint", "--config", str(tmp_path / "config.toml")]
        done = subprocess.run(
            [*program, "call", *arguments, "--json", "--user", "person"],
            capture_output=True, text=True, cwd=tmp_path, env=env, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        start = done.stdout.find("{\n")
        assert start >= 0, done
        return json.loads(done.stdout[start:])

    return command


def test_the_table_has_every_tool() -> None:
    config = Config(load_only=frozenset({"builtin"}))
    registry = Runtime(config, installed_plugins=True).registry

    assert {row[0] for row in TABLE} == set(registry.list())


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"), TABLE, ids=[f"{n}-{r[0]}" for n, r in enumerate(TABLE)]
)
def test_a_tool_is_called_from_the_command_line(
    call: Call, tool: str, arguments: list[str], expected: Any
) -> None:
    if tool.startswith("memory_") and tool != "memory_write":
        call("memory_write", "target=seed.md", "content=jasmine tea")
    if tool.startswith("routine_"):
        call("routine_create", "name=daily", "prompt=p", 'request:={"kind": "manual"}')
    if any("{job}" in each for each in arguments):
        job = call(*JOB)["result"]["job_id"]
        arguments = [each.replace("{job}", job) for each in arguments]

    told = call(tool, *arguments, "--yes")

    if not told["ok"]:
        assert told["error"]["kind"] == expected, told
    elif isinstance(expected, set):
        assert expected <= told["result"].keys()
    elif expected is not None:
        assert told["result"] == expected


def test_a_job_that_must_be_approved_waits_for_a_person_and_goes_on(tmp_path: Path) -> None:
    token = tmp_path / "home" / "config" / "operator-token"
    token.parent.mkdir(parents=True)
    token.write_text("let-me")
    token.chmod(0o600)
    env = {
        **os.environ,
        "HARDPOINT_HOME": str(tmp_path / "home"),
        "HARDPOINT_LOAD_PLUGINS": "builtin",
        "HARDPOINT_OPERATOR_TOKEN": "let-me",
    }

    def hardpoint(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "hardpoint", *arguments],
            capture_output=True, text=True, cwd=tmp_path, env=env, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done
        return done.stdout

    calls = '[{"tool": "tool_remove", "params": {"name": "x"}}, {"tool": "echo", "params": %s}]'
    calls %= '{"message": "after"}'
    options = (f"calls:={calls}", "keep_going=true")
    hardpoint("call", "create_job", "title=Tidy", "description=d", *options)
    hardpoint("jobs", "worker", "--drain")

    (job,) = json.loads(hardpoint("jobs", "list", "--filter", "waiting", "--json"))
    (request,) = json.loads(hardpoint("approvals", "list", "--json"))["pending"]
    assert (request["tool"], request["id"]) == ("tool_remove", job["approval_id"])
    assert request["request"]["origin"] == "job"
    assert f"waits for {request['id']}" in hardpoint("jobs", "list")
    shown = hardpoint("jobs", "show", job["job_id"])
    assert f"hardpoint approvals answer {request['id']}" in shown
    assert 'ok=no, error={"kind": "approval_required"' in shown

    hardpoint("approvals", "answer", request["id"], "yes")
    hardpoint("jobs", "worker", "--drain")

    told = json.loads(hardpoint("jobs", "show", job["job_id"], "--json"))
    assert told["result"][1]["result"] == "after"
    assert told["result"][0]["error"]["kind"] == "invalid_parameters"  # there is no extension x
    assert [event["event"] for event in told["events"]].count("waiting") == 1
