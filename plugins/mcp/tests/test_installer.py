"""Servers from catalogues: what is brought, what is refused, and what becomes of their logins."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from hardpoint import Config, JobContext, Runtime
from hardpoint.errors import ConfigError, ExecutionFailed, NotAuthorized
from hardpoint.interfaces import CatalogueEntry
from hardpoint_mcp.catalogue import tools_hash
from hardpoint_mcp.installed import InstalledServers
from hardpoint_mcp.installer import McpInstaller
from hardpoint_mcp.packages import check_requirements, wheel_name

HERE = Path(__file__).parent
HASH = "ab" * 32


def wheel(folder: Path, *programs: str) -> tuple[Path, str]:
    """The fake server as a package, and its hash."""
    info = "fakes-1.0.dist-info"
    body = (HERE / "fake_server.py").read_text()
    scripts = "".join(f"{name} = fakes:main\n" for name in programs or ("fakes",))
    files = {
        "fakes.py": body,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: fakes\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{scripts}",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    path = folder / "fakes-1.0-py3-none-any.whl"
    path.write_bytes(out.getvalue())
    return path, hashlib.sha256(out.getvalue()).hexdigest()


def entry(path: Path, sha256: str | None, **extra: Any) -> CatalogueEntry:
    return CatalogueEntry("fakes", "mcp_server", "Fakes.", str(path), sha256, extra)


@attrs.frozen
class Running:
    runtime: Runtime
    installer: McpInstaller

    async def tools(self) -> list[str]:
        return [name for name in self.runtime.registry if "__" in name]


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    config = Config(plugin={"mcp": {"servers": {"mine": {"command": "nothing-like-it"}}}})
    only = attrs.evolve(config, load_only=frozenset({"mcp"}))
    async with Runtime(only, installed_plugins=True) as runtime:
        yield Running(runtime, runtime.services.extensions("installer")["mcp_server"])


# what is brought -------------------------------------------------------------------------------


async def test_a_package_lives_in_its_own_environment_and_goes_with_it(
    running: Running, context: JobContext, tmp_path: Path
) -> None:
    path, sha256 = wheel(tmp_path)
    installer = running.installer

    installed = await installer.install(entry(path, sha256), context)
    assert (installed.status, await running.tools()) == ("installed", [])
    again = await installer.install(entry(path, sha256), context)
    assert again == installed
    for _ in range(2):
        active = await installer.activate("fakes", context)
        assert active.status == "active"
    assert "fakes__echo" in await running.tools()

    kinds = {(each.kind, each.name) for each in await installer.lock_entries()}
    assert kinds >= {("mcp_server", "fakes"), ("mcp_tool", "fakes/echo")}

    newer = entry(path, sha256, args=["x"])
    with pytest.raises(NotAuthorized, match="another content"):
        await installer.install(newer, context)
    upgraded = await installer.upgrade(newer, context)
    assert upgraded.status == "active"
    assert len(list(path.parent.rglob("env-*"))) == 1
    bad = entry(tmp_path / "none-1.0-py3-none-any.whl", sha256, args=["y"])
    with pytest.raises(ConfigError):
        await installer.upgrade(bad, context)
    assert "fakes__echo" in await running.tools()

    await installer.remove("fakes", context)
    assert await running.tools() == []
    assert not list(path.parent.rglob("env-*"))


async def test_the_program_is_the_one_that_the_entry_names(
    running: Running, context: JobContext, tmp_path: Path
) -> None:
    path, sha256 = wheel(tmp_path, "one", "two")

    with pytest.raises(ConfigError, match="no program 'three'; it has one, two"):
        await running.installer.install(entry(path, sha256, command="three"), context)
    assert not list(tmp_path.rglob("env-*"))


# what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sha256": "0" * 64}, "not what the catalogue names"),
        ({"sha256": None}, "names no package with its sha256"),
        ({"source": ""}, "names no package with its sha256"),
        ({"source": "server.tar.gz"}, "is not a wheel"),
        ({"name": "../up"}, "is not a server name"),
        ({"name": "mine"}, "can only be added by an operator"),
        ({"extra": {"url": "https://mcp.example.com/"}}, "names no tools_sha256"),
        ({"extra": {"url": "http://mcp.example.com/", "tools_sha256": HASH}}, "must use https"),
        ({"extra": {"url": "https://u:p@example.com/", "tools_sha256": HASH}}, "must not hold"),
        ({"extra": {"args": ["${HOME}"]}}, "refers to"),
        ({"extra": {"env": {"KEY": "secret:key"}}}, "refers to"),
        ({"extra": {"url": "https://${HOST}/", "tools_sha256": HASH}}, "refers to"),
        ({"extra": {"requirements": ["mcp"]}}, "is not pinned"),
        ({"extra": {"requirements": ["--index-url=https://example.com/"]}}, "is not pinned"),
    ],
)
async def test_an_entry_that_asks_for_too_much_is_refused_and_leaves_nothing(
    running: Running, context: JobContext, tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    path, sha256 = wheel(tmp_path)
    asked = attrs.evolve(entry(path, sha256), **wrong)

    with pytest.raises((NotAuthorized, ConfigError), match=said):
        await running.installer.install(asked, context)
    names = [state.name for state in await running.installer.installed()]
    assert names == ["mine"]
    assert not list((tmp_path / "hardpoint").rglob("installed/*"))


@pytest.mark.parametrize(
    "line",
    [
        "mcp",
        "mcp==1.0",
        "mcp>=1.0 --hash=sha256:" + HASH,
        "mcp @ https://example.com/mcp.whl --hash=sha256:" + HASH,
        "mcp==1.0 --hash=md5:abc",
        "mcp==1.0 --hash=sha256:" + HASH + "\n-e .",
        "-r other.txt",
        "mcp==1.0 --hash=sha256:" + HASH + " --index-url https://example.com",
    ],
)
def test_a_requirement_is_a_version_with_hashes_and_nothing_else(line: str) -> None:
    check_requirements([f"mcp==1.0 --hash=sha256:{HASH} --hash=sha256:{HASH}"])
    with pytest.raises(ConfigError, match="not pinned"):
        check_requirements([line])


@pytest.mark.parametrize("source", ["a.whl", "https://example.com/x.tar.gz", "a-1-py3.whl/x", ""])
def test_only_a_wheel_is_a_package(source: str) -> None:
    right = "b-1.0-py3-none-any.whl"
    assert wheel_name(f"https://example.com/a/{right}?x=1") == right
    with pytest.raises(ConfigError, match="not a wheel"):
        wheel_name(source)


async def test_configured_servers_are_the_operators(running: Running, context: JobContext) -> None:
    for work in (
        running.installer.remove("mine", context),
        running.installer.upgrade(CatalogueEntry("mine", "mcp_server"), context),
    ):
        with pytest.raises(NotAuthorized, match="by an operator"):
            await work
    with pytest.raises(ExecutionFailed):
        await running.installer.activate("nobody", context)


def test_a_damaged_record_costs_only_its_server(tmp_path: Path) -> None:
    for name, content in (("a", "{"), ("b", json.dumps({"name": "other"})), ("c", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(content)

    assert InstalledServers(tmp_path).all() == {}


# a server at an address -------------------------------------------------------------------------


async def test_a_server_at_an_address_counts_with_the_hash_of_its_tools(
    running: Running, context: JobContext, http: Any, kit: Any
) -> None:
    url = await http.start(lambda request: kit.old_server(request))
    wrong = CatalogueEntry("far", "mcp_server", extra={"url": url, "tools_sha256": HASH})
    await running.installer.install(wrong, context)
    with pytest.raises(NotAuthorized, match="not those of the catalogue: their hash is"):
        await running.installer.activate("far", context)
    [state] = [s for s in await running.installer.installed() if s.name == "far"]
    assert state.status == "quarantined"
    assert await running.tools() == []

    found = state.detail.rpartition(" ")[2]
    right = attrs.evolve(wrong, extra={"url": url, "tools_sha256": found})
    await running.installer.upgrade(right, context)
    assert (await running.installer.activate("far", context)).status == "active"
    toolset = running.installer.servers.toolsets["far"]
    assert tools_hash(toolset.upstream.catalogue) == found
