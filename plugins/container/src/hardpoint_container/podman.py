"""Sandboxes by Podman: one `podman run -i` holds one sandbox. No service is needed."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import logging
import os
import platform
import resource
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from hardpoint.errors import DomainUnavailable
from hardpoint_container.config import IMAGE, WORKSPACE, size_in_bytes
from hardpoint_container.engine import (
    GATE_FOLDER,
    Engine,
    Launch,
    SandboxSpec,
    command_environment,
)
from hardpoint_container.owner import is_alive, my_mark
from hardpoint_container.seccomp import write_profile

logger = logging.getLogger(__name__)

LABEL: Final = "hardpoint"
OWNER: Final = "hardpoint.owner"
MASKED: Final = "/proc/cmdline:/proc/loadavg:/sys/block:/sys/class:/sys/devices/virtual/dmi"
PASSED: Final = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "DBUS_SESSION_BUS_ADDRESS")
PASSED_PREFIXES: Final = ("XDG_", "CONTAINER_", "CONTAINERS_", "PODMAN_", "STORAGE_", "DOCKER_")

INSTALL_HINT: Final = (
    "install Podman: 'apt install podman' (Debian, Ubuntu), 'dnf install podman' (Fedora),"
    " 'brew install podman && podman machine init --now' (macOS)"
)
# What Podman says, and the one thing to do about it.
FAILURES: Final = (
    (
        "cgroups in hybrid mode not supported",
        'crun cannot work with this machine\'s cgroups; install runc and set runtime = "runc"'
        " under [engine] in containers.conf",
    ),
    (
        "error setting rlimit",
        "the hard limits of this session are too low; raise them (ulimit -Hn) or lower open_files",
    ),
    (
        "no subuid ranges found",
        "rootless Podman needs a range of user numbers:"
        " sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER",
    ),
    ("newuidmap", "rootless Podman needs the newuidmap program: install the package uidmap"),
    (
        "cannot connect to podman",
        "the Podman machine does not run: podman machine start",
    ),
    (
        "unable to connect to podman",
        "the Podman machine does not run: podman machine start",
    ),
    ("seccomp", "this Podman was built without seccomp, or its service cannot read the profile"),
    ("cgroup", "Podman cannot make a control group: run 'podman info' and see docs on cgroups"),
    ("permission denied", "Podman was refused something; try 'podman run --rm IMAGE true' by hand"),
)


class PodmanEngine(Engine):
    """Podman's command line: rootful, rootless or remote."""

    name: ClassVar[str] = "podman"
    promises: ClassVar[frozenset[str]] = frozenset(
        {"seccomp", "memory", "pids", "cpus", "own_image", "container_deadline"}
    )

    def __init__(self, config: Any, profile_folder: Path) -> None:
        super().__init__(config)
        self._profile_folder = profile_folder
        self._image: str | None = None
        self._image_lock = asyncio.Lock()

    # starting

    async def launch(self, spec: SandboxSpec, runner: Sequence[str]) -> Launch:
        image = await self.image_digest()
        config = spec.config
        nofile = _at_most_hard(resource.RLIMIT_NOFILE, config.open_files)
        nproc = _at_most_hard(resource.RLIMIT_NPROC, 1 << 15)
        file_size = size_in_bytes(config.file_size)
        flags = [
            *("--pull=never", "--rm", "--interactive", f"--name={spec.name}"),
            *(f"--label={key}={value}" for key, value in self.labels(spec).items()),
            *("--cap-drop=all", "--security-opt=no-new-privileges"),
            f"--security-opt=seccomp={write_profile(self._profile_folder)}",
            f"--security-opt=mask={MASKED}",
            # As soon as one ulimit is given Podman sets 1048576 for the missing one of these two,
            # and the start fails where that is above the hard limit.
            *(f"--ulimit=nofile={nofile}:{nofile}", f"--ulimit=nproc={nproc}:{nproc}"),
            *("--ulimit=core=0:0", f"--ulimit=fsize={file_size}:{file_size}"),
            *(f"--memory={size_in_bytes(config.memory)}b", f"--pids-limit={config.pids}"),
            # Otherwise swap doubles the memory.
            f"--memory-swap={size_in_bytes(config.memory)}b",
            f"--cpus={config.cpus:g}",
            # A plain --read-only mounts several tmpfs without a size.
            f"--tmpfs=/tmp:rw,nosuid,nodev,size={size_in_bytes(config.tmp_size)},mode=1777,notmpcopyup",
            "--shm-size=1m",
            *self._user(spec),
            *(f"--env={name}={value}" for name, value in command_environment(spec).items()),
            # Podman copies the host's proxy variables otherwise, passwords included.
            *("--http-proxy=false", "--hostname=sandbox", f"--workdir={WORKSPACE}"),
            # Attached output would be logged on the host as well, without a limit.
            *("--log-driver=none", "--stop-signal=9", "--stop-timeout=1", "--init=false"),
            f"--timeout={int(config.max_life) + 60}",
        ]
        if config.policy != "full_access":
            flags += ["--read-only", "--read-only-tmpfs=false"]
        if config.network != "open":
            flags.append("--network=none")
        if spec.workspace is None:
            size = size_in_bytes(config.tmp_size)
            flags.append(f"--tmpfs={WORKSPACE}:rw,nosuid,nodev,size={size},mode=1777,notmpcopyup")
        else:
            flags.append(_bind(spec.workspace, WORKSPACE, read_only=not spec.writable))
        if spec.gate is not None:
            flags.append(_bind(spec.gate, GATE_FOLDER, read_only=True))
        if os.path.exists("/sys/fs/selinux/enforce"):
            # Relabelling the workspace would change the user's files.
            flags.append("--security-opt=label=disable")
        command = [self.config.podman, "run", *flags, "--entrypoint=", image, *runner]
        # Where its conmon runs it leaves a file called `oom` when memory runs out.
        return Launch(command, self.environment(), self._profile_folder)

    def labels(self, spec: SandboxSpec) -> dict[str, str]:
        return {LABEL: "1", OWNER: my_mark(), **spec.labels}

    def _user(self, spec: SandboxSpec) -> list[str]:
        flags = [f"--user={spec.uid}:{spec.gid}"]
        if self.rootless:
            # The same number inside and outside, so that files keep their owner.
            flags.append("--userns=keep-id")
        return flags

    @property
    def remote(self) -> bool:
        return platform.system() != "Linux" or "CONTAINER_HOST" in os.environ

    @property
    def rootless(self) -> bool:
        return not self.remote and os.geteuid() != 0

    def environment(self) -> dict[str, str]:
        return {
            name: value
            for name, value in os.environ.items()
            if name in PASSED or name.startswith(PASSED_PREFIXES)
        }

    def unavailable(self, said: str) -> DomainUnavailable:
        lowered = said.lower()
        for words, hint in FAILURES:
            if words in lowered:
                return DomainUnavailable(f"no sandbox could be started: {said[-400:]}", hint=hint)
        return DomainUnavailable(
            f"no sandbox could be started: {said[-400:]}", hint="run: hardpoint sandbox status"
        )

    # the image

    async def image_digest(self) -> str:
        """The id of the image; it is what runs, whatever its name points to later."""
        async with self._image_lock:
            if self._image is None:
                self._image = await self._find_image()
        return self._image

    async def _find_image(self) -> str:
        found = await self.inspect_image()
        if found is None and self.config.image == IMAGE and self.config.build_image:
            from hardpoint_container.image import build_from_packages, can_build_from_packages

            if can_build_from_packages():
                logger.info("building %s from this machine's packages, once", IMAGE)
                await build_from_packages(self)
                found = await self.inspect_image()
        if found is None:
            raise DomainUnavailable(
                f"the image {self.config.image!r} is not on this machine",
                hint="run: hardpoint sandbox build"
                if self.config.image == IMAGE
                else f"run: {self.config.podman} pull {self.config.image}",
            )
        return found

    async def inspect_image(self) -> str | None:
        """The id of the configured image, or None when it is not there."""
        code, out, said = await self.run(
            "image", "inspect", "--format={{.Id}}", self.config.image, check=False
        )
        if code == 0:
            return out.strip()
        if "not known" in said or "no such image" in said.lower() or "unable to find" in said:
            return None
        raise self.unavailable(said)

    def forget_image(self) -> None:
        """Look the image up again at the next start."""
        self._image = None

    # other commands

    async def run(
        self, *arguments: str, check: bool = True, timeout: float = 60.0, stdin: bytes | None = None
    ) -> tuple[int, str, str]:
        """One short Podman command: exit code, output, what it said.

        Raises:
            DomainUnavailable: Podman is missing, silent or, with `check`, failed.
        """
        program = shutil.which(self.config.podman)
        if program is None:
            raise DomainUnavailable(
                f"{self.config.podman!r} is not installed; nothing was started", hint=INSTALL_HINT
            )
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment(),
        )
        try:
            async with asyncio.timeout(timeout):
                out, said = await process.communicate(stdin)
        except TimeoutError:
            _kill(process)
            await process.wait()
            raise DomainUnavailable(
                f"podman {arguments[0]} gave no answer in {timeout:g} s"
            ) from None
        except BaseException:
            _kill(process)
            raise
        code = process.returncode or 0
        text = said.decode(errors="replace").strip()
        if check and code != 0:
            raise self.unavailable(text)
        return code, out.decode(errors="replace"), text

    async def remove(self, name: str) -> None:
        await self.run("rm", "--force", "--time=0", "--ignore", name, check=False)

    async def containers(self) -> list[Mapping[str, Any]]:
        """Every container that carries our label."""
        _, out, _ = await self.run("ps", "--all", f"--filter=label={LABEL}=1", "--format=json")
        found: list[Mapping[str, Any]] = json.loads(out or "[]") or []
        return found

    async def reap(self) -> list[str]:
        """Remove containers whose Hardpoint process is gone: only SIGKILL of conmon leaves any."""
        dead = [
            str(container["Names"][0])
            for container in await self.containers()
            if not is_alive((container.get("Labels") or {}).get(OWNER, ""))
        ]
        if dead:
            logger.warning("removing %d sandboxes of processes that are gone", len(dead))
            code, _, said = await self.run(
                "rm", "--force", "--time=0", "--ignore", *dead, check=False
            )
            if code != 0:
                logger.warning("removing left-over sandboxes: %s", said)
        return dead


def _kill(process: asyncio.subprocess.Process) -> None:
    try:
        process.kill()
    except ProcessLookupError:
        pass  # it has ended


def _at_most_hard(kind: int, wanted: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def _bind(source: Path, target: str, *, read_only: bool) -> str:
    options = ["type=bind", f"src={source}", f"target={target}", "nosuid", "nodev"]
    if read_only:
        options.append("ro=true")
    line = io.StringIO()
    # Podman reads the option as CSV; a comma in the folder's name needs the quotes.
    csv.writer(line, lineterminator="").writerow(options)
    return f"--mount={line.getvalue()}"
