"""A real sandbox for tests: Podman must be there in CI, elsewhere its absence skips."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

from hardpoint import JobContext, Tool
from hardpoint.interfaces import CallHandle, Invocation
from hardpoint_container import ContainerConfig, ContainerDomain
from hardpoint_container.sandbox import ContainerSandbox

SMALL = {"memory": "256m", "cpus": 2.0, "pids": 64, "tmp_size": "16m", "file_size": "32m"}


PROGRAMS = {"podman": "podman", "bubblewrap": "bwrap"}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "podman_only: bubblewrap does not promise this")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what both engines promise on both."""
    if "engine" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("podman_only")
        metafunc.parametrize("engine", ["podman"] if only else list(PROGRAMS))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not item.get_closest_marker("podman"):
        return
    engine = getattr(item, "callspec", None) and item.callspec.params.get("engine")  # type: ignore[attr-defined]
    program = PROGRAMS[engine or "podman"]
    if shutil.which(program) is None:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have {program}: see .ci/apt-packages.txt")
        pytest.skip(f"{program} is not installed")


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Profiles and the like go to a folder of the test, not to the user's."""
    monkeypatch.setenv("HARDPOINT_DATA_DIR", str(tmp_path.with_name(f"{tmp_path.name}-data")))


@pytest.fixture
def workspace() -> Iterator[Path]:
    # Not tmp_path: its long names make socket paths too long.
    folder = Path(tempfile.mkdtemp(prefix="hp-ws-")).resolve()
    folder.chmod(0o755)
    yield folder
    # A hostile tree is deeper than Python can walk.
    subprocess.run(["rm", "-rf", "--", str(folder)], check=True)


@pytest.fixture
def small(engine: str) -> Callable[..., ContainerConfig]:
    """Makes a config with limits that tests reach quickly."""
    given: dict[str, Any] = {**SMALL, "engine": engine}
    if engine == "bubblewrap":
        given["allow_unenforced"] = frozenset({"memory", "pids", "cpus"})
    return lambda **changes: ContainerConfig(**{**given, **changes})


@attrs.frozen
class Kit:
    """One domain, one context, and the ways to use them."""

    domain: ContainerDomain
    context: JobContext

    async def tool(self, tool: Tool, *, within: float = 60, **params: Any) -> Any:
        """Canonicalise and run one tool; its result."""
        if tool.name != "shell":
            params = (await tool.canonicalise(params, self.context)).params
        limit = timedelta(seconds=within)
        invocation = Invocation(tool, tool.name, params, self.context, limit)
        return (await self.domain.run(invocation)).result

    async def sh(self, command: str | Sequence[str], *, seconds: float = 20, **options: Any) -> Any:
        """Run one command; how it ended."""
        async with self.domain.session(self.context) as session:
            sandbox = ContainerSandbox(session, time.monotonic() + seconds + 30, {})
            return await sandbox.exec(command, timeout=timedelta(seconds=seconds), **options)

    async def out(self, command: str | Sequence[str], **options: Any) -> str:
        """Run one command that must succeed; what it wrote."""
        result = await self.sh(command, **options)
        assert result.ok, result
        return result.stdout.decode().rstrip("\n")

    def named(self, **fields: Any) -> Kit:
        """The same domain, called by somebody else."""
        return Kit(self.domain, make_context(**{"workspace": self.context.workspace, **fields}))


def make_context(**fields: Any) -> JobContext:
    handle = CallHandle(call_id="c1", services=None, **fields.pop("handle", {}))
    return JobContext(**{"user_id": "ana", **fields}).bound(handle)


MakeKit = Callable[..., Awaitable[Kit]]


@pytest.fixture
async def make_kit(
    workspace: Path, small: Callable[..., ContainerConfig]
) -> AsyncIterator[MakeKit]:
    """Makes a kit with a domain of its own, closed after the test."""
    domains: list[ContainerDomain] = []

    async def make(*, context: dict[str, Any] | None = None, **config: Any) -> Kit:
        domain = ContainerDomain(small(**config))
        domains.append(await domain.__aenter__())
        return Kit(domain, make_context(**{"workspace": workspace, **(context or {})}))

    yield make
    for domain in domains:
        await domain.__aexit__(None, None, None)


@pytest.fixture
async def kit(make_kit: MakeKit) -> Kit:
    return await make_kit()


@pytest.fixture
def containers() -> Callable[[], set[str]]:
    """Gives the names of every sandbox that exists now."""

    def names() -> set[str]:
        command = ["podman", "ps", "-a", "--filter=label=hardpoint=1", "--format={{.Names}}"]
        return set(subprocess.check_output(command, text=True).split())

    return names


@pytest.fixture
def mine(containers: Callable[[], set[str]]) -> Callable[[], set[str]]:
    """Gives the names of the sandboxes that this process holds now."""
    return lambda: {name for name in containers() if name.startswith(f"hardpoint-{os.getpid()}-")}
