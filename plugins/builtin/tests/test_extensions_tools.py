"""The extension tools over installers that the tests bring; the real ones are in tests/e2e."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from hardpoint import ApprovalRequirement, Config, Decision, JobContext, Runtime, hookimpl
from hardpoint.errors import ExternalService, InvalidParameters, NotAuthorized
from hardpoint.interfaces import CatalogueEntry, Installer, InstallState
from hardpoint_builtin.extensions import extension_tools, list_extensions, search_catalogues

CONTEXT = JobContext(user_id="ana", session_id="s1")


class Shelf(Installer):
    """Keeps names on a shelf."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.states: dict[str, str] = {}
        self.fails: Exception | None = None

    async def find(self, query: str) -> Sequence[CatalogueEntry]:
        return ()

    async def install(self, entry: CatalogueEntry, context: JobContext) -> InstallState:
        self.states.setdefault(entry.name, "installed")
        return self._state(entry.name)

    async def upgrade(self, entry: CatalogueEntry, context: JobContext) -> InstallState:
        return self._state(entry.name)

    async def authenticate(self, name: str, context: JobContext) -> InstallState:
        return self._state(name)

    async def activate(self, name: str, context: JobContext) -> InstallState:
        if self.fails is not None:
            raise self.fails
        self.states[name] = "active"
        return self._state(name)

    async def remove(self, name: str, context: JobContext) -> InstallState:
        del self.states[name]
        return InstallState(name, self.kind, "available")

    async def installed(self) -> Sequence[InstallState]:
        return [self._state(name) for name in self.states]

    def _state(self, name: str) -> InstallState:
        return InstallState(name, self.kind, self.states[name], [f"{name}_tool"])


class Plugin:
    HARDPOINT_API = 1

    def __init__(self, *installers: Installer) -> None:
        self._installers = installers

    @hookimpl
    def hardpoint_register_extensions(self, registry: Any) -> None:
        for installer in self._installers:
            registry.register("installer", installer.kind, installer)


@pytest.fixture
def forms() -> Shelf:
    return Shelf("form")


@pytest.fixture
def letters() -> Shelf:
    return Shelf("letter")


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "catalogue.json"
    write(path, ("form", "tax", "1"), ("form", "visa", "1"), ("letter", "tax", "1"))
    return path


ONLY = frozenset({"builtin", "shelves"})


def configured(*catalogues: Path, **tables: Any) -> Config:
    plugin = {"builtin": {"catalogues": [str(path) for path in catalogues]}}
    return Config(plugin=plugin, load_only=ONLY, **tables)


def yes(request: Any, context: JobContext) -> Decision:
    return Decision("once", by="ana")


def write(path: Path, *entries: tuple[str, str, str]) -> None:
    listed = [{"kind": kind, "name": name, "version": version} for kind, name, version in entries]
    path.write_text(json.dumps({"version": 1, "entries": listed}))


@pytest.fixture
async def runtime(catalogue: Path, forms: Shelf, letters: Shelf) -> AsyncIterator[Runtime]:
    async with Runtime(
        configured(catalogue),
        installed_plugins=True,
        plugins={"shelves": Plugin(forms, letters)},
        approver=yes,
    ) as made:
        yield made


async def call(runtime: Runtime, tool: str, **params: Any) -> Any:
    return (await runtime.call(tool, params, CONTEXT)).result


# the steps -------------------------------------------------------------------------------------


async def test_each_answer_names_the_next_step(runtime: Runtime) -> None:
    found = await search_catalogues(runtime.services, "visa")
    steps = [found["results"][0]["next"]]
    steps.append((await call(runtime, "tool_install", name="visa"))["next"])
    steps.append((await call(runtime, "tool_activate", name="visa"))["next"])

    assert steps == [
        'tool_install(name="visa")',
        'tool_activate(name="visa")',
        "call visa_tool",
    ]
    assert not found["searched_online"]


async def test_installing_and_activating_twice_changes_nothing(
    runtime: Runtime, forms: Shelf
) -> None:
    for _ in range(2):
        await call(runtime, "tool_install", name="visa")
        await call(runtime, "tool_activate", name="visa")

    assert forms.states == {"visa": "active"}


async def test_a_name_of_several_kinds_asks_for_the_kind(runtime: Runtime, letters: Shelf) -> None:
    with pytest.raises(InvalidParameters, match="say kind form or letter"):
        await call(runtime, "tool_install", name="tax")

    await call(runtime, "tool_install", name="tax", kind="letter")
    assert letters.states == {"tax": "installed"}
    assert (await call(runtime, "extension_info", name="tax"))["kind"] == "letter"


@pytest.mark.parametrize("tool", ["tool_auth", "tool_activate", "tool_remove", "extension_info"])
async def test_what_is_not_there_is_named_with_the_way_to_get_it(
    runtime: Runtime, tool: str
) -> None:
    await call(runtime, "tool_install", name="visa")

    with pytest.raises(InvalidParameters, match="did you mean 'visa'") as refused:
        await call(runtime, tool, name="vissa")
    assert "tool_search" in str(refused.value.hint)


async def test_a_wrong_hash_of_the_caller_is_refused_before_anybody_is_asked(
    runtime: Runtime, forms: Shelf
) -> None:
    for wrong in ({"sha256": "0" * 64}, {"fingerprint": "0" * 64}):
        with pytest.raises(NotAuthorized, match="not the expected one"):
            await call(runtime, "tool_install", name="visa", **wrong)
    assert forms.states == {}


async def test_an_upgrade_takes_what_is_newer_and_says_what_it_took(
    runtime: Runtime, catalogue: Path
) -> None:
    await call(runtime, "tool_install", name="visa")
    await call(runtime, "tool_install", name="tax", kind="form")
    assert (await call(runtime, "tool_upgrade"))["upgraded"] == []

    write(catalogue, ("form", "tax", "2"), ("form", "visa", "1"))
    info = await call(runtime, "extension_info", name="tax")
    assert (info["version"], info["available_version"], info["outdated"]) == ("1", "2", True)
    upgraded = (await call(runtime, "tool_upgrade"))["upgraded"]

    assert [(each["name"], each["version"]) for each in upgraded] == [("tax", "2")]
    assert (await call(runtime, "tool_upgrade", name="tax"))["upgraded"] == []


async def test_what_a_person_added_is_not_upgraded_by_a_tool(
    runtime: Runtime, forms: Shelf
) -> None:
    forms.states["own"] = "active"

    with pytest.raises(InvalidParameters, match="not installed by tool_install"):
        await call(runtime, "tool_upgrade", name="own")


async def test_a_failed_activation_that_speaks_of_a_login_says_so(
    runtime: Runtime, forms: Shelf
) -> None:
    await call(runtime, "tool_install", name="visa")
    forms.fails = ExternalService("visa: 401 Unauthorized")
    waiting = await call(runtime, "tool_activate", name="visa")
    assert (waiting["status"], waiting["next"]) == ("needs_auth", 'tool_auth(name="visa")')

    forms.fails = ExternalService("visa: connection refused")
    with pytest.raises(ExternalService):
        await call(runtime, "tool_activate", name="visa")


async def test_the_installed_are_listed_and_the_available_on_request(runtime: Runtime) -> None:
    await call(runtime, "tool_install", name="visa")

    installed = await list_extensions(runtime.services)
    everything = await list_extensions(runtime.services, "form", include_available=True)

    assert [each["name"] for each in installed] == ["visa"]
    assert [(e["name"], e["status"]) for e in everything] == [
        ("tax", "available"),
        ("visa", "installed"),
    ]


async def test_a_broken_catalogue_is_said_and_hides_no_other(
    tmp_path: Path, catalogue: Path
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    config = configured(broken, tmp_path / "none.json", catalogue)
    alone = attrs.evolve(config, load_only=frozenset({"builtin"}))
    async with Runtime(alone, installed_plugins=True) as runtime:
        found = await search_catalogues(runtime.services, "visa")

    assert [each["name"] for each in found["results"]] == ["visa"]
    assert len(found["problems"]) == 2


async def test_a_kind_that_no_plugin_installs_says_which_one_would(
    catalogue: Path,
) -> None:
    alone = attrs.evolve(configured(catalogue), load_only=frozenset({"builtin"}))
    async with Runtime(alone, installed_plugins=True, approver=yes) as runtime:
        outcome = await runtime.run("tool_install", {"name": "visa"}, CONTEXT)

    assert outcome.error is not None
    assert "no plugin here installs a form" in outcome.error.message
    assert outcome.error.hint == "a person can: pip install hardpoint-form"


# what they need --------------------------------------------------------------------------------

NEEDS = {
    "tool_install": ("always", {"network", "write", "process"}),
    "tool_upgrade": ("always", {"network", "write", "process"}),
    "tool_remove": ("always", {"delete", "write"}),
    "tool_auth": ("unless_auto_approved", {"network", "write"}),
    "tool_activate": ("never", {"network", "write", "process"}),
    "extension_info": ("never", {"read"}),
}


def test_who_is_asked_and_what_each_can_do() -> None:
    found = {
        tool.name: (tool.approval_requirement({"name": "x"}).value, set(tool.effects({})))
        for tool in extension_tools()
    }

    assert found == NEEDS
    assert all(
        tool.requires_approval({}) is ApprovalRequirement.NEVER for tool in extension_tools()
    )


async def test_no_rule_but_one_that_names_the_very_entry_spares_the_question(
    catalogue: Path, forms: Shelf
) -> None:
    from hardpoint.config import PolicyConfig, RuleEntry

    async def install(rule: Any) -> bool:
        forms.states.clear()
        policy = PolicyConfig(rules=(RuleEntry("allow", rule),))
        config = configured(catalogue, policy=policy)
        plugins = {"shelves": Plugin(forms)}
        async with Runtime(config, installed_plugins=True, plugins=plugins) as runtime:
            return (await runtime.run("tool_install", {"name": "visa"}, CONTEXT)).ok

    entry = CatalogueEntry("visa", "form", version="1")
    exactly = {"name": "visa", "kind": "form", "url": "", "fingerprint": entry.fingerprint}
    assert not await install("tool_install")
    assert not await install("tool_install(name:visa)")
    assert not await install({"tool": "tool_install", "where": {**exactly, "fingerprint": "*"}})
    assert await install({"tool": "tool_install", "where": exactly})
