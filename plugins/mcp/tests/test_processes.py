"""Servers as processes: what goes wrong costs its own call, and nothing of them stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from hardpoint.errors import ExternalService, ToolTimeout


async def call(client: Any, context: Any, tool: str = "echo", **arguments: Any) -> Any:
    return (await (await client.load_tool(tool)).execute(arguments, context)).result


@pytest.mark.parametrize(
    "behaviour",
    [
        (),
        ("modern",),
        ("exits-on-discover",),
        ("junk",),
        ("twice",),
        ("string-ids",),
        ("stderr-flood",),
        ("noise-before-answer",),
        ("pages",),
    ],
    ids=lambda names: "-".join(names) or "well-behaved",
)
async def test_a_server_that_can_be_understood_is_used(behaviour, fake, connect, context):
    client = await connect(fake(*behaviour))

    assert {d.name for d in await client.list_tools()} >= {"echo", "env", "slow", "fail"}
    assert await call(client, context, message="hi") == "hi"
    assert await call(client, context, message="again") == "again"


async def test_text_that_is_not_utf8_is_readable_all_the_same(fake, connect, context):
    client = await connect(fake("not-utf8"))

    assert await call(client, context) == "caf\N{REPLACEMENT CHARACTER}"


async def test_a_server_that_ignores_the_new_opening_is_asked_the_old_way(fake, connect, context):
    client = await connect(fake("silent-on-discover"))

    assert await call(client, context, message="hi") == "hi"
    assert client.upstream.memory.era == "handshake"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["no-such-program-anywhere"], "'no-such-program-anywhere' was not found"),
        (["npx-not-here/../npx"], "was not found"),
    ],
)
async def test_a_program_that_is_missing_is_named(command, expected, connect):
    with pytest.raises(ExternalService, match=expected):
        await connect(command)


async def test_the_last_words_of_a_server_that_does_not_start_are_told(fake, connect):
    with pytest.raises(ExternalService, match="exit code 3; its last words: no database"):
        await connect(fake("says-something"))


async def test_a_mute_server_ends_in_its_time(fake, connect):
    with pytest.raises(ExternalService, match=r"did not answer within 0\.5 s"):
        await connect(fake("mute"), startup_timeout=0.5)


async def test_an_unknown_protocol_version_is_named(fake, connect):
    with pytest.raises(ExternalService, match="2099-01-01"):
        await connect(fake("future"))


async def test_a_crash_costs_its_call_and_the_next_one_works(fake, connect, context):
    client = await connect(fake("crash"))

    with pytest.raises(ExternalService, match="exit code 7; its last words: Traceback"):
        await call(client, context, message="hi")

    assert await call(client, context, "pid")
    assert client.upstream.connection().starts == 2


async def test_a_server_killed_while_idle_is_started_again(fake, connect, context, wait_until):
    client = await connect(fake())
    os.kill(int(await call(client, context, "pid")), 9)
    assert await wait_until(lambda: not client.upstream.connected)

    pid = await call(client, context, "pid")

    assert int(pid) > 0


async def test_a_call_that_takes_too_long_ends_and_the_server_stays(fake, connect, context):
    client = await connect(fake("hang"), timeout=0.3)
    first = await call(client, context, "pid")

    with pytest.raises(ToolTimeout):
        await call(client, context, "slow")

    assert await call(client, context, "pid") == first


async def test_a_cancelled_call_tells_the_server(fake, connect, context, tmp_path, wait_until):
    log = tmp_path / "log"
    env = {"FAKE": "cancel-file", "FAKE_FILE": str(log)}
    client = await connect(fake("hang"), env=env)
    task = asyncio.ensure_future(call(client, context, "slow"))
    await asyncio.sleep(0.1)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await wait_until(log.exists)
    assert await call(client, context, message="still here") == "still here"


async def test_a_result_of_20_megabytes_arrives(fake, connect, context):
    client = await connect(fake())

    assert len(await call(client, context, message="size:20000000")) == 20_000_000


async def test_a_message_beyond_the_limit_costs_its_call_alone(fake, connect, context):
    client = await connect(fake(), max_result=100_000)
    beside = asyncio.ensure_future(call(client, context, message="beside"))

    with pytest.raises(ExternalService, match="more than 100000 bytes"):
        await call(client, context, message="size:500000")

    assert await beside == "beside"
    assert await call(client, context, message="after") == "after"


async def test_many_calls_at_once_get_their_own_answers(fake, connect, context):
    client = await connect(fake(), max_concurrent=8)

    texts = [f"text {number}" for number in range(200)]
    results = await asyncio.gather(*(call(client, context, message=one) for one in texts))

    assert results == texts


async def test_a_server_that_fails_again_and_again_is_not_started_at_once(fake, connect, context):
    client = await connect(fake("crash"))
    errors = []
    for _ in range(6):
        with pytest.raises(ExternalService) as caught:
            await call(client, context, message="hi")
        errors.append(caught.value.message)

    assert "is tried again in" in errors[-1]


# environment -----------------------------------------------------------------------------------


async def test_a_server_sees_little_of_our_environment(fake, connect, context, monkeypatch):
    monkeypatch.setenv("A_SECRET_OF_OURS", "not for servers")
    monkeypatch.setenv("BASH_FUNC_ls%%", "() { echo hi; }")
    client = await connect(fake(), env={"GIVEN": "${HOME}/here"})

    env = json.loads(await call(client, context, "env"))

    assert env["GIVEN"] == os.environ["HOME"] + "/here"
    assert "PATH" in env
    assert not {"A_SECRET_OF_OURS", "BASH_FUNC_ls%%", "HARDPOINT_HOME"} & env.keys()


async def test_variables_that_are_missing_are_named_all_at_once(fake, connect):
    from hardpoint.errors import ConfigError

    with pytest.raises(ConfigError, match="ONE_MISSING, TWO_MISSING"):
        await connect([*fake(), "${ONE_MISSING}"], env={"A": "${TWO_MISSING}", "B": "${C:-d}"})


# what stays behind -----------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", ["child", "daemon", "stubborn"])
async def test_nothing_stays_behind_after_closing(behaviour, fake, connect, mark, alive):
    client = await connect(fake(behaviour), env={"MARK": mark})
    assert alive(mark)

    await client.aclose()

    assert alive(mark) == []


async def test_nothing_stays_behind_when_the_server_crashes(
    fake, connect, context, mark, alive, wait_until
):
    client = await connect(fake("crash", "child"), env={"MARK": mark})

    with pytest.raises(ExternalService):
        await call(client, context)

    assert await wait_until(lambda: not alive(mark))


async def test_a_cancelled_start_leaves_no_process(fake, mark, alive, wait_until):
    from hardpoint_mcp.client import McpClient

    client = McpClient.of(fake("mute", "child"), env={"MARK": mark})
    task = asyncio.ensure_future(client.__aenter__())
    assert await wait_until(lambda: alive(mark))

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await wait_until(lambda: not alive(mark))


@pytest.mark.parametrize("behaviour", ["child", "daemon", "stubborn"])
@pytest.mark.parametrize("ending", ["kill", "exit"])
async def test_nothing_stays_behind_when_hardpoint_is_killed(
    behaviour, ending, fake, mark, alive, wait_until
):
    program = f"""
import asyncio, os
from hardpoint_mcp import McpClient
async def main():
    client = await McpClient.connect({fake(behaviour)!r}, env={{"MARK": {mark!r}}})
    print("up", flush=True)
    if {ending!r} == "exit":
        os._exit(3)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process, process.stdout:
        assert await asyncio.to_thread(process.stdout.readline) == b"up\n"
        assert ending == "exit" or alive(mark)
        if ending == "kill":
            process.kill()
        process.wait(10)

    assert await wait_until(lambda: not alive(mark))


async def test_idle_servers_are_stopped_and_come_back(
    fake, connect, context, mark, alive, wait_until
):
    client = await connect(fake(), env={"MARK": mark}, idle_timeout=0.2)
    await call(client, context, message="hi")

    assert await wait_until(lambda: not alive(mark))

    assert await call(client, context, message="back") == "back"


async def test_stubborn_servers_are_closed_side_by_side(fake, connect):
    clients = await asyncio.gather(*(connect(fake("stubborn")) for _ in range(5)))
    loop = asyncio.get_running_loop()
    started = loop.time()

    await asyncio.gather(*(client.aclose() for client in clients))

    # One needs two graces of 2 s; one after another they would need five times as much.
    assert loop.time() - started < 15
