"""Commands in a warm sandbox: how they start, what they may say, how they end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hardpoint.errors import InvalidParameters

pytestmark = pytest.mark.podman


async def test_both_streams_and_the_exit_code_come_back(kit: Any) -> None:
    result = await kit.sh("echo out; echo err >&2; exit 3")

    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 3)
    assert not result.ok


async def test_a_signal_is_told_from_an_exit(kit: Any) -> None:
    result = await kit.sh("kill -11 $$")

    assert (result.exit_code, result.signal, result.cause) == (None, 11, None)


async def test_an_argv_list_meets_no_shell(kit: Any) -> None:
    assert await kit.out(["printf", "%s|", "$HOME", "a b", "; id", ""]) == "$HOME|a b|; id||"


async def test_input_is_delivered_whole(kit: Any) -> None:
    data = bytes(range(256)) * 16_384

    result = await kit.sh("sha256sum; wc -c < /dev/null", stdin=data)

    import hashlib

    assert hashlib.sha256(data).hexdigest() in result.stdout.decode()


async def test_a_command_that_ignores_its_input_ends(kit: Any) -> None:
    assert (await kit.sh("exec <&-; echo done", stdin=b"x" * 4_000_000)).stdout == b"done\n"


async def test_without_input_a_reader_sees_the_end_at_once(kit: Any) -> None:
    assert await kit.out("cat; echo end") == "end"


async def test_output_that_is_no_text_comes_back_as_it_is(kit: Any) -> None:
    result = await kit.sh(r"printf '\000\377\376\200'")

    assert result.stdout == b"\x00\xff\xfe\x80"


@pytest.mark.parametrize(
    ("argv", "code"), [(["no-such-program"], 127), (["/etc/passwd"], 126), (["/"], 126)]
)
async def test_what_cannot_be_run_ends_as_a_shell_would_say(
    kit: Any, argv: list[str], code: int
) -> None:
    assert (await kit.sh(argv)).exit_code == code


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (["echo", "a\0b"], {}),
        (["echo", *["x" * 100_000] * 40], {}),
        (["echo", "x" * 140_000], {}),
        ("true", {"cwd": "nowhere"}),
        ([], {}),
    ],
)
async def test_what_cannot_be_started_is_an_error_of_the_caller(
    kit: Any, command: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidParameters):
        await kit.sh(command, **options)
    assert await kit.out("echo well") == "well"


async def test_a_late_command_is_ended_and_keeps_what_it_said(kit: Any) -> None:
    result = await kit.sh("echo before; trap '' TERM; sleep 100", seconds=1)

    assert (result.timed_out, result.cause, result.stdout) == (True, "timeout", b"before\n")
    assert result.exit_code is None


async def test_a_late_command_may_tidy_up_first(kit: Any) -> None:
    result = await kit.sh(
        "trap 'echo tidy; exit 0' TERM; echo x; while :; do sleep 0.01; done", seconds=2
    )

    assert result.timed_out
    assert result.stdout == b"x\ntidy\n"


async def test_nothing_survives_its_call(kit: Any) -> None:
    await kit.sh("sleep 1000 & (setsid sleep 1001 &) ; nohup sleep 1002 >/dev/null 2>&1 &")
    await kit.sh(
        ["python3", "-c", "import os; os.fork() or (os.setsid(), os.fork() or os.pause())"]
    )

    assert await kit.out("ps -eo args | grep -cE 'slee[p]|os.paus[e]' || true") == "0"


async def test_a_call_does_not_wait_for_what_it_left_behind(kit: Any) -> None:
    result = await kit.sh("sleep 1000 & echo done", seconds=10)

    assert (result.stdout, result.timed_out) == (b"done\n", False)


async def test_calls_of_one_session_run_side_by_side(kit: Any) -> None:
    waiting = asyncio.create_task(
        kit.out("while [ ! -e go ]; do sleep 0.01; done; echo went", seconds=10)
    )
    await kit.out("touch go")

    assert await waiting == "went"


async def test_output_arrives_while_the_command_runs(kit: Any, workspace: Path) -> None:
    def answer(_stream: str, data: bytes) -> None:
        if data == b"ready\n":
            (workspace / "go").touch()

    command = "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo went"
    result = await kit.sh(command, seconds=10, on_output=answer)

    assert result.stdout == b"ready\nwent\n"


async def test_long_output_keeps_its_head_and_its_tail(kit: Any) -> None:
    result = await kit.sh("seq 1 200000", max_bytes=1000)

    assert result.truncated
    assert result.stdout.startswith(b"1\n2\n3\n")
    assert result.stdout.endswith(b"199999\n200000\n")
    assert b"bytes dropped" in result.stdout
    assert len(result.stdout) < 70_000
    assert result.total_bytes[0] == 1_288_895


async def test_endless_output_is_ended(make_kit: Any) -> None:
    kit = await make_kit(max_output="8m")

    result = await kit.sh("yes | head -c 10G")

    assert result.cause == "output"
    assert sum(result.total_bytes) < 16 << 20
    assert await kit.out("echo well") == "well"


async def test_both_streams_may_be_large_at_once(kit: Any) -> None:
    result = await kit.sh("seq 1 300000 & seq 1 300000 >&2; wait")

    assert result.total_bytes == (1_988_895, 1_988_895)


async def test_a_cancelled_call_ends_its_command(kit: Any, workspace: Path) -> None:
    started = asyncio.Event()
    task = asyncio.create_task(
        kit.sh("echo on; sleep 1000", seconds=60, on_output=lambda *_: started.set())
    )
    await started.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await kit.out("while pgrep -x sleep >/dev/null; do :; done; echo gone") == "gone"


async def test_commands_see_no_variable_of_the_host(
    make_kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-value")
    monkeypatch.setenv("https_proxy", "http://canary-value@127.0.0.1:1")
    kit = await make_kit(env={"MINE": "yes"}, pass_env=frozenset({"LANG"}))

    seen = await kit.out("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true")

    assert "canary-value" not in seen
    assert "MINE=yes" in seen


async def test_files_in_tmp_stay_between_calls(kit: Any) -> None:
    await kit.out("echo kept > /tmp/x")

    assert await kit.out("cat /tmp/x") == "kept"


async def test_git_works_in_the_workspace(kit: Any) -> None:
    log = await kit.out(
        "git init -q . && echo a > a && git add a &&"
        " git -c user.name=n -c user.email=e@example.com commit -qm first && git log --format=%s"
    )

    assert log == "first"
