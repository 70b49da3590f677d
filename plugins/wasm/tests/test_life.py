"""The life of an added tool: found, shown, granted, pinned, quarantined, removed."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import wasmtime
from wasm_guests import other, wat

from hardpoint import HardpointError, JobContext, NotAuthorized, SandboxError, ToolDefinition
from hardpoint.errors import ConfigError, ExternalService
from hardpoint.interfaces import CatalogueEntry
from hardpoint_wasm import sources
from hardpoint_wasm.check import WasmCheck
from hardpoint_wasm.install import granted, inspect, make_runtime, make_store, make_tools
from hardpoint_wasm.installer import WasmInstaller, read_catalogue
from hardpoint_wasm.settings import WasmConfig
from hardpoint_wasm.store import Record, Store
from hardpoint_wasm.toolset import WasmToolset

TOUR = bytes(wasmtime.wat2wasm(wat.tour()))
ECHO = bytes(wasmtime.wat2wasm(wat.tool(description="echoes")))
ASKED = {
    "http": {"allowlist": [{"host": "api.example.com"}]},
    "workspace": {"allowed_prefixes": ["notes"]},
}


@pytest.fixture
def config(tmp_path: Path, cache_dir: Path) -> WasmConfig:
    return WasmConfig(folder=tmp_path / "tools", cache_dir=cache_dir)


def write(folder: Path, name: str, wasm: bytes = TOUR, asked: Any = ASKED) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.wasm"
    path.write_bytes(wasm)
    if asked is not None:
        (folder / f"{name}.capabilities.json").write_text(json.dumps(asked))
    return path


async def add(config: WasmConfig, path: Path, permissions: Sequence[str] = ()) -> Record:
    runtime = make_runtime(config)
    [found] = await sources.find(str(path))
    record = granted(await inspect(found, config, runtime), permissions)
    make_store(config).add(record, found.wasm)
    runtime.close()
    return record


class Registry:
    """What a toolset tells its registrar."""

    def __init__(self) -> None:
        self.definitions: Sequence[ToolDefinition] = ()

    def replace(self, toolset: Any, definitions: Sequence[ToolDefinition]) -> None:
        self.definitions = definitions


# adding and granting ---------------------------------------------------------------------------


async def test_an_added_tool_is_listed_without_running_it(
    config: WasmConfig, tmp_path: Path
) -> None:
    await add(config, write(tmp_path / "src", "tour"))

    toolset = WasmToolset(config, Registry().replace)

    [definition] = toolset.definitions()
    assert definition.name == "tour"
    assert definition.description == "a tool in WebAssembly text"
    assert toolset.runtime._modules == {}


async def test_a_tool_runs_under_what_was_granted_and_no_more(
    config: WasmConfig, tmp_path: Path, context: JobContext, services: Any
) -> None:
    await add(config, write(tmp_path / "src", "tour"), ["workspace:notes"])
    toolset = WasmToolset(config, Registry().replace)

    result = (await toolset.get_tool("tour").execute({}, context)).result

    assert '"document":"hello notes"' in result
    assert "may not make requests" in result
    assert services.requests == []
    toolset.runtime.close()


async def test_guidance_beside_the_schema_reaches_tool_info(
    config: WasmConfig, tmp_path: Path
) -> None:
    summary = {"always_required": ["action"], "notes": ["it only reads"], "examples": [{"a": 1}]}
    path = write(tmp_path / "src", "tour", asked={"discovery_summary": summary})
    await add(config, path)

    tool = WasmToolset(config, Registry().replace).get_tool("tour")

    told = tool.discovery_summary()
    assert told is not None
    assert told.always_required == ["action"]
    assert told.notes == ["it only reads"]
    assert told.examples == [{"a": 1}]


async def test_only_what_is_asked_for_can_be_granted(config: WasmConfig, tmp_path: Path) -> None:
    record = await add(config, write(tmp_path / "src", "tour"))

    with pytest.raises(HardpointError, match="does not ask for 'tool:shell'"):
        granted(record, ["tool:shell"])
    assert granted(record, ["workspace:notes"]).missing == ("http:api.example.com",)


async def test_several_functions_become_several_tools(
    config: WasmConfig, tmp_path: Path, context: JobContext
) -> None:
    function = """(core module $m{0} (func (export "f") (param i32) (result i32) (local.get 0)))
      (core instance $i{0} (instantiate $m{0}))
      (func (export "f{0}") (param "x" u32) (result u32) (canon lift (core func $i{0} "f")))"""
    source = other.typed(function.format("1"), function.format("2"))
    wasm = bytes(wasmtime.wat2wasm(source))
    await add(config, write(tmp_path / "src", "calc", wasm, None))

    toolset = WasmToolset(config, Registry().replace)

    assert [d.name for d in toolset.definitions()] == ["calc__f1", "calc__f2"]
    assert (await toolset.get_tool("calc__f2").execute({"x": 7}, context)).result == 7
    toolset.runtime.close()


# pinning ---------------------------------------------------------------------------------------


async def test_a_module_that_changed_is_quarantined_and_not_listed(
    config: WasmConfig, tmp_path: Path
) -> None:
    record = await add(config, write(tmp_path / "src", "tour"))
    store = make_store(config)
    store.module_path(record).write_bytes(ECHO)

    toolset = WasmToolset(config, Registry().replace)

    assert toolset.definitions() == []
    assert store.get("tour").status == "quarantined"
    assert "not the one that was added" in store.get("tour").reason


async def test_a_module_that_changes_under_a_running_program_is_not_run(
    config: WasmConfig, tmp_path: Path, context: JobContext
) -> None:
    record = await add(config, write(tmp_path / "src", "tour"))
    toolset = WasmToolset(config, Registry().replace)
    path = make_store(config).module_path(record)
    status = path.stat()
    path.write_bytes(ECHO.ljust(len(TOUR), b"\0"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    with pytest.raises(SandboxError, match="quarantined"):
        await toolset.get_tool("tour").execute({}, context)


async def test_a_quarantined_tool_comes_back_when_it_is_added_again(
    config: WasmConfig, tmp_path: Path
) -> None:
    path = write(tmp_path / "src", "tour")
    record = await add(config, path)
    make_store(config).module_path(record).write_bytes(b"x")
    WasmToolset(config, Registry().replace)

    await add(config, path)

    assert [d.name for d in WasmToolset(config, Registry().replace).definitions()] == ["tour"]


async def test_a_capabilities_file_that_changes_later_changes_nothing(
    config: WasmConfig, tmp_path: Path
) -> None:
    path = write(tmp_path / "src", "tour")
    await add(config, path, ["workspace:notes"])
    write(tmp_path / "src", "tour", asked={"http": {"allowlist": [{"host": "*.com"}]}})

    capabilities = make_store(config).get("tour").capabilities

    assert capabilities.permissions == ("workspace:notes",)


def test_records_and_modules_belong_to_the_user_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "tools")

    store.add(Record("a", "sha256:0", "world"), b"x")

    assert store.folder.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in store.folder.iterdir())


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"name": "a"}', '{"name": 1}', "\xff", "null"])
def test_a_damaged_record_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)

    with pytest.raises(ConfigError, match="damaged"):
        Store(tmp_path).get("a")


def test_a_damaged_record_does_not_hide_the_others(tmp_path: Path) -> None:
    store = Store(tmp_path / "tools")
    store.add(Record("a", "sha256:0", "world"))
    (store.folder / "b.json").write_text("{")

    assert [record.name for record in store.records()] == ["a"]


def test_a_folder_that_others_can_write_is_not_trusted(tmp_path: Path) -> None:
    store = Store(tmp_path / "tools")
    store.add(Record("a", "sha256:0", "world"))
    os.chmod(store.folder, 0o777)

    with pytest.raises(ConfigError, match="others could change"):
        store.records()


def test_a_record_under_another_name_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(Record("a", "sha256:0", "world"))
    os.rename(tmp_path / "a.json", tmp_path / "b.json")

    with pytest.raises(ConfigError, match="record of 'a'"):
        store.get("b")


def test_removing_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "tools")
    store.add(Record("a", "sha256:0", "world"), b"x")

    store.remove("a")

    assert list(store.folder.iterdir()) == []
    with pytest.raises(HardpointError, match="no WebAssembly tool 'a'"):
        store.get("a")


# discovery -------------------------------------------------------------------------------------


async def test_a_discovered_folder_is_described_and_pinned_at_first_use(
    config: WasmConfig, tmp_path: Path, context: JobContext
) -> None:
    write(tmp_path / "found", "tour")
    (tmp_path / "found" / ".hidden.wasm").write_bytes(b"x")
    registry = Registry()
    config = attrs.evolve(config, discover=(tmp_path / "found",))
    toolset = WasmToolset(config, registry.replace)
    assert [d.name for d in toolset.definitions()] == ["tour"]

    async with toolset:
        [definition] = registry.definitions
        result = (await toolset.get_tool("tour").execute({}, context)).result

    assert definition.description == "a tool in WebAssembly text"
    assert '"document":"hello notes"' in result
    assert make_store(config).get("tour").path == str(tmp_path / "found" / "tour.wasm")


@pytest.mark.parametrize("change", ["module", "capabilities", "gone"])
async def test_a_discovered_tool_that_changes_is_quarantined(
    config: WasmConfig, tmp_path: Path, change: str
) -> None:
    path = write(tmp_path / "found", "tour")
    config = attrs.evolve(config, discover=(tmp_path / "found",))
    async with WasmToolset(config, Registry().replace):
        pass
    if change == "module":
        path.write_bytes(ECHO)
    elif change == "capabilities":
        write(tmp_path / "found", "tour", asked={"http": {"allowlist": [{"host": "*.com"}]}})
    else:
        path.unlink()

    toolset = WasmToolset(config, Registry().replace)

    assert toolset.definitions() == []
    assert make_store(config).get("tour").status == "quarantined"


async def test_what_is_no_tool_in_a_discovered_folder_stops_nothing(
    config: WasmConfig, tmp_path: Path
) -> None:
    write(tmp_path / "found", "broken", b"\0asm\1\0\0\0\1", None)
    write(tmp_path / "found", "echo", ECHO, None)
    write(tmp_path / "found", "odd", ECHO, {"unknown": 1})
    registry = Registry()
    config = attrs.evolve(config, discover=(tmp_path / "found", tmp_path / "missing"))

    async with WasmToolset(config, registry.replace):
        names = {definition.name for definition in registry.definitions}

    assert "echo" in names
    assert "odd" not in names
    assert [r.name for r in make_store(config).records()] == ["echo"]


# sources ---------------------------------------------------------------------------------------


async def test_a_bundle_holds_a_module_and_its_capabilities(tmp_path: Path) -> None:
    bundle = io.BytesIO()
    with tarfile.open(fileobj=bundle, mode="w:gz") as archive:
        for name, data in (("x/tour.wasm", TOUR), ("x/tour.capabilities.json", b"{}")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    path = tmp_path / "tour.tar.gz"
    path.write_bytes(bundle.getvalue())

    [found] = await sources.find(str(path))

    assert (found.name, found.wasm) == ("tour", TOUR)


@pytest.mark.parametrize("data", [b"", b"x", b"\x1f\x8b" + bytes(50)])
async def test_a_broken_bundle_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "tour.tar.gz"
    path.write_bytes(data)

    with pytest.raises(ConfigError, match="bundle"):
        await sources.find(str(path))


async def test_a_bundle_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.tar.gz"
    with tarfile.open(path, mode="w:gz") as archive:
        member = tarfile.TarInfo("bomb.wasm")
        member.size = 70 << 20
        archive.addfile(member, io.BytesIO(bytes(member.size)))

    with pytest.raises(ConfigError, match="more than"):
        await sources.find(str(path))


async def test_a_folder_gives_its_modules_or_those_of_its_build(tmp_path: Path) -> None:
    write(tmp_path / "build", "a")

    assert [found.name for found in await sources.find(str(tmp_path))] == ["a"]


async def test_a_folder_without_a_module_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no \.wasm"):
        await sources.find(str(tmp_path))


async def test_another_hash_than_expected_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "tour")

    with pytest.raises(NotAuthorized, match="SHA-256"):
        await sources.find(str(path), sha256="0" * 64)


class Web:
    """A client whose addresses are files in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    async def __aenter__(self) -> Web:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        pass

    async def request(self, method: str, url: str, *, max_bytes: int, **options: Any) -> Any:
        from hardpoint.net import HttpResponse

        data = self.files.get(url)
        if data is None:
            return HttpResponse(404, url)
        return HttpResponse(200, url, (), data[:max_bytes], len(data) > max_bytes)


async def test_an_address_gives_the_module_and_the_file_beside_it() -> None:
    base = "https://tools.example.com/tour"
    web = Web({f"{base}.wasm": TOUR, f"{base}.capabilities.json": json.dumps(ASKED).encode()})

    [found] = await sources.find(f"{base}.wasm", http=web)

    assert (found.name, found.wasm, found.asked) == ("tour", TOUR, ASKED)


async def test_an_address_without_a_capabilities_file_asks_for_nothing() -> None:
    web = Web({"https://tools.example.com/tour.wasm": TOUR})

    [found] = await sources.find("https://tools.example.com/tour.wasm", http=web)

    assert found.asked == {}


async def test_an_address_that_gives_too_much_or_nothing_is_an_error() -> None:
    web = Web({"https://tools.example.com/tour.wasm": TOUR})

    with pytest.raises(ExternalService, match="more than 10 bytes"):
        await sources.find("https://tools.example.com/tour.wasm", http=web, max_bytes=10)
    with pytest.raises(ExternalService, match="404"):
        await sources.find("https://tools.example.com/other.wasm", http=web)


async def test_a_plain_http_or_private_address_is_refused() -> None:
    for url in ("http://tools.example.com/a.wasm", "https://127.0.0.1/a.wasm"):
        with pytest.raises(HardpointError):
            await sources.find(url)


# the installer ---------------------------------------------------------------------------------


def _catalogue(tmp_path: Path, sha256: str | None) -> Path:
    path = tmp_path / "catalogue.json"
    entry = {"name": "tour", "description": "A tour", "source": "src/tour.wasm", "sha256": sha256}
    path.write_text(json.dumps([entry]))
    return path


async def test_the_installer_finds_installs_and_removes_but_grants_nothing(
    config: WasmConfig, tmp_path: Path, context: JobContext
) -> None:
    import hashlib

    write(tmp_path / "src", "tour")
    catalogue = _catalogue(tmp_path, hashlib.sha256(TOUR).hexdigest())
    config = attrs.evolve(config, catalogues=(catalogue,))
    toolset = WasmToolset(config, Registry().replace)
    installer = WasmInstaller(config)

    [entry] = await installer.find("tour a")
    installed = await installer.install(entry, context)
    active = await installer.activate("tour", context)
    [locked] = await installer.lock_entries()

    assert (installed.status, active.status) == ("installed", "active")
    assert "hardpoint wasm grant tour" in active.detail
    assert make_store(config).get("tour").granted == ()
    assert locked.digest.startswith("sha256:")
    assert (await installer.remove("tour", context)).status == "available"
    assert toolset.definitions() == []
    assert await installer.find("nothing like it") == []
    toolset.runtime.close()


@pytest.mark.parametrize("sha256", [None, "0" * 64])
async def test_the_installer_wants_the_right_hash(
    config: WasmConfig, tmp_path: Path, context: JobContext, sha256: str | None
) -> None:
    path = write(tmp_path / "src", "tour")

    with pytest.raises(NotAuthorized):
        await WasmInstaller(config).install(
            CatalogueEntry("tour", "wasm_tool", source=str(path), sha256=sha256), context
        )
    assert make_store(config).records() == ()


@pytest.mark.parametrize("text", ["", "{}x", '[{"name": "a"}]', '[{"name": "a", "source": "b",'
                                  ' "colour": 1}]', "[1]"])  # fmt: skip
def test_a_catalogue_that_cannot_be_read_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "catalogue.json"
    path.write_text(text)

    with pytest.raises(ConfigError, match="catalogue"):
        read_catalogue(path)


# doctor and settings ---------------------------------------------------------------------------


async def test_doctor_tries_real_guests(config: WasmConfig, tmp_path: Path) -> None:
    await add(config, write(tmp_path / "src", "tour"))
    toolset = WasmToolset(config, Registry().replace)

    results = await WasmCheck(config).run()

    assert [result.status for result in results] == ["ok", "ok", "ok"]
    toolset.runtime.close()


async def test_doctor_names_what_changed(config: WasmConfig, tmp_path: Path) -> None:
    record = await add(config, write(tmp_path / "src", "tour"))
    toolset = WasmToolset(config, Registry().replace)
    make_store(config).module_path(record).write_bytes(b"x")

    results = await WasmCheck(config).run()

    assert results[2].status == "failed"
    assert "tour" in results[2].detail
    toolset.runtime.close()


def test_limits_of_a_tool_stand_above_those_of_the_plugin() -> None:
    import cattrs

    table = {"timeout": 5.0, "fuel": 10**9, "tools": {"a": {"timeout": 2.0, "env": {"LANG": "C"}}}}
    config = cattrs.structure(table, WasmConfig)

    assert (config.limits().timeout, config.limits().fuel) == (5.0, 10**9)
    assert (config.limits("a").timeout, config.limits("a").fuel) == (2.0, 10**9)
    assert config.env_of("a") == {"LANG": "C"}


@pytest.mark.parametrize("table", [
    {"timeout": 0}, {"memory": 1}, {"fuel": 0}, {"tools": {"a": {"stack": 1 << 30}}},
    {"concurrency": 0},
])  # fmt: skip
def test_a_limit_that_cannot_hold_is_an_error(table: dict[str, Any]) -> None:
    import cattrs

    with pytest.raises((ConfigError, cattrs.BaseValidationError, ValueError)):
        cattrs.structure(table, WasmConfig)


async def test_tools_of_a_record_are_made_without_opening_it(config: WasmConfig) -> None:
    runtime = make_runtime(config)
    record = Record("a", "sha256:0", "world", interfaces={})

    assert make_tools(record, make_store(config), config, runtime) == {}
    assert runtime._modules == {}
