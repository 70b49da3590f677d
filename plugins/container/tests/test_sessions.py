"""Which calls share a sandbox, and when sandboxes start, end and are replaced."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hardpoint import Tool, ToolOutput
from hardpoint.errors import DomainUnavailable, SandboxError
from hardpoint.interfaces import Invocation
from hardpoint_container import ContainerDomain, ShellTool
from hardpoint_container.podman import OWNER

pytestmark = [pytest.mark.podman, pytest.mark.podman_only]


async def test_a_session_is_shared_by_nobody_else(kit: Any, tmp_path: Path) -> None:
    await kit.out("echo mine > /tmp/x")

    others = [
        kit.named(session_id="other"),
        kit.named(user_id="bob"),
        kit.named(workspace=tmp_path),
    ]
    for other in others:
        assert not (await other.sh("cat /tmp/x")).ok
    assert await kit.named().out("cat /tmp/x") == "mine"


async def test_callers_that_come_together_start_one_sandbox(kit: Any, mine: Any) -> None:
    before = mine()

    said = await asyncio.gather(*(kit.out("cat /proc/sys/kernel/hostname") for _ in range(8)))

    assert set(said) == {"sandbox"}
    assert len(mine() - before) == 1


async def test_an_idle_sandbox_is_closed(make_kit: Any, mine: Any) -> None:
    kit = await make_kit(idle=0.2)
    before = mine()
    await kit.out("true")

    for _ in range(200):
        if not mine() - before:
            break
        await asyncio.sleep(0.05)

    assert mine() - before == set()
    assert await kit.out("echo again") == "again"


async def test_the_longest_idle_one_makes_room(make_kit: Any) -> None:
    kit = await make_kit(max_sandboxes=2)
    first, second, third = (kit.named(session_id=name) for name in "abc")
    for each in (first, second, third):
        await each.out("echo kept > /tmp/x")

    assert await third.out("cat /tmp/x") == "kept"
    assert await second.out("cat /tmp/x") == "kept"
    assert not (await first.sh("cat /tmp/x")).ok


async def test_a_busy_sandbox_is_waited_for(make_kit: Any, workspace: Path) -> None:
    kit = await make_kit(max_sandboxes=1)
    busy = asyncio.create_task(kit.out("while [ ! -e go ]; do sleep 0.01; done; echo went"))
    while not kit.domain._sessions:
        await asyncio.sleep(0.01)
    other = asyncio.create_task(kit.named(session_id="other").out("echo in"))
    done, _ = await asyncio.wait((other,), timeout=0.3)
    assert not done

    (workspace / "go").touch()

    assert await busy == "went"
    assert await other == "in"


async def test_a_lost_sandbox_is_no_failed_command_and_is_replaced(
    kit: Any, workspace: Path, mine: Any
) -> None:
    before = mine()
    started = asyncio.Event()
    running = asyncio.create_task(
        kit.sh("echo x >> runs; echo on; sleep 60", on_output=lambda *_: started.set())
    )
    await started.wait()
    (name,) = mine() - before

    subprocess.run(["podman", "kill", "-s", "KILL", name], check=True, capture_output=True)

    with pytest.raises(SandboxError, match="not tried again"):
        await running
    assert await kit.out("cat runs") == "x"


async def test_the_end_of_the_holding_process_ends_the_sandbox(kit: Any, mine: Any) -> None:
    before = mine()
    await kit.out("true")
    async with kit.domain.session(kit.context) as session:
        os.kill(session.client._transport.get_pid(), signal.SIGKILL)
        await session.client.gone()

    for _ in range(200):
        if not mine() - before:
            break
        await asyncio.sleep(0.05)
    assert mine() - before == set()


async def test_closing_the_domain_leaves_nothing(
    workspace: Path, small: Any, mine: Any, make_kit: Any
) -> None:
    before = mine()
    kit = await make_kit()
    for number in range(3):
        await kit.named(session_id=str(number)).out("sleep 1000 &")

    await kit.domain.__aexit__(None, None, None)

    assert mine() - before == set()


async def test_what_a_dead_process_left_is_reaped(kit: Any, small: Any, containers: Any) -> None:
    image = await kit.domain.engine.image_digest()
    dead = "hardpoint-left-over"
    command = ["podman", "run", "-d", "--pull=never", f"--name={dead}", "--network=none"]
    command += ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "--label=hardpoint=1"]
    command += [f"--label={OWNER}=another-boot:1:1:1", image, "sleep", "1000"]
    subprocess.run(command, check=True, capture_output=True)

    reaped = await kit.domain.engine.reap()

    assert reaped == [dead]
    assert dead not in containers()


async def test_a_missing_podman_is_unavailable_and_says_what_to_install(
    make_kit: Any,
) -> None:
    kit = await make_kit(podman="no-such-podman")

    with pytest.raises(DomainUnavailable, match="not installed") as caught:
        await kit.out("true")
    assert "apt install podman" in (caught.value.hint or "")


async def test_a_missing_image_is_unavailable_and_says_what_to_run(make_kit: Any) -> None:
    kit = await make_kit(image="localhost/no-such-image:1")

    with pytest.raises(DomainUnavailable) as caught:
        await kit.out("true")
    assert "podman pull localhost/no-such-image:1" in (caught.value.hint or "")


@pytest.mark.parametrize("folder", ["/", "/etc", "/usr/lib", "~", "/home"])
async def test_a_folder_that_is_too_much_is_no_workspace(make_kit: Any, folder: str) -> None:
    path = Path(folder).expanduser()
    if not path.exists():
        pytest.skip(f"{folder} is not on this machine")
    kit = await make_kit(context={"workspace": path})

    with pytest.raises(SandboxError, match="commands could change all of it"):
        await kit.out("true")


async def test_hardpoints_own_folder_is_no_workspace(
    make_kit: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARDPOINT_STATE_DIR", str(workspace / "state"))
    kit = await make_kit()

    with pytest.raises(SandboxError, match="keeps its own files"):
        await kit.out("true")


@pytest.mark.parametrize("name", ["a,b", "c:d", 'quo"te', "blank name", "é", "-rf"])
async def test_a_workspace_may_have_an_odd_name(make_kit: Any, workspace: Path, name: str) -> None:
    (workspace / name).mkdir()
    kit = await make_kit(context={"workspace": workspace / name})

    await kit.out("echo x > f")

    assert (workspace / name / "f").read_text() == "x\n"


async def test_a_workspace_whose_name_cannot_be_shown_is_refused(
    make_kit: Any, workspace: Path
) -> None:
    (workspace / "new\nline").mkdir()
    kit = await make_kit(context={"workspace": workspace / "new\nline"})

    with pytest.raises(SandboxError, match="unprintable"):
        await kit.out("true")


async def test_without_a_workspace_there_is_an_empty_folder(make_kit: Any) -> None:
    kit = await make_kit(context={"workspace": None})

    assert await kit.out("ls -A; echo x > f; cat f; id -u") == "x\n1000"


async def test_files_belong_to_the_workspaces_owner(make_kit: Any, workspace: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(workspace, 12345, 23456)
    kit = await make_kit()

    await kit.out("echo x > f")

    found = (workspace / "f").stat()
    assert (found.st_uid, found.st_gid) == (12345, 23456)
    assert await kit.out("id -u; id -g") == "12345\n23456"


async def test_a_user_that_cannot_write_is_an_error(make_kit: Any, workspace: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs another owner")
    kit = await make_kit(user="12345")

    with pytest.raises(SandboxError, match="cannot write to the workspace"):
        await kit.out("true")


async def test_a_tool_of_somebody_else_works_inside_only(
    kit: Any, workspace: Path, tmp_path: Path
) -> None:
    """The canary: it names itself from inside, and host files are not where it looks."""

    class Stranger(Tool):
        name = "stranger"
        description = "A third-party tool."

        def parameters_schema(self) -> dict[str, Any]:
            return {"type": "object", "properties": {}}

        def domain(self) -> str:
            return "container"

        async def execute(self, params: dict[str, Any], ctx: Any, /) -> ToolOutput:
            sandbox = ctx.sandbox
            await sandbox.write("made/by.txt", b"stranger")
            ran = await sandbox.exec(
                ["sh", "-c", f"hostname; cat {tmp_path}/canary; cat made/by.txt"]
            )
            names = [entry.name for entry in await sandbox.list("made")]
            part = await sandbox.read("./made/../made/by.txt", offset=1, max_bytes=3)
            return ToolOutput.success([ran.stdout.decode(), names, part.decode()])

    (tmp_path / "canary").write_text("host canary")
    stranger = Stranger()
    output = await kit.domain.run(
        Invocation(stranger, "stranger", {}, kit.context, timedelta(seconds=20))
    )

    assert output.result == ["sandbox\nstranger", ["by.txt"], "tra"]
    with pytest.raises(DomainUnavailable):
        await stranger.execute({}, kit.context)


async def test_full_access_is_a_container_too_with_a_system_to_write_to(
    make_kit: Any, tmp_path: Path
) -> None:
    (tmp_path / "canary").write_text("host canary")
    kit = await make_kit(policy="full_access", allow_full_access=True)

    assert await kit.out("touch /usr/x && ls /usr/x") == "/usr/x"
    assert not (await kit.sh(f"cat {tmp_path}/canary")).ok
    assert not (await kit.sh("grep -q eth0 /proc/net/dev")).ok
    assert "CapEff:\t0000000000000000" in await kit.out("grep CapEff /proc/self/status")


async def test_an_output_says_which_image_it_comes_from(kit: Any) -> None:
    limit = timedelta(seconds=20)
    invocation = Invocation(ShellTool(), "shell", {"command": "true"}, kit.context, limit)

    output = await kit.domain.run(invocation)

    image = await kit.domain.engine.image_digest()
    assert output.meta["sandbox"] == {"engine": "podman", "image": image}
    assert len(image) == 64


async def test_the_domain_keeps_the_rules_of_domains(small: Any, workspace: Path, kit: Any) -> None:
    from hardpoint.testing import check_domain

    await check_domain(ContainerDomain(small()), kit.context)


def test_making_a_domain_starts_nothing(small: Any) -> None:
    assert ContainerDomain(small()).explain()["network"] == "none"
