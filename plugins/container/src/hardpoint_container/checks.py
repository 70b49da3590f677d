"""What `hardpoint doctor` proves about sandboxes: it starts one and tries to get out of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

import attrs

from hardpoint import JobContext
from hardpoint.errors import HardpointError
from hardpoint.interfaces import Check, CheckResult
from hardpoint_container.config import ContainerConfig, size_in_bytes
from hardpoint_container.domain import ContainerDomain
from hardpoint_container.execution import Execution
from hardpoint_container.sandbox import ContainerSandbox
from hardpoint_container.session import Session

METADATA: Final = "169.254.169.254"


class SandboxCheck(Check):
    """Starts a sandbox in an empty folder and attacks it."""

    def __init__(self, config: ContainerConfig | None = None) -> None:
        self.config = config or ContainerConfig()

    async def run(self) -> Sequence[CheckResult]:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="hardpoint-doctor-") as folder:
            ground = Path(folder).resolve()
            (ground / "workspace").mkdir()
            canary = ground / "canary"
            canary.write_text("canary of the host", encoding="utf-8")
            context = JobContext(
                user_id="doctor", session_id="doctor", workspace=ground / "workspace"
            )
            domain = ContainerDomain(self.config)
            try:
                async with domain:
                    return await self._attack(domain, context, canary)
            except HardpointError as error:
                return [CheckResult("container", "failed", error.message, error.hint)]

    async def _attack(
        self, domain: ContainerDomain, context: JobContext, canary: Path
    ) -> list[CheckResult]:
        started = time.perf_counter()
        async with domain.session(context) as session:
            took = time.perf_counter() - started
            results = [_begun(session, took)]
            inside = Inside(session, canary)
            for name, probe in PROBES.items():
                try:
                    proven, detail = await probe(inside)
                except HardpointError as error:
                    proven, detail = False, error.message
                status = "ok" if proven else "failed"
                results.append(CheckResult(f"container: {name}", status, detail))  # type: ignore[arg-type]
        return results


def _begun(session: Session, took: float) -> CheckResult:
    facts, config = session.client.facts, session.config
    detail = (
        f"a sandbox was ready in {took:.2f} s by {config.engine};"
        f" user {facts['uid']}, no capabilities, Python {facts['python']} inside"
    )
    if session.spec.uid == 0:
        return CheckResult(
            "container",
            "warning",
            f"{detail}; user 0, because the workspace belongs to root",
            "give the workspace to an ordinary user: chown",
        )
    return CheckResult("container", "ok", detail)


@attrs.frozen
class Inside:
    """The sandbox under attack, and a file that it must not see."""

    session: Session
    canary: Path

    async def sh(self, command: str | Sequence[str], seconds: float = 10) -> Execution:
        sandbox = ContainerSandbox(self.session, time.monotonic() + seconds + 5, {})
        return await sandbox.exec(command, timeout=timedelta(seconds=seconds))

    async def python(self, code: str, seconds: float = 10) -> str:
        return (await self.sh(["python3", "-ISc", code], seconds)).stdout.decode().strip()

    async def works(self) -> bool:
        return (await self.sh("echo well")).stdout == b"well\n"


Probe = Callable[[Inside], Awaitable[tuple[bool, str]]]


async def host_files(inside: Inside) -> tuple[bool, str]:
    path = inside.canary
    result = await inside.sh(
        f"cat '{path}' '/proc/1/root{path}' '/proc/self/root{path}'; ln -s '{path}' l && cat l"
    )
    seen = b"canary of the host" in result.stdout
    return not seen, "a host file can be read" if seen else "a host file could not be read"


async def system(inside: Inside) -> tuple[bool, str]:
    if inside.session.config.policy == "full_access":
        return True, "writable, as the policy full_access says"
    result = await inside.sh("for d in / /etc /usr/bin /var; do touch $d/x && echo $d; done; true")
    written = result.stdout.decode().split()
    return not written, f"could write to {written}" if written else "its system is read-only"


async def network(inside: Inside) -> tuple[bool, str]:
    """Try a listener of this host, well-known addresses and the metadata service."""
    if inside.session.config.network == "open":
        return True, "open, as the configuration says"
    import socket

    listener = socket.create_server(("0.0.0.0", 0))  # noqa: S104 - to be found, if anything can be
    try:
        port = listener.getsockname()[1]
        own = await asyncio.to_thread(_own_addresses)
        code = (
            "import socket\n"
            f"for a in {[*own, '127.0.0.1', METADATA, '1.1.1.1', '10.0.2.2', '::1']!r}:\n"
            f"    for p in (80, 443, {port}):\n"
            "        try: socket.create_connection((a, p), 1); print(a, p)\n"
            "        except OSError: pass\n"
        )
        reached = await inside.python(code, seconds=30)
    finally:
        listener.close()
    return not reached, f"reached {reached}" if reached else "no address could be reached"


def _own_addresses() -> list[str]:
    import socket

    try:
        return socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        return []


async def kernel(inside: Inside) -> tuple[bool, str]:
    code = (
        "import ctypes, socket\n"
        "c = ctypes.CDLL(None)\n"
        "if c.unshare(0x10000000) == 0: print('a user namespace')\n"
        "if c.ptrace(16, 1, 0, 0) == 0: print('tracing')\n"
        "for f in (16, 17, 40):\n"
        "    try: socket.socket(f, socket.SOCK_STREAM if f == 40 else socket.SOCK_RAW)\n"
        "    except OSError: continue\n"
        "    print('socket family', f)\n"
    )
    got = await inside.python(code)
    return not got, f"got {got}" if got else "no namespace, no tracing, no netlink, no vsock"


async def fork_bomb(inside: Inside) -> tuple[bool, str]:
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
    await inside.sh(["python3", "-ISc", code], seconds=1)
    well = await inside.works()
    return well, "was stopped, the sandbox went on" if well else "broke the sandbox"


async def memory_bomb(inside: Inside) -> tuple[bool, str]:
    if "memory" in inside.session.config.allow_unenforced:
        return True, "not tried: allow_unenforced names memory"
    amount = size_in_bytes(inside.session.config.memory) * 2
    code = f"x = bytearray({amount})\nx[::4096] = b'x' * len(x[::4096])\nprint('held', {amount})"
    held = await inside.python(code, seconds=20)
    well = await inside.works()
    if held:
        return False, f"a command could hold {amount} bytes"
    return well, "was killed, the sandbox went on" if well else "broke the sandbox"


async def survivors(inside: Inside) -> tuple[bool, str]:
    await inside.sh("(setsid sleep 1000 &) ; nohup sleep 1000 >/dev/null 2>&1 &")
    code = (
        "import os\n"
        "for p in filter(str.isdigit, os.listdir('/proc')):\n"
        "    try: name = open(f'/proc/{p}/comm').read().strip()\n"
        "    except OSError: continue\n"
        "    if name == 'sleep': print(name)\n"
    )
    left = await inside.python(code)
    return not left, "processes outlive a call" if left else "no process outlives its call"


PROBES: Final[dict[str, Probe]] = {
    "host files": host_files,
    "its system": system,
    "network": network,
    "kernel": kernel,
    "a fork bomb": fork_bomb,
    "a memory bomb": memory_bomb,
    "left-over processes": survivors,
}
