"""Whatever dies, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hardpoint.errors import DomainUnavailable, SandboxError

pytestmark = [pytest.mark.podman, pytest.mark.podman_only]

HOST = """
    import asyncio, sys
    from datetime import timedelta
    from pathlib import Path
    from hardpoint import JobContext
    from hardpoint_container import ContainerConfig, ContainerDomain
    from hardpoint_container.sandbox import ContainerSandbox
    import time

    async def main():
        async with ContainerDomain(ContainerConfig(memory="256m")) as domain:
            context = JobContext(user_id="ana", workspace=Path(sys.argv[1]))
            async with domain.session(context) as session:
                print(session.spec.name, session.client._transport.get_pid(), flush=True)
                sandbox = ContainerSandbox(session, time.monotonic() + 60, {})
                await sandbox.exec("trap '' TERM; touch begun; sleep 1000 & wait; sleep 1000")

    asyncio.run(main())
"""


def wait_until(holds: Callable[[], bool], seconds: float = 20) -> bool:
    """Look again and again; processes elsewhere tell nobody when they end."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if holds():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def host(workspace: Path) -> Any:
    """A process of its own that is in the middle of a long call."""
    command = [sys.executable, "-c", textwrap.dedent(HOST), str(workspace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            name, holder = process.stdout.readline().split()
            assert wait_until((workspace / "begun").exists)
            yield process, name, int(holder)
        finally:
            process.kill()
    subprocess.run(["podman", "rm", "-f", "-t", "0", "-i", name], check=False, capture_output=True)


def container_processes(name: str) -> list[int]:
    """The host's numbers of the processes of a sandbox."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if b"sleep\x001000" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_hardpoint_leaves_no_container(
    host: Any, containers: Any, number: signal.Signals
) -> None:
    process, name, _ = host
    assert name in containers()

    process.send_signal(number)
    process.wait()

    assert wait_until(lambda: name not in containers())
    assert wait_until(lambda: container_processes(name) == [])


def test_a_killed_podman_client_leaves_no_container(host: Any, containers: Any) -> None:
    process, name, holder = host

    os.kill(holder, signal.SIGKILL)

    assert process.wait(timeout=30) != 0
    assert wait_until(lambda: name not in containers())
    assert wait_until(lambda: container_processes(name) == [])


async def test_a_killed_conmon_leaves_nothing_after_the_next_start(
    host: Any, containers: Any, kit: Any
) -> None:
    process, name, _ = host
    inspect = ["podman", "inspect", "--format={{.ConmonPidFile}}", name]
    conmon = int(Path(subprocess.check_output(inspect, text=True).strip()).read_text())

    os.kill(conmon, signal.SIGKILL)
    process.kill()
    process.wait()
    await kit.out("true")
    await kit.domain.engine.reap()

    assert await asyncio.to_thread(wait_until, lambda: name not in containers())
    assert await asyncio.to_thread(wait_until, lambda: container_processes(name) == [])


async def test_a_living_process_is_not_reaped(host: Any, containers: Any, kit: Any) -> None:
    _, name, _ = host

    reaped = await kit.domain.engine.reap()

    assert name not in reaped
    assert name in containers()


async def test_a_sandbox_ends_by_itself_at_the_end_of_its_life(make_kit: Any, mine: Any) -> None:
    before = mine()
    kit = await make_kit(max_life=4.0)
    await kit.out("true")
    (name,) = mine() - before

    assert await asyncio.to_thread(wait_until, lambda: name not in mine())
    assert await kit.out("echo again") == "again"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A Podman service that the sandbox is asked from, as on a remote machine."""
    folder = tempfile.mkdtemp(prefix="hp-svc-")
    address = f"unix://{folder}/podman.sock"
    with subprocess.Popen(["podman", "system", "service", "--time=0", address]) as process:
        assert wait_until(Path(folder, "podman.sock").exists)
        monkeypatch.setenv("CONTAINER_HOST", address)
        yield process
        process.kill()
    shutil.rmtree(folder)


async def test_a_remote_podman_serves_as_well(service: Any, kit: Any) -> None:
    assert await kit.out("echo hi; id -u") != ""
    assert not (await kit.sh("touch /x")).ok


async def test_a_service_killed_in_mid_call_is_said_so_and_leaves_nothing(
    service: Any, make_kit: Any, containers: Any, monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    kit = await make_kit()
    started = asyncio.Event()
    running = asyncio.create_task(
        kit.sh("echo x >> runs; echo on; sleep 60", on_output=lambda *_: started.set())
    )
    await started.wait()
    async with kit.domain.session(kit.context) as session:
        name = session.spec.name

    service.kill()
    service.wait()

    with pytest.raises(SandboxError, match="not tried again"):
        await running
    assert (workspace / "runs").read_text() == "x\n"
    with pytest.raises(DomainUnavailable):
        await kit.out("true")
    monkeypatch.delenv("CONTAINER_HOST")
    assert await asyncio.to_thread(wait_until, lambda: name not in containers())
