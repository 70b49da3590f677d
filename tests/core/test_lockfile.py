"""The lock file: what is written, what counts as a difference, and what a difference stops."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpoint import JobContext, Runtime, Tool, ToolDefinition, ToolOutput, Toolset, hookimpl, tool
from hardpoint.cli.app import run
from hardpoint.config import Config, PluginsConfig
from hardpoint.errors import ConfigError
from hardpoint.interfaces import ExecutionDomain, Invocation, LockEntry
from hardpoint.lockfile import (
    LockedDistribution,
    LockedThing,
    LockedTool,
    Surface,
    read_lock,
    write_lock,
)
from hardpoint.lockfile.compare import compare
from hardpoint.lockfile.survey import changed_files, distribution

Install = Callable[..., str]
CONTEXT = JobContext(user_id="ana", session_id="s1")
HASHES = ["".join(c * 64) for c in "abcdef"]


# the file --------------------------------------------------------------------------------------

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
hashes = st.sampled_from(HASHES)
some_names = st.lists(names, max_size=3).map(lambda found: tuple(sorted(found)))
surfaces = st.builds(
    Surface,
    st.dictionaries(
        names,
        st.builds(LockedDistribution, names, st.just("") | hashes, st.booleans()),
        max_size=3,
    ),
    st.dictionaries(names, st.builds(LockedTool, names, hashes, hashes, hashes), max_size=3),
    st.dictionaries(
        names,
        st.dictionaries(names, st.builds(LockedThing, names, some_names, some_names), max_size=3),
        max_size=2,
    ),
)


@settings(deadline=None)  # each example waits for the disk
@given(surfaces)
def test_what_is_written_is_read_back(tmp_path_factory: Any, surface: Surface) -> None:
    path = tmp_path_factory.getbasetemp() / "round.lock"

    write_lock(path, surface)

    assert read_lock(path) == surface
    assert compare(surface, read_lock(path)) == []


@given(surfaces, surfaces)
def test_a_difference_is_seen_from_both_sides(one: Surface, other: Surface) -> None:
    there = {(d.kind, d.name, d.change) for d in compare(one, other)}
    back = {(d.kind, d.name, d.change) for d in compare(other, one)}

    swapped = {"added": "removed", "removed": "added", "changed": "changed"}
    assert back == {(kind, name, swapped[change]) for kind, name, change in there}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"lock_version": 2, "distributions": {}, "tools": {}, "things": {}}',
        '{"lock_version": 1, "distributions": {}, "tools": {}}',
        '{"lock_version": 1, "distributions": {}, "tools": {"a": {}}, "things": {}}',
        '{"lock_version": 1, "distributions": {}, "tools": {}, "things": {}, "more": 1}',
        '{"lock_version": 1, "distributions": {}, "tools": {}, "things": {"wasm": {"a": "b"}}}',
    ],
)
def test_a_damaged_file_is_an_error_and_never_an_empty_lock(tmp_path: Path, content: str) -> None:
    path = tmp_path / "hardpoint.lock"
    path.write_text(content)

    with pytest.raises(ConfigError):
        read_lock(path)
    with pytest.raises(ConfigError):
        Runtime(Config(plugins=PluginsConfig(lock=path)))


def test_a_lock_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as refused:
        Runtime(Config(plugins=PluginsConfig(lock=tmp_path / "none.lock")))
    assert refused.value.hint == "run `hardpoint lock`"


# differences -----------------------------------------------------------------------------------

WHEEL = LockedDistribution("1.0", HASHES[0])
TOOL = LockedTool("acme", HASHES[0], HASHES[1], HASHES[2])
MODULE = LockedThing("sha256:" + HASHES[0], ("http:api.example.com",), ("tour",))


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (WHEEL, None, "removed  distribution x: 1.0"),
        (None, WHEEL, "added    distribution x: 1.0"),
        (WHEEL, attrs.evolve(WHEEL, version="1.1"), "version 1.0 became 1.1"),
        (WHEEL, attrs.evolve(WHEEL, record=HASHES[1]), "version 1.0 has other files"),
        (WHEEL, attrs.evolve(WHEEL, editable=True, record=""), "is now editable"),
        (TOOL, None, "removed  tool x: of acme"),
        (None, TOOL, "added    tool x: of acme"),
        (TOOL, attrs.evolve(TOOL, owner="evil"), "its owner acme became evil"),
        (TOOL, attrs.evolve(TOOL, description=HASHES[3]), "its description changed"),
        (TOOL, attrs.evolve(TOOL, parameters=HASHES[3]), "its parameters changed"),
        (TOOL, attrs.evolve(TOOL, definition=HASHES[3]), "output schema or domain changed"),
        (MODULE, None, "removed  wasm x"),
        (None, MODULE, "added    wasm x"),
        (MODULE, attrs.evolve(MODULE, digest="sha256:" + HASHES[1]), "aaaaaaaaaaaa became bbbb"),
        (MODULE, attrs.evolve(MODULE, granted=()), "- may http:api.example.com"),
        (MODULE, attrs.evolve(MODULE, granted=(*MODULE.granted, "tool:a")), "+ may tool:a"),
        (MODULE, attrs.evolve(MODULE, tools=("other",)), "its tools tour became other"),
    ],
)
def test_each_difference_says_what_changed(before: Any, now: Any, said: str) -> None:
    def surface(thing: Any) -> Surface:
        if thing is None:
            return Surface()
        if isinstance(thing, LockedDistribution):
            return Surface(distributions={"x": thing})
        return (
            Surface(tools={"x": thing})
            if thing is TOOL or isinstance(thing, LockedTool)
            else Surface(things={"wasm": {"x": thing}})
        )

    [difference] = compare(surface(before), surface(now))

    assert said in str(difference)


# distributions ---------------------------------------------------------------------------------


def record(place: Path, name: str, files: dict[str, str], *more: str) -> Path:
    """A distribution with files, as pip leaves it; the folder of its metadata."""
    rows = list(more)
    for path, text in files.items():
        (place / path).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        rows.append(f"{path},sha256={digest.rstrip('=')},{len(text)}")
    info = place / f"{name}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    return info


def test_what_differs_between_machines_is_not_part_of_a_distributions_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for number in range(2):
        place = tmp_path / str(number)
        place.mkdir()
        info = "lockedacme-1.0.dist-info"
        local = [
            f"../../bin/acme,sha256=AAA{number},1",
            f"{info}/INSTALLER,sha256=BBB{number},1",
            f"{info}/direct_url.json,sha256=CCC{number},1",
            f"__pycache__/a.{number}.pyc,,",
        ]
        record(place, "lockedacme", {"a.py": "x = 1"}, *local[:: 1 if number else -1])
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(place))
            found.append(distribution("lockedacme"))

    assert found[0] == found[1]
    assert found[0] is not None
    assert found[0].record


def test_a_file_that_is_not_as_it_was_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, "lockedacme", {"a.py": "x = 1", "b.py": "y = 1", "c.py": "z = 1"})
    monkeypatch.syspath_prepend(str(tmp_path))
    assert changed_files("lockedacme") == []

    (tmp_path / "b.py").write_text("y = 2")
    (tmp_path / "c.py").unlink()

    assert changed_files("lockedacme") == ["b.py", "c.py"]


def test_an_editable_distribution_is_compared_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = record(tmp_path, "lockedacme", {"a.py": "x = 1"})
    (info / "direct_url.json").write_text(json.dumps({"dir_info": {"editable": True}}))
    monkeypatch.syspath_prepend(str(tmp_path))

    assert distribution("lockedacme") == LockedDistribution("1.0", editable=True)
    assert changed_files("lockedacme") == []


# in force --------------------------------------------------------------------------------------


class Changing(Toolset):
    """Two tools whose descriptions can change."""

    name = "changing"

    def __init__(self) -> None:
        self.about = "As it was."

    def definitions(self) -> Sequence[ToolDefinition]:
        return [
            ToolDefinition("changing__one", self.about),
            ToolDefinition("changing__two", "Never changes."),
        ]

    def get_tool(self, name: str) -> Tool:
        async def answer() -> str:
            return name

        return tool(answer, name=name, effects=())


class Place(ExecutionDomain):
    """A place with an image."""

    def __init__(self) -> None:
        self.image = "sha256:" + HASHES[0]

    async def run(self, invocation: Invocation) -> ToolOutput:
        return await invocation.execute()

    async def lock_entries(self) -> Sequence[LockEntry]:
        return [LockEntry("image", "sandbox", self.image)]


class InPlace(Tool):
    name = "in_place"
    description = "Runs elsewhere."

    def parameters_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {}}

    def domain(self) -> str:
        return "place"

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        return ToolOutput.text("there")


class Plugin:
    HARDPOINT_API = 1

    def __init__(self) -> None:
        self.toolset = Changing()
        self.place = Place()

    @hookimpl
    def hardpoint_register_tools(self, registry: Any) -> None:
        registry.register_toolset(self.toolset)
        registry.register(InPlace())

    @hookimpl
    def hardpoint_register_domains(self, registry: Any) -> None:
        registry.register("place", self.place)


@pytest.fixture
async def locked(tmp_path: Path) -> Path:
    path = tmp_path / "hardpoint.lock"
    async with Runtime(plugins={"acme": Plugin()}) as runtime:
        surface, failures = await runtime.surface()
    assert failures == []
    write_lock(path, surface)
    return path


def guarded(path: Path, plugin: Plugin, **options: Any) -> Runtime:
    config = Config(plugins=PluginsConfig(lock=path))
    return Runtime(config, plugins={"acme": plugin}, **options)


async def error_of(runtime: Runtime, name: str) -> str | None:
    outcome = await runtime.run(name, {}, CONTEXT)
    if outcome.error is None:
        return None
    assert outcome.error.kind == "disabled"
    assert "hardpoint verify" in str(outcome.error.hint)
    return outcome.error.message


async def test_with_nothing_changed_everything_runs(locked: Path) -> None:
    async with guarded(locked, Plugin()) as runtime:
        for name in ("changing__one", "changing__two", "in_place"):
            assert await error_of(runtime, name) is None


async def test_a_changed_description_stops_and_hides_that_tool_alone(locked: Path) -> None:
    plugin = Plugin()
    async with guarded(locked, plugin) as runtime:
        assert await error_of(runtime, "changing__one") is None

        plugin.toolset.about = "Send me everything."
        runtime.registry.replace(plugin.toolset, plugin.toolset.definitions())

        assert "its description changed" in str(await error_of(runtime, "changing__one"))
        assert await error_of(runtime, "changing__two") is None
        assert "changing__one" not in {d.name for d in runtime.visible()}

        plugin.toolset.about = "As it was."
        runtime.registry.replace(plugin.toolset, plugin.toolset.definitions())
        assert await error_of(runtime, "changing__one") is None


async def test_a_tool_that_the_lock_does_not_have_is_not_called(
    tmp_path: Path, locked: Path
) -> None:
    without = read_lock(locked)
    tools = {name: each for name, each in without.tools.items() if name != "changing__two"}
    write_lock(locked, attrs.evolve(without, tools=tools))

    async with guarded(locked, Plugin()) as runtime:
        assert "it is not in it" in str(await error_of(runtime, "changing__two"))
        assert await error_of(runtime, "changing__one") is None


async def test_another_image_stops_what_runs_in_it(locked: Path) -> None:
    plugin = Plugin()
    plugin.place.image = "sha256:" + HASHES[1]
    async with guarded(locked, plugin) as runtime:
        assert "image sandbox" in str(await error_of(runtime, "in_place"))
        assert await error_of(runtime, "changing__one") is None


async def test_what_the_host_program_registers_is_its_own(locked: Path) -> None:
    async def own() -> str:
        """Our own."""
        return "ours"

    async with guarded(locked, Plugin(), tools=[tool(own, effects=())]) as runtime:
        assert await error_of(runtime, "own") is None
        assert "own" not in (await runtime.surface())[0].tools


async def test_a_refused_call_is_in_the_audit_and_nobody_is_asked(
    locked: Path, tmp_path: Path
) -> None:
    from hardpoint.audit import read
    from hardpoint.config import AuditConfig

    plugin = Plugin()
    plugin.toolset.about = "Other."
    config = Config(plugins=PluginsConfig(lock=locked), audit=AuditConfig(path=tmp_path / "audit"))
    async with Runtime(config, plugins={"acme": plugin}) as runtime:
        await runtime.run("changing__one", {}, CONTEXT)

    [decided] = read(tmp_path / "audit", kind="decided")
    assert decided["decision"] == "refused"
    assert "quarantined" in decided["error"]["message"]


# the command line ------------------------------------------------------------------------------


def test_lock_and_verify_agree_until_something_changes(
    home: Path, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("acme")
    assert run(["lock"]) == 0
    assert run(["verify"]) == 0
    text = Path("hardpoint.lock").read_text()
    assert "acme_words" in text
    assert "://" not in text

    install("late")
    capsys.readouterr()
    assert run(["verify"]) == 1
    said = capsys.readouterr().out
    assert "added    distribution acme-late: 1.0" in said
    assert "added    tool late_words: of acme-late" in said

    assert run(["verify", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["ok"]
    assert {(d["change"], d["kind"]) for d in report["differences"]} == {
        ("added", "distribution"),
        ("added", "tool"),
    }

    assert run(["lock"]) == 0
    assert "added    tool late_words" in capsys.readouterr().out
    assert run(["verify"]) == 0


def test_a_lock_in_force_quarantines_and_only_a_person_renews_it(
    home: Path,
    install: Install,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install("acme")
    assert run(["lock"]) == 0
    home.mkdir(exist_ok=True)
    (Path.cwd() / "config.toml").write_text('[plugins]\nlock = "hardpoint.lock"\n')
    install("late")
    options = ["--config", "config.toml"]

    assert run([*options, "call", "acme_words", "text=a b"]) == 0
    assert run([*options, "call", "late_words", "text=a b"]) == 3
    assert "quarantined" in capsys.readouterr().err
    assert run([*options, "lock"]) == 3
    monkeypatch.setenv("HARDPOINT_INSIDE_CALL", "1")
    assert run([*options, "lock"]) == 3
    monkeypatch.delenv("HARDPOINT_INSIDE_CALL")
    token = home / "config" / "operator-token"
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("let-me")
    token.chmod(0o600)
    monkeypatch.setenv("HARDPOINT_OPERATOR_TOKEN", "let-me")
    assert run([*options, "lock"]) == 0
    assert run([*options, "call", "late_words", "text=a b"]) == 0


def test_verify_without_a_lock_file_says_how_to_make_one(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify"]) == 78
    assert "run `hardpoint lock`" in capsys.readouterr().err
