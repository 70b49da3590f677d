"""What a command in a warm sandbox costs, beside the other ways to run one.

    python tests/bench/bench_container.py [ROUNDS]

All ways run in turn, round by round, so that a busy machine slows them alike. Ratios are to a host
subprocess. Needs Podman; bubblewrap where it is installed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from hardpoint import Config, JobContext, Runtime
from hardpoint_container import ContainerConfig, ContainerDomain
from hardpoint_container.sandbox import ContainerSandbox

MEGABYTE = 1_000_000
LINE = "x" * 79 + "\n"
Way = Callable[[], Awaitable[Any]]


async def process(*command: str) -> None:
    made = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await made.communicate()
    if made.returncode:
        raise RuntimeError(said.decode())


def raw(sandbox: ContainerSandbox) -> Way:
    return lambda: sandbox.exec("true", timeout=timedelta(seconds=10))


async def measure(ways: dict[str, tuple[Way, int]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each way; the number beside it says how often it runs in a round."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (way, times) in ways.items():
            for _ in range(times):
                began = time.perf_counter()
                await way()
                spent[name].append(1000 * (time.perf_counter() - began))
    return spent


def show(spent: dict[str, list[float]], base: str) -> None:
    reference = statistics.median(spent[base])
    print(f"{'':44} {'min':>8} {'median':>8} {'p95':>8}   ratio")
    for name, values in spent.items():
        values.sort()
        median, late = statistics.median(values), values[int(0.95 * len(values))]
        ratio = median / reference
        print(f"{name:44} {values[0]:8.2f} {median:8.2f} {late:8.2f}   {ratio:6.2f}   ms")


async def main(rounds: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="hp-bench-"))
    (folder / "megabyte").write_text(LINE * (MEGABYTE // len(LINE)))
    context = JobContext(user_id="bench", workspace=folder, auto_approve=True)
    unlimited = {"requests_per_minute": 1_000_000, "requests_per_hour": 1_000_000}
    config = Config(load_only=frozenset({"container"}), tools=tool_settings(unlimited))
    async with Runtime(config, installed_plugins=True) as runtime, ContainerDomain() as domain:
        began = time.perf_counter()
        async with domain.session(context) as session:
            ready = time.perf_counter() - began
            sandbox = ContainerSandbox(session, time.monotonic() + 10_000, {})
            name = session.spec.name
            ways: dict[str, tuple[Way, int]] = {
                "host subprocess: sh -c true": (lambda: process("sh", "-c", "true"), 5),
                "warm sandbox: sh -c true": (raw(sandbox), 5),
                "guarded call of shell, everything on": (
                    lambda: call(runtime, context, "shell", {"command": "true"}),
                    5,
                ),
                "podman exec": (lambda: process("podman", "exec", name, "true"), 1),
                "podman run --rm, same limits": (lambda: process(*podman_run(domain, folder)), 1),
                "guarded read_file of 1 MB (64 KiB window)": (
                    lambda: call(runtime, context, "read_file", {"path": "megabyte"}),
                    3,
                ),
                "read 1 MB whole through the sandbox": (lambda: sandbox.read("megabyte"), 3),
                "read 1 MB on the host": (lambda: asyncio.to_thread(read, folder), 3),
            }
            if shutil.which("bwrap"):
                accepted = frozenset({"memory", "pids", "cpus"})
                settings = ContainerConfig(engine="bubblewrap", allow_unenforced=accepted)
                async with ContainerDomain(settings) as second, second.session(context) as other:
                    warm = ContainerSandbox(other, time.monotonic() + 10_000, {})
                    ways["bwrap for each command"] = (lambda: process(*bwrap(folder)), 2)
                    ways["warm bubblewrap sandbox: sh -c true"] = (raw(warm), 5)
                    spent = await measure(ways, rounds)
            else:
                spent = await measure(ways, rounds)
    show(spent, "host subprocess: sh -c true")
    print(f"sandbox ready in {1000 * ready:.0f} ms")
    shutil.rmtree(folder)


def tool_settings(limit: dict[str, int]) -> dict[str, Any]:
    from hardpoint.config import ToolConfig
    from hardpoint.limits import ToolRateLimitConfig

    made = ToolConfig(rate_limit=ToolRateLimitConfig(**limit))
    return {"shell": made, "read_file": made}


async def call(runtime: Runtime, context: JobContext, tool: str, params: dict[str, Any]) -> None:
    outcome = await runtime.run(tool, params, context)
    if outcome.error is not None:
        raise outcome.error


def read(folder: Path) -> bytes:
    return (folder / "megabyte").read_bytes()


def podman_run(domain: ContainerDomain, folder: Path) -> list[str]:
    image = json.loads(
        subprocess.check_output(["podman", "image", "inspect", domain.config.image])
    )[0]["Id"]
    return [
        *("podman", "run", "--rm", "--pull=never", "--network=none", "--read-only"),
        *("--cap-drop=all", "--memory=1g", "--pids-limit=256", "--log-driver=none"),
        *("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"),
        *(f"--volume={folder}:/workspace", image, "sh", "-c", "true"),
    ]


def bwrap(folder: Path) -> list[str]:
    return [
        *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr"),
        *("/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
        *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"),
        *("--bind", str(folder), "/workspace", "sh", "-c", "true"),
    ]


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
