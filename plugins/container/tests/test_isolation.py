"""Commands that try to get out, or to take everything. Each ends in a clear result, and a second
session keeps working."""

from __future__ import annotations

import os
import socket
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hardpoint.errors import SandboxError
from hardpoint_container import FileReadTool, FileWriteTool, ShellTool

pytestmark = pytest.mark.podman


def python(code: str) -> list[str]:
    return ["python3", "-c", textwrap.dedent(code)]


async def neighbour_works(kit: Any) -> None:
    """A second session answers while the first is in trouble."""
    assert await kit.named(session_id="neighbour").out("echo well") == "well"


# taking everything -------------------------------------------------------------------------------


@pytest.mark.podman_only
async def test_a_fork_bomb_ends_with_its_call(kit: Any) -> None:
    result = await kit.sh(["bash", "-c", "f(){ f|f & }; f; sleep 100"], seconds=1)

    await neighbour_works(kit)
    assert result.timed_out
    assert await kit.out("echo well; ps -e --no-headers | wc -l") == "well\n4"


@pytest.mark.podman_only
async def test_a_fork_bomb_in_python_ends_too(kit: Any) -> None:
    code = """
        import os
        while True:
            try: os.fork()
            except OSError: pass
    """
    result = await kit.sh(python(code), seconds=1)

    assert result.timed_out
    assert await kit.out("echo well") == "well"


@pytest.mark.podman_only
async def test_a_memory_bomb_loses_the_command_not_the_sandbox(
    kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await kit.out("echo kept > /tmp/state")

    for _ in range(3):
        result = await kit.sh(python("x = [bytearray(1 << 20) for _ in range(10_000)]"))
        assert (result.signal, result.out_of_memory) == (9, True)

    await neighbour_works(kit)
    assert await kit.out("cat /tmp/state") == "kept"
    assert os.listdir(tmp_path) == []


@pytest.mark.podman_only
async def test_many_processes_that_eat_memory_spare_the_sandbox(kit: Any) -> None:
    code = """
        import os
        for _ in range(20): os.fork()
        x = []
        while True: x.append(bytearray(1 << 20))
    """
    await kit.sh(python(code), seconds=5)

    assert await kit.out("echo well") == "well"


async def test_tmp_has_a_size(kit: Any) -> None:
    result = await kit.sh("head -c 64M /dev/zero > /tmp/big")

    assert not result.ok
    assert b"No space left" in result.stderr
    assert await kit.out("rm /tmp/big; echo well") == "well"


async def test_one_file_has_a_size(kit: Any) -> None:
    result = await kit.sh("head -c 64M /dev/zero > big; stat -c %s big")

    assert int(result.stdout) <= 32 << 20


@pytest.mark.podman_only
async def test_shared_memory_and_message_queues_are_small(kit: Any) -> None:
    assert not (await kit.sh("head -c 8M /dev/zero > /dev/shm/x")).ok


@pytest.mark.podman_only
async def test_files_without_number_end_with_the_memory(kit: Any) -> None:
    code = "import itertools\nfor n in itertools.count(): open(f'/tmp/{n}', 'w').close()"

    result = await kit.sh(python(code), seconds=20)

    assert not result.ok
    assert await kit.out("echo well") == "well"
    await neighbour_works(kit)


async def test_a_full_workspace_can_be_emptied_but_not_filled(
    make_kit: Any, workspace: Path
) -> None:
    kit = await make_kit(workspace_size="1m")

    await kit.sh("head -c 2M /dev/zero > big")

    assert not (await kit.sh("echo more > other")).ok
    with pytest.raises(SandboxError, match="workspace_size"):
        await kit.tool(FileWriteTool(), path="f", content="x")
    await kit.sh("rm big")
    assert (await kit.tool(FileWriteTool(), path="f", content="x"))["success"]


async def test_open_files_end(kit: Any) -> None:
    result = await kit.sh(python("x = [open('/dev/null') for _ in range(5000)]"))

    assert b"Too many open files" in result.stderr


async def test_a_deep_tree_does_not_stop_the_tools(kit: Any) -> None:
    await kit.out(python("import os\nfor _ in range(2000): os.mkdir('d'); os.chdir('d')"))

    assert await kit.out("echo well") == "well"


# getting out by files ----------------------------------------------------------------------------


@pytest.fixture
def host_file(tmp_path: Path) -> Path:
    path = tmp_path / "canary"
    path.write_text("host canary")
    return path


async def test_files_of_the_host_are_not_there(kit: Any, host_file: Path) -> None:
    tries = f"""
        cat {host_file} /proc/1/root{host_file} /proc/self/root{host_file} {host_file}/.
        ln -s {host_file} l; cat l; cat ../../..{host_file}
        ln {host_file} h; mount --bind {host_file.parent} /mnt; chroot {host_file.parent}
        cat /proc/1/cwd/../..{host_file} /dev/fd/*{host_file}
    """
    result = await kit.sh(tries)

    assert b"host canary" not in result.stdout + result.stderr


async def test_tools_do_not_follow_what_commands_plant(kit: Any, host_file: Path) -> None:
    await kit.sh(f"ln -s {host_file} l; ln -s / root; mkfifo p; ln -s /proc/self/environ e")

    for path in ("l", f"root{host_file}", "e"):
        for tool, params in ((FileReadTool(), {}), (FileWriteTool(), {"content": "x"})):
            with pytest.raises(Exception, match="outside"):
                await kit.tool(tool, path=path, **params)
    assert host_file.read_text() == "host canary"


async def test_the_system_is_read_only(kit: Any) -> None:
    result = await kit.sh(
        "for d in / /usr/bin /etc /var /run /root /proc/sys/kernel /sys/kernel; do"
        " touch $d/canary 2>/dev/null && echo $d; done; true"
    )

    assert result.stdout == b""


@pytest.mark.podman_only
async def test_kernel_switches_and_devices_are_out_of_reach(kit: Any) -> None:
    result = await kit.sh(
        """
        echo x > /proc/sysrq-trigger; echo 0 > /proc/sys/kernel/randomize_va_space
        cat /dev/mem /dev/kmem /proc/kcore /dev/sda /dev/vda | head -c 10
        mknod disk b 254 0 && head -c 10 disk; mknod null c 1 3
        ls /dev | sort | tr '\\n' ' '
        """
    )

    assert set(result.stdout.decode().split()) <= {
        *("core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr"),
        *("stdin", "stdout", "tty", "urandom", "zero"),
    }


@pytest.mark.podman_only
async def test_setuid_programs_give_nothing(kit: Any, workspace: Path) -> None:
    await kit.out("cp /usr/bin/id ./id; chmod 6755 ./id")

    status = await kit.out("./id -u; grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status")

    assert "NoNewPrivs:\t1" in status
    assert "CapEff:\t0000000000000000" in status
    assert "CapBnd:\t0000000000000000" in status
    assert not [line for line in (await kit.out("find / -xdev -perm /6000")).split() if line]


@pytest.mark.podman_only
async def test_the_engine_is_not_reachable_from_inside(kit: Any) -> None:
    found = await kit.out(
        "find / -xdev -name '*.sock' -o -xdev -type s 2>/dev/null; which podman docker; true"
    )

    assert found == ""


@pytest.mark.podman_only
async def test_the_host_is_not_described(kit: Any) -> None:
    said = await kit.out("cat /proc/cmdline /proc/loadavg; ls /sys/block /sys/class; hostname")

    assert said.split() == ["/sys/block:", "/sys/class:", "sandbox"]


# getting out by the kernel -----------------------------------------------------------------------

CALLS = {
    "a user namespace": "c.unshare(0x10000000)",
    "a mount": "c.mount(b'none', b'/tmp', b'tmpfs', 0, 0)",
    "tracing": "c.ptrace(16, 1, 0, 0)",
    "a kernel keyring": "c.syscall(250, 0, -3, 0)",
    "io_uring": "c.syscall(425, 8, 0)",
    "bpf": "c.syscall(321, 0, 0, 0)",
    "perf events": "c.syscall(298, 0, 0, -1, -1, 0)",
    "memory of others": "c.syscall(310, 1, 0, 0, 0, 0, 0)",
    "a file handle": "c.syscall(304, -100, 0, 0)",
    "clone into a namespace": "c.syscall(56, 0x10000011, 0, 0, 0, 0)",
    "typing into a terminal": "c.ioctl(0, 0x5412, b'x')",
    "a kernel module": "c.syscall(313, 0, 0, 0)",
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
async def test_dangerous_system_calls_are_refused(kit: Any) -> None:
    tries = "\n".join(
        f"r = {call}; print({name!r} if r >= 0 else '', end='')" for name, call in CALLS.items()
    )

    assert await kit.out(python(f"import ctypes; c = ctypes.CDLL(None)\n{tries}")) == ""


async def test_only_ordinary_sockets_can_be_made(kit: Any) -> None:
    code = """
        import socket
        for family in range(46):
            for kind in (1, 2, 3, 5):
                try: socket.socket(family, kind); print(family, kind)
                except OSError: pass
    """
    made = {tuple(map(int, line.split())) for line in (await kit.out(python(code))).splitlines()}

    assert made <= {(family, kind) for family in (1, 2, 10) for kind in (1, 2, 5)} | {(1, 3)}


async def test_ordinary_programs_still_run(kit: Any) -> None:
    code = """
        import asyncio, multiprocessing, threading, subprocess, tempfile, sqlite3
        if __name__ == "__main__":
            with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
            t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()
            asyncio.run(asyncio.create_subprocess_exec("true"))
            sqlite3.connect("/tmp/x.db").execute("create table t (a)")
    """
    (path := Path("/workspace/p.py"))
    await kit.out(["sh", "-c", 'printf %s "$1" > p.py', "sh", textwrap.dedent(code)])

    assert await kit.out(["python3", str(path)]) == "thread"


@pytest.mark.podman_only
async def test_the_runner_cannot_be_harmed(make_kit: Any, workspace: Path) -> None:
    if os.geteuid() == 0:
        # Root without capabilities may still raise the runner's OOM score, and lose its sandbox.
        os.chown(workspace, 1000, 1000)
    kit = await make_kit()
    result = await kit.sh(
        """
        for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done
        cat /proc/1/mem /proc/1/environ /proc/1/fd/3 2>&1 | head -c 100 | grep -v denied
        ls -l /proc/1/fd /proc/1/exe 2>/dev/null
        echo 1000 > /proc/1/oom_score_adj 2>/dev/null && echo adjusted
        true
        """
    )

    assert b"adjusted" not in result.stdout
    assert await kit.out("echo well") == "well"


async def test_a_command_cannot_answer_in_the_runners_place(kit: Any) -> None:
    forged = "\\0\\0\\0\\017\\0\\0\\0\\0" + '{"id":1,"end":0}'

    result = await kit.sh(
        f"for fd in $(seq 0 20); do printf '{forged}' >&$fd; done 2>/dev/null; true"
    )

    assert result.exit_code is not None
    assert await kit.out("echo well") == "well"


# getting out by the network ----------------------------------------------------------------------


@pytest.fixture
def host_service() -> Iterator[int]:
    """A listener of the host on every address; the number of its port."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        done = threading.Event()

        def serve() -> None:
            while not done.is_set():
                try:
                    server.settimeout(0.2)
                    connection, _ = server.accept()
                except OSError:
                    continue
                connection.sendall(b"host service")
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        done.set()
        thread.join()


async def test_nothing_on_any_network_answers(kit: Any, host_service: int) -> None:
    addresses = ["127.0.0.1", "0.0.0.0", "::1", "169.254.169.254", "10.0.2.2", "10.88.0.1"]
    own = socket.gethostbyname_ex(socket.gethostname())[2]
    code = f"""
        import socket
        for address in {addresses + own!r}:
            for port in (80, 443, 53, {host_service}):
                try: socket.create_connection((address, port), 1); print("reached", address, port)
                except OSError: pass
        try: print("resolved", socket.getaddrinfo("example.com", 443))
        except OSError: pass
        for address in ("8.8.8.8", "255.255.255.255"):
            try: socket.socket(2, socket.SOCK_DGRAM).sendto(b"x", (address, 53)); print("sent")
            except OSError: pass
    """

    assert await kit.out(python(code)) == ""


async def test_a_denied_command_never_starts(kit: Any, workspace: Path) -> None:
    """What the tool refuses leaves no trace, not even that of an earlier part of the line."""
    shell = ShellTool()
    try:
        canonical = await shell.canonicalise({"command": "touch canary\0"}, kit.context)
        await kit.tool(shell, **canonical.params)
    except Exception as error:
        assert type(error).__module__ == "hardpoint.errors"

    assert not (workspace / "canary").exists()
