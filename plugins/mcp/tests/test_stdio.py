"""`hardpoint serve` at the end of pipes and files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(180)

SERVE = [sys.executable, "-m", "hardpoint", "serve"]
OPENING = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]

NOISY = """
import os, subprocess, sys
import hardpoint

@hardpoint.tool(approval="never")
def noisy() -> str:
    "Writes where nobody should."
    print("to stdout")
    os.write(1, b"to descriptor 1\\n")
    subprocess.run(["sh", "-c", "echo from a child; cat"])
    return "done"
"""


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.fixture
def talk() -> Any:
    """Start the gateway, send messages one after the other, read the answers."""

    def run(*messages: Any, command: list[str] = SERVE) -> list[Any]:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdin is not None
        assert process.stdout is not None
        answers = []
        with process, process.stdin, process.stdout:
            for message in (*OPENING, *messages):
                process.stdin.write(message if isinstance(message, bytes) else lines(message))
                process.stdin.flush()
                if not isinstance(message, bytes) and "id" in message:
                    answers.append(json.loads(process.stdout.readline()))
            process.stdin.close()
            assert process.stdout.read() == b""
            assert process.wait(30) == 0
        return answers[1:]

    return run


def test_what_is_no_message_is_passed_over(talk):
    junk = b"\n{nonsense\n[]\n\xff\xfe\n7\n"
    [answer] = talk(junk, {"jsonrpc": "2.0", "id": 2, "method": "ping"})
    assert answer == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_messages_of_many_megabytes_pass_both_ways(talk, fake, tmp_path, write_config):
    command, *args = fake()
    config = write_config(
        {"servers": {"s": {"command": command, "args": args, "read_only": ["*"]}}}
    )
    serve = [*SERVE[:3], "--config", str(config), "serve"]
    [there, back] = talk(
        call(2, "s__echo", message="ä" * 5_000_000),
        call(3, "s__echo", message="size:5000000"),
        command=serve,
    )
    for answer in (there, back):
        assert answer["result"]["content"][0]["text"]


def test_what_tools_write_never_gets_into_the_protocol(talk, tmp_path):
    script = tmp_path / "gateway.py"
    script.write_text(
        NOISY
        + """
import asyncio
from hardpoint_mcp.gateway.run import make_runtime, serve

asyncio.run(serve(make_runtime(hardpoint.Config(), tools=[noisy], in_memory=True)))
"""
    )
    [answer] = talk(call(2, "noisy"), command=[sys.executable, str(script)])
    assert answer["result"]["content"][0]["text"] == "done"


def test_changed_rules_are_read_again_and_announced(write_config):
    config = write_config({})
    command = [*SERVE[:3], "--config", str(config), "serve"]
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None

    def names() -> set[str]:
        process.stdin.write(lines(listing))
        process.stdin.flush()
        listed = json.loads(process.stdout.readline())["result"]["tools"]
        return {tool["name"] for tool in listed}

    with process, process.stdin, process.stdout, process.stderr:
        process.stdin.write(lines(*OPENING))
        process.stdin.flush()
        process.stdout.readline()
        before = names()
        config.write_text(config.read_text() + '\n[policy]\ndeny = ["result_*"]\n')
        process.send_signal(signal.SIGHUP)
        note = json.loads(process.stdout.readline())
        after = names()
        config.write_text("[policy\n")
        process.send_signal(signal.SIGHUP)
        complaint = process.stderr.readline()
        still = names()
        process.stdin.close()
        process.wait(30)

    assert note["method"] == "notifications/tools/list_changed"
    assert "result_read" in before - after
    assert b"the former settings stay in force" in complaint
    assert still == after


def test_files_stand_in_for_pipes(tmp_path: Path):
    """As when somebody tries a few messages by hand."""
    given, taken = tmp_path / "in", tmp_path / "out"
    given.write_bytes(lines(OPENING[0]))
    with given.open("rb") as stdin, taken.open("wb") as stdout:
        done = subprocess.run(SERVE, stdin=stdin, stdout=stdout, timeout=60)

    assert done.returncode == 0
    [answer] = taken.read_text("utf-8").splitlines()
    assert json.loads(answer)["result"]["serverInfo"]["name"] == "hardpoint"
