"""What an engine must do for the domain, and the check that it did: `shortcomings`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs

from hardpoint.errors import DomainUnavailable
from hardpoint_container.config import PROXY_PORT, WORKSPACE, ContainerConfig, size_in_bytes

GATE_FOLDER = "/run/hardpoint"


@attrs.frozen
class SandboxSpec:
    """One sandbox to be started."""

    name: str
    config: ContainerConfig
    workspace: Path | None
    """A host folder; None gives an empty one in memory."""
    uid: int
    gid: int
    labels: Mapping[str, str] = attrs.field(factory=dict)
    gate: Path | None = None
    """The host folder with the egress gate's socket and certificate."""
    env: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def writable(self) -> bool:
        return self.config.policy != "read_only"

    def expected(self) -> dict[str, Any]:
        """What the runner is told at its start."""
        gate = None
        if self.gate is not None:
            gate = {"socket": f"{GATE_FOLDER}/egress.sock", "port": PROXY_PORT}
        return {"workspace": WORKSPACE, "max_life": self.config.max_life, "gate": gate}


@attrs.frozen
class Launch:
    """How the process that holds a sandbox is started."""

    command: list[str]
    environment: Mapping[str, str]
    folder: Path | None = None
    """Where it runs; the current folder when absent."""
    fds: tuple[int, ...] = ()
    """Open files that it inherits; closed here once it runs."""


def command_environment(spec: SandboxSpec) -> dict[str, str]:
    """The variables of every command; nothing of the host but what the config passes on."""
    config = spec.config
    found = {
        "HOME": "/tmp",  # noqa: S108 - inside the sandbox, a tmpfs of its own
        "TMPDIR": "/tmp",  # noqa: S108
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        # A workspace that belongs to somebody else is no reason for git to refuse.
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": WORKSPACE,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    found |= {name: os.environ[name] for name in config.pass_env if name in os.environ}
    if spec.gate is not None:
        proxy, bundle = f"http://127.0.0.1:{PROXY_PORT}", f"{GATE_FOLDER}/ca.pem"
        found |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
        found |= dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1")
        found |= dict.fromkeys(_BUNDLES, bundle)
    return {**found, **config.env, **spec.env}


_BUNDLES = (
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
)


class Engine(ABC):
    """Makes the process that holds one sandbox."""

    name: ClassVar[str]
    promises: ClassVar[frozenset[str]]
    """What this engine can enforce, as the words of `shortcomings`."""

    def __init__(self, config: ContainerConfig) -> None:
        self.config = config

    @abstractmethod
    async def launch(self, spec: SandboxSpec, runner: Sequence[str]) -> Launch:
        """How to start the sandbox with this runner in it.

        Raises:
            DomainUnavailable: Something is missing; the hint says the one thing to do.
        """

    @abstractmethod
    def unavailable(self, said: str) -> DomainUnavailable:
        """What a failed start means, and what to do about it."""

    @abstractmethod
    async def remove(self, name: str) -> None:
        """Make sure that nothing is left of a sandbox."""

    async def reap(self) -> list[str]:
        """Remove what dead processes of Hardpoint have left behind; the names."""
        return []

    async def image_digest(self) -> str:
        """What commands see as their system; part of an audit record."""
        return ""


def shortcomings(
    spec: SandboxSpec, facts: Mapping[str, Any], promises: frozenset[str]
) -> list[str]:
    """In which ways a started sandbox is weaker than asked, by the kernel's own account."""
    config = spec.config
    found = []

    def need(holds: bool, text: str) -> None:
        if not holds:
            found.append(text)

    need(facts["uid"] == spec.uid, f"commands run as user {facts['uid']}, not {spec.uid}")
    need(facts["capabilities"] == 0, "capabilities are left")
    need(facts["no_new_privileges"], "setuid programs can gain rights")
    need(facts["seccomp"] or "seccomp" not in promises, "no system call filter is active")
    if config.policy != "full_access":
        need(facts["root_read_only"], "the system is writable")
    if config.network != "open":
        need(set(facts["interfaces"]) <= {"lo"}, "there is a network")
    if spec.writable or spec.workspace is None:
        need(
            facts["workspace_writable"],
            f"user {spec.uid} cannot write to the workspace; set 'user' to its owner",
        )
    else:
        need(not facts["workspace_writable"], "the workspace is writable")
    memory = size_in_bytes(config.memory)
    limits = {
        "memory": facts["memory"] is not None and facts["memory"] <= memory,
        "pids": facts["pids"] is not None and facts["pids"] <= config.pids,
        "cpus": facts["cpu"] is not None and facts["cpu"] <= config.cpus * 1.01,
    }
    for name, enforced in limits.items():
        if not enforced and name not in config.allow_unenforced:
            found.append(f"the {name} limit is not enforced on this machine")
    return found
