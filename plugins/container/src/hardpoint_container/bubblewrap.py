"""Sandboxes by bubblewrap: for Linux machines without Podman, with this machine's own programs.

What it cannot do is limit memory, processes and CPU of a whole sandbox: the configuration must say
that this is accepted. Each single process is limited instead.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from typing import ClassVar, Final

from hardpoint.errors import DomainUnavailable
from hardpoint_container.bpf import refusal_filter
from hardpoint_container.config import WORKSPACE, size_in_bytes
from hardpoint_container.engine import (
    GATE_FOLDER,
    Engine,
    Launch,
    SandboxSpec,
    command_environment,
)

ACCOUNTS: Final = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000::/workspace:/bin/sh\n",
    "/etc/group": "root:x:0:\nsandbox:x:1000:\n",
}
# Of /etc, only what programs below /usr cannot do without.
NEEDED_OF_ETC: Final = ("alternatives", "ld.so.cache", "ssl/certs", "ca-certificates")
INSTALL_HINT: Final = "install it: 'apt install bubblewrap' or 'dnf install bubblewrap'"


class BubblewrapEngine(Engine):
    """One `bwrap` process holds one sandbox; with it everything in the sandbox ends."""

    name: ClassVar[str] = "bubblewrap"
    promises: ClassVar[frozenset[str]] = frozenset({"seccomp"})

    async def launch(self, spec: SandboxSpec, runner: Sequence[str]) -> Launch:
        self._check()
        fds: list[int] = []
        seccomp: list[str] = []
        program = refusal_filter()
        if program is not None:
            fds.append(_readable(program))
            seccomp = ["--seccomp", str(fds[-1])]
        command = [
            *self._identity(spec),
            *self._limits(spec),
            *("bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent", "--new-session"),
            *("--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv", *seccomp),
            *self._system(),
            *self._folders(spec),
        ]
        for path, text in ACCOUNTS.items():
            fds.append(_readable(text.encode()))
            command += ["--ro-bind-data", str(fds[-1]), path]
        for name, value in command_environment(spec).items():
            command += ["--setenv", name, value]
        command += ["--remount-ro", "/", "--chdir", WORKSPACE, "--", *runner]
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        return Launch(command, environment, fds=tuple(fds))

    def _check(self) -> None:
        if platform.system() != "Linux":
            raise DomainUnavailable("bubblewrap works on Linux only", hint="use engine = 'podman'")
        for program in ("bwrap", "prlimit", "setpriv"):
            if shutil.which(program) is None:
                raise DomainUnavailable(
                    f"{program!r} is not installed; nothing was started",
                    hint=INSTALL_HINT if program == "bwrap" else "install util-linux",
                )
        if not os.path.exists("/usr/bin/python3"):
            raise DomainUnavailable(
                "there is no /usr/bin/python3 for the sandbox", hint="install python3"
            )

    @staticmethod
    def _identity(spec: SandboxSpec) -> list[str]:
        if os.geteuid() == spec.uid and os.getegid() == spec.gid:
            return []
        if os.geteuid() != 0:
            raise DomainUnavailable(
                f"only root can run commands as the workspace's owner, user {spec.uid}",
                hint="use a workspace of your own",
            )
        return ["setpriv", f"--reuid={spec.uid}", f"--regid={spec.gid}", "--clear-groups", "--"]

    @staticmethod
    def _limits(spec: SandboxSpec) -> list[str]:
        config = spec.config
        limits = [
            *("prlimit", "--core=0", f"--nofile={config.open_files}"),
            f"--fsize={size_in_bytes(config.file_size)}",
            f"--as={size_in_bytes(config.memory)}",
        ]
        if spec.uid != 0:
            # Counted per sandbox, which is a user namespace of its own.
            limits.append(f"--nproc={config.pids}")
        return [*limits, "--"]

    @staticmethod
    def _system() -> list[str]:
        options = ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
        for name in ("bin", "sbin", "lib", "lib64"):
            if os.path.islink(f"/{name}"):
                options += ["--symlink", f"usr/{name}", f"/{name}"]
            elif os.path.isdir(f"/{name}"):
                options += ["--ro-bind", f"/{name}", f"/{name}"]
        for name in NEEDED_OF_ETC:
            options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        return options

    @staticmethod
    def _folders(spec: SandboxSpec) -> list[str]:
        room = ["--perms", "1777", "--size", str(size_in_bytes(spec.config.tmp_size)), "--tmpfs"]
        options = [*room, "/tmp"]  # noqa: S108 - the sandbox's own
        if spec.workspace is None:
            options += [*room, WORKSPACE]
        else:
            options += ["--bind" if spec.writable else "--ro-bind", str(spec.workspace), WORKSPACE]
        if spec.gate is not None:
            options += ["--ro-bind", str(spec.gate), GATE_FOLDER]
        return options

    def unavailable(self, said: str) -> DomainUnavailable:
        hint = "run: hardpoint doctor container"
        if "namespace" in said or "uid map" in said:
            hint = (
                "this machine lets no ordinary user make namespaces:"
                " sysctl kernel.unprivileged_userns_clone=1, or an AppArmor profile for bwrap"
            )
        return DomainUnavailable(f"no sandbox could be started: {said[-400:]}", hint=hint)

    async def remove(self, name: str) -> None:
        """Nothing outlives the process that holds a sandbox."""


def _readable(data: bytes) -> int:
    """An open file in memory with this content, for a process that inherits it."""
    fd = os.memfd_create("hardpoint")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
