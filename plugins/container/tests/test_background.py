"""Commands in the background: they outlive their call, and nothing else."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from hardpoint import Config, JobContext, Runtime
from hardpoint.config import PolicyConfig, RuleEntry, Source
from hardpoint.errors import ApprovalRequired, InvalidParameters, NotAuthorized, SandboxError
from hardpoint_container import ContainerConfig, ShellTool

pytestmark = pytest.mark.podman

shell = ShellTool()


async def until(look: Callable[[], Any], seconds: float = 30) -> Any:
    """Ask again and again for what is true at some time."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found = look()
        found = await found if asyncio.iscoroutine(found) else found
        if found:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("it never came to that")


async def begin(kit: Any, command: Any, **params: Any) -> str:
    result = await kit.tool(shell, command=command, background=True, **params)
    assert result == {"background": result["background"], "status": "running", "sandboxed": True}
    return str(result["background"])


async def ended(kit: Any, job: str) -> Any:
    async def look() -> Any:
        seen = await kit.tool(shell, background_id=job)
        return seen if seen["status"] == "exited" else None

    return await until(look)


async def test_a_command_outlives_its_call_and_the_sweeps_of_others(
    kit: Any, workspace: Path
) -> None:
    job = await begin(kit, "echo begun; until [ -e go ]; do sleep 0.05; done; echo done; exit 3")

    async def begun() -> bool:
        return bool((await kit.tool(shell, background_id=job))["output"] == "begun\n")

    await until(begun)
    for _ in range(3):
        await kit.tool(shell, command="sleep 100 & echo swept")
    seen = await kit.tool(shell, background_id=job)
    assert (seen["status"], seen["output"]) == ("running", "begun\n")
    assert "exit_code" not in seen

    (workspace / "go").touch()

    seen = await ended(kit, job)
    assert (seen["output"], seen["exit_code"], seen["success"]) == ("begun\ndone\n", 3, False)
    assert await kit.tool(shell, background_id=job) == seen


async def test_input_folder_and_list_reach_it(kit: Any, workspace: Path) -> None:
    (workspace / "sub").mkdir()

    job = await begin(kit, ["sh", "-c", "cat; pwd; echo no >&2"], workdir="sub", stdin="in\n")

    assert (await ended(kit, job))["output"] == "in\n/workspace/sub\n--- stderr ---\nno\n"


async def test_a_long_output_is_shown_as_head_and_tail(kit: Any) -> None:
    job = await begin(kit, "echo first; yes | head -c 5000000; echo last; sleep 100")

    async def written() -> Any:
        seen = await kit.tool(shell, background_id=job)
        return seen if seen["output"].endswith("last\n") else None

    seen = await until(written)
    assert seen["status"] == "running"
    assert seen["truncated"]
    assert seen["output"].startswith("first\ny\n")
    assert len(seen["output"]) < 70_000


async def test_what_cannot_be_run_says_so(kit: Any) -> None:
    seen = await ended(kit, await begin(kit, ["no-such-program"]))

    assert seen["exit_code"] == 127
    assert "not found" in seen["output"]


async def test_it_ends_with_its_time(kit: Any) -> None:
    seen = await ended(kit, await begin(kit, "echo on; sleep 100", timeout=0.5))

    assert seen["output"] == "on\n"
    assert not seen["success"]
    assert "in its time" in seen["notice"]


async def test_stopping_asks_first_and_then_insists(kit: Any) -> None:
    polite = await begin(kit, "trap 'echo bye; exit 5' TERM; echo on; while :; do sleep 0.05; done")
    deaf = await begin(kit, "trap '' TERM; echo on; while :; do sleep 0.05; done")

    async def on() -> bool:
        seen = [await kit.tool(shell, background_id=job) for job in (polite, deaf)]
        return all(each["output"] == "on\n" for each in seen)

    await until(on)
    first = await kit.tool(shell, background_id=polite, stop=True)
    second = await kit.tool(shell, background_id=deaf, stop=True)

    assert (first["status"], first["exit_code"]) == ("exited", 5)
    assert first["output"].startswith("on\nbye\n")
    assert (second["status"], second["signal"]) == ("exited", "SIGKILL")
    assert await kit.tool(shell, background_id=deaf, stop=True) == second


async def test_nobody_else_sees_or_stops_it(kit: Any) -> None:
    job = await begin(kit, "sleep 100")

    for other in (kit.named(user_id="bob"), kit.named(session_id="other")):
        for params in ({}, {"stop": True}):
            with pytest.raises(InvalidParameters, match="no background command"):
                await other.tool(shell, background_id=job, **params)
    assert (await kit.tool(shell, background_id=job))["status"] == "running"


async def test_a_session_has_only_so_many_and_a_stopped_one_makes_room(make_kit: Any) -> None:
    kit = await make_kit(max_background=1)
    job = await begin(kit, "sleep 100")

    with pytest.raises(SandboxError, match="background already"):
        await kit.tool(shell, command="touch never", background=True)
    await begin(kit.named(session_id="other"), "sleep 100")

    await kit.tool(shell, background_id=job, stop=True)
    await begin(kit, "sleep 100")


async def test_all_sessions_together_have_only_so_many(make_kit: Any) -> None:
    kit = await make_kit(max_sandboxes=2)
    await begin(kit, "sleep 100")
    await begin(kit, "sleep 100")

    with pytest.raises(SandboxError, match="max_sandboxes"):
        await begin(kit.named(session_id="other"), "sleep 100")
    assert (await kit.tool(shell, command="echo on"))["output"] == "on\n"


async def test_ended_ones_are_not_kept_for_ever(make_kit: Any) -> None:
    kit = await make_kit(max_background=1)
    old = await begin(kit, "echo old")
    await ended(kit, old)
    new = await begin(kit, "echo new")

    assert (await ended(kit, new))["output"] == "new\n"
    with pytest.raises(InvalidParameters, match="no background command"):
        await kit.tool(shell, background_id=old)


async def test_closing_the_domain_ends_it(kit: Any, workspace: Path) -> None:
    await begin(kit, "while :; do date +%N > beat; sleep 0.02; done")
    await until((workspace / "beat").exists)

    await kit.domain.__aexit__(None, None, None)

    (workspace / "beat").unlink()
    async with kit.domain:
        await kit.out("sleep 0.5")
        assert not (workspace / "beat").exists()


@pytest.mark.podman_only
async def test_its_sandbox_goes_when_it_ends(kit: Any, mine: Any) -> None:
    others = mine()
    await kit.out("true")
    before = mine()
    job = await begin(kit, "sleep 100")
    assert len(mine() - before) == 1

    await kit.tool(shell, background_id=job, stop=True)
    assert mine() == before

    await begin(kit, "sleep 100")
    await kit.domain.__aexit__(None, None, None)
    assert mine() == others


HOST = """
    import asyncio, sys
    from pathlib import Path
    from hardpoint import Config, JobContext, Runtime

    async def main():
        table = {"engine": sys.argv[2], "memory": "256m"}
        if sys.argv[2] == "bubblewrap":
            table["allow_unenforced"] = ["memory", "pids", "cpus"]
        config = Config(load_only=frozenset({"container"}), plugin={"container": table})
        context = JobContext(user_id="ana", workspace=Path(sys.argv[1]), auto_approve=True)
        async with Runtime(config, installed_plugins=True) as runtime:
            params = {"command": "touch begun; exec sleep 4321", "background": True}
            outcome = await runtime.run("shell", params, context)
            print(outcome.unwrap().result["status"], flush=True)
            await asyncio.sleep(1000)

    asyncio.run(main())
"""


def sleepers() -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if (folder / "cmdline").read_bytes() == b"sleep\x004321\x00":
                    found.append(folder.name)
            except OSError:
                continue
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_it_dies_with_hardpoint(
    workspace: Path, engine: str, containers: Any, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(HOST), str(workspace), engine]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        # A shell in the background hands down that interrupts are ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            await until((workspace / "begun").exists)
            await until(sleepers)

            process.send_signal(number)
            process.wait()
        finally:
            process.kill()

    await until(lambda: not sleepers())
    if engine == "podman":
        prefix = f"hardpoint-{process.pid}-"
        await until(lambda: not [name for name in containers() if name.startswith(prefix)])


# what the policy sees ----------------------------------------------------------------------------


def policed(engine: str, **rules: str) -> Config:
    table: dict[str, Any] = {"memory": "256m", "engine": engine}
    if engine == "bubblewrap":
        table["allow_unenforced"] = frozenset({"memory", "pids", "cpus"})
    entries: list[RuleEntry] = []
    for word, spec in rules.items():
        entries.append(RuleEntry(cast("Any", word), spec, Source("code", f"policy.{word}")))
    return Config(
        load_only=frozenset({"container"}),
        plugin={"container": table},
        policy=PolicyConfig(rules=tuple(entries)),
    )


async def test_starting_is_judged_by_its_command_and_nothing_else_asks(
    workspace: Path, engine: str
) -> None:
    config = policed(engine, allow="shell(sleep:*)", deny="shell(touch:*)")
    context = JobContext(user_id="ana", workspace=workspace)
    async with Runtime(config, installed_plugins=True) as runtime:
        denied = await runtime.run("shell", {"command": "touch x", "background": True}, context)
        asked = await runtime.run("shell", {"command": "rm -rf x", "background": True}, context)
        started = await runtime.run("shell", {"command": "sleep 100", "background": True}, context)
        job = started.unwrap().result["background"]
        seen = await runtime.run("shell", {"background_id": job}, context)
        ended = await runtime.run("shell", {"background_id": job, "stop": True}, context)

    assert isinstance(denied.error, NotAuthorized)
    assert isinstance(asked.error, ApprovalRequired | NotAuthorized)
    assert not (workspace / "x").exists()
    assert seen.unwrap().result["status"] == "running"
    assert ended.unwrap().result["status"] == "exited"


@pytest.mark.parametrize(
    "params",
    [
        {"command": "rm -rf /", "background_id": "bg-1"},
        {"command": "ls", "stop": True},
        {"background": True},
        {"stop": True},
        {"background_id": "bg-1", "background": True},
        {"background_id": "bg-1", "stdin": "x"},
        {"background_id": "bg-1", "timeout": 5},
        {"background_id": "bg-1", "workdir": "sub"},
        {"command": "ls", "timeout": 601},
        {"command": "ls", "background": True, "timeout": 86_401},
    ],
)
async def test_a_call_either_starts_or_looks(params: dict[str, Any], workspace: Path) -> None:
    with pytest.raises(InvalidParameters):
        await shell.canonicalise(params, JobContext(user_id="ana", workspace=workspace))


def test_approval_and_effects_follow_what_is_done() -> None:
    full = ShellTool(ContainerConfig(policy="full_access", allow_full_access=True))

    for tool in (shell, full):
        assert tool.requires_approval({"background_id": "bg-1"}).value == "never"
        assert tool.requires_approval({"background_id": "x", "command": "rm -rf /"}) == "always"
        assert set(tool.effects({"background_id": "bg-1"})) == {"read"}
        assert set(tool.effects({"background_id": "bg-1", "stop": True})) == {"process"}
    assert shell.requires_approval({"command": "ls", "background": True}) == (
        shell.requires_approval({"command": "ls"})
    )
