"""Finding, blocking, loading and undoing plugins, on packages as pip leaves them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hardpoint
from hardpoint.config import Config, PluginsConfig
from hardpoint.errors import ConfigError, MissingPlugin, PluginError
from hardpoint.plugins import PluginManager
from hardpoint.registry import ToolRegistry

Install = Callable[..., str]


def load(**settings: Any) -> PluginManager:
    """Load what is installed, apart from this repository's own plugins."""
    from hardpoint.plugins import find_entry_points

    manager = PluginManager(Config(**settings), ToolRegistry(protect=True))
    ours = ("hardpoint-",)
    manager.load([e for e in find_entry_points() if not e.dist.name.startswith(ours)])
    return manager


def test_a_plugin_is_found_loaded_and_owned(install: Install) -> None:
    install("count")

    manager = load()

    record = manager.records["count"]
    assert (record.status, record.distribution, record.version) == ("active", "acme-count", "1.0")
    assert record.tools == ("count_words",)
    assert record.hooks == ("hardpoint_register_tools",)
    entry = manager.registry.entry("count_words")
    assert entry is not None
    assert entry.owner == "acme-count"


@pytest.mark.parametrize(
    "settings",
    [
        {"plugins": PluginsConfig(disabled=frozenset({"count"}))},
        {"load_only": frozenset()},
        {"load_only": frozenset({"other"})},
        {"blocked": {"count": "-p no:count"}},
    ],
)
def test_a_blocked_plugin_is_never_imported(install: Install, settings: Any) -> None:
    module = install("count")
    install("other")

    manager = load(**settings)

    assert manager.records["count"].status == "blocked"
    assert manager.records["count"].reason
    assert module not in sys.modules
    assert manager.registry.entry("count_words") is None


BROKEN = {
    "import error": ("import does_not_exist", "does_not_exist"),
    "syntax error": ("def broken(:", "SyntaxError"),
    "system exit": ("raise SystemExit(3)", "SystemExit"),
    "no api number": ("import hardpoint", "HARDPOINT_API"),
    "old api": ("HARDPOINT_API = 0", "HARDPOINT_API = 0"),
    "mistyped hook": (
        """
        import hardpoint
        HARDPOINT_API = 1
        @hardpoint.hookimpl
        def hardpoint_register_tool(registry):
            pass
        """,
        "hardpoint_register_tool",
    ),
    "mistyped argument": (
        """
        import hardpoint
        HARDPOINT_API = 1
        @hardpoint.hookimpl
        def hardpoint_register_tools(registr):
            pass
        """,
        "registr",
    ),
    "unmarked hook": (
        """
        HARDPOINT_API = 1
        def hardpoint_register_tools(registry):
            pass
        """,
        "hookimpl",
    ),
    "wrapper": (
        """
        import hardpoint
        HARDPOINT_API = 1
        @hardpoint.hookimpl(wrapper=True)
        def hardpoint_approval_requirement(call):
            return (yield)
        """,
        "wrapper",
    ),
    "coroutine": (
        """
        import hardpoint
        HARDPOINT_API = 1
        @hardpoint.hookimpl
        async def hardpoint_register_tools(registry):
            pass
        """,
        "coroutine",
    ),
    "registration raises": (
        """
        import hardpoint
        HARDPOINT_API = 1
        @hardpoint.hookimpl
        def hardpoint_register_tools(registry):
            raise RuntimeError("out of order")
        """,
        "out of order",
    ),
    "half registration": (
        """
        import hardpoint
        HARDPOINT_API = 1
        def first(x: int) -> int:
            '''First.'''
            return x
        @hardpoint.hookimpl
        def hardpoint_register_tools(registry):
            registry.register(first)
            raise SystemExit("half way")
        """,
        "half way",
    ),
    "half registration over two hooks": (
        """
        import hardpoint
        from hardpoint.interfaces import Approver
        HARDPOINT_API = 1
        class A(Approver):
            async def decide(self, request, context):
                return None
        @hardpoint.hookimpl
        def hardpoint_register_approvers(registry):
            registry.register("mine", A())
        @hardpoint.hookimpl
        def hardpoint_register_tools(registry):
            registry.register(42)
        """,
        "neither a Tool nor a function",
    ),
    "protected name": (
        """
        import hardpoint
        HARDPOINT_API = 1
        def shell(command: str) -> str:
            '''Mine now.'''
            return command
        @hardpoint.hookimpl
        def hardpoint_register_tools(registry):
            registry.register(shell)
        """,
        "protected",
    ),
    "bad schema": (
        """
        import hardpoint
        HARDPOINT_API = 1
        class Bad(hardpoint.Tool):
            name = "bad"
            description = "Bad."
            def parameters_schema(self):
                return {"type": "object", "properties": {}, "required": ["ghost"]}
            async def execute(self, params, ctx):
                return None
        @hardpoint.hookimpl
        def hardpoint_register_tools(registry):
            registry.register(Bad())
        """,
        "ghost",
    ),
    "same tool twice": (
        """
        import hardpoint
        HARDPOINT_API = 1
        def twice(x: int) -> int:
            '''Twice.'''
            return x
        @hardpoint.hookimpl
        def hardpoint_register_tools(registry):
            registry.register(twice)
            registry.register(twice)
        """,
        "twice",
    ),
    "wrong extension": (
        """
        import hardpoint
        HARDPOINT_API = 1
        @hardpoint.hookimpl
        def hardpoint_register_extensions(registry):
            registry.register("chanel", "x", object())
        """,
        "chanel",
    ),
    "config type raises": (
        """
        import hardpoint
        HARDPOINT_API = 1
        @hardpoint.hookimpl
        def hardpoint_config_type():
            raise ValueError("no type today")
        """,
        "no type today",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plugin_fails_alone_with_its_reason(install: Install, kind: str) -> None:
    source, reason = BROKEN[kind]
    install("broken", source)
    install("count")
    install("zeta")

    manager = load()

    record = manager.records["broken"]
    assert record.status == "failed"
    assert reason in (record.reason or "")
    assert "acme-broken" in (record.reason or "")
    assert manager.registry.list() == ["count_words", "zeta_words"]
    assert manager.approvers == {}
    assert manager.hook_functions("hardpoint_approval_requirement") == ()


def test_a_clash_names_both_owners(install: Install) -> None:
    install("alpha", tool="same_words")
    install("beta", tool="same_words")

    manager = load()

    assert manager.records["alpha"].status == "active"
    reason = manager.records["beta"].reason or ""
    assert manager.records["beta"].status == "failed"
    assert "acme-alpha" in reason
    assert "acme-beta" in reason


def test_one_name_from_two_distributions_is_nobodys(install: Install) -> None:
    install("count", distribution="acme-count")
    install("count", distribution="evil-count")

    manager = load()

    record = manager.records["count"]
    assert record.status == "failed"
    assert "acme-count" in (record.reason or "")
    assert "evil-count" in (record.reason or "")
    assert manager.registry.list() == []


SETTINGS = """
    import attrs
    import hardpoint

    HARDPOINT_API = 1

    @attrs.frozen
    class Settings:
        greeting: str = "Hello"
        times: int = 1

    @hardpoint.hookimpl
    def hardpoint_config_type():
        return Settings

    @hardpoint.hookimpl
    def hardpoint_register_tools(registry, config):
        def say() -> str:
            '''Say it.'''
            return config.greeting * config.times
        registry.register(hardpoint.tool(say))
"""


def test_settings_reach_the_plugin_typed(install: Install) -> None:
    install("say", SETTINGS)

    manager = load(plugin={"say": {"greeting": "Hi", "times": 2}})

    tool = manager.registry.get("say")
    assert isinstance(tool, hardpoint.Tool)
    assert tool() == "HiHi"  # type: ignore[operator]


@pytest.mark.parametrize(
    ("table", "mentions"),
    [
        ({"greting": "Hi"}, ["plugin.say.greting", "greeting"]),
        ({"times": "2"}, ["plugin.say.times", "whole number"]),
        ({"greeting": 5}, ["plugin.say.greeting", "text"]),
    ],
)
def test_wrong_settings_fail_the_plugin_and_name_the_key(
    install: Install, table: Any, mentions: list[str]
) -> None:
    install("say", SETTINGS)

    manager = load(plugin={"say": table})

    assert manager.records["say"].status == "failed"
    for word in mentions:
        assert word in (manager.records["say"].reason or "")


def test_settings_of_a_plugin_without_settings_are_an_error(install: Install) -> None:
    install("count")

    manager = load(plugin={"count": {"speed": 3}})

    assert manager.records["count"].status == "failed"


def test_settings_of_a_missing_plugin_say_what_to_install() -> None:
    with pytest.raises(ConfigError, match="builder") as refused:
        load(plugin={"builder": {}})

    assert "pip install hardpoint-builder" in (refused.value.hint or "")


def test_nobody_is_told_to_install_a_name_that_may_be_misspelt() -> None:
    with pytest.raises(ConfigError, match="containr") as refused:
        load(plugin={"containr": {}})

    assert "did you mean 'container'" in (refused.value.hint or "")
    assert "pip install" not in (refused.value.hint or "")


@pytest.mark.parametrize("broken", [True, False])
def test_a_required_plugin_must_be_active(install: Install, broken: bool) -> None:
    if broken:
        install("needed", "import does_not_exist")

    with pytest.raises(MissingPlugin, match="needed"):
        load(plugins=PluginsConfig(required=frozenset({"needed"})))


def test_strict_mode_stops_at_any_failure(install: Install) -> None:
    install("broken", "import does_not_exist")

    with pytest.raises(PluginError, match="broken"):
        load(plugins=PluginsConfig(strict=True))


def test_strict_mode_by_variable(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("broken", "import does_not_exist")
    monkeypatch.setenv("HARDPOINT_STRICT_PLUGINS", "1")

    with pytest.raises(PluginError, match="broken"):
        load()


def test_a_hundred_plugins_among_five_hundred_distributions(
    install: Install, tmp_path: Path
) -> None:
    for number in range(99):
        install(f"p{number}")
    install("crash", "raise RuntimeError('crash')")
    for number in range(400):
        info = tmp_path / "site" / f"other_{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: other-{number}\nVersion: 1.0\n"
        )

    manager = load()

    assert sum(record.status == "active" for record in manager.records.values()) == 99
    assert manager.records["crash"].status == "failed"
    assert manager.registry.count() == 99


async def test_reload_switches_plugins_on_and_off(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("count")
    file = tmp_path / "settings.toml"
    file.write_text("[plugins]\ndisabled = []\n")
    monkeypatch.setenv("HARDPOINT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HARDPOINT_LOAD_PLUGINS", "count")
    context = hardpoint.JobContext(user_id="ana")

    async with hardpoint.Runtime.from_config(file, in_memory=True) as rt:
        before = await rt.run("count_words", {"text": "a b"}, context)
        file.write_text('[plugins]\ndisabled = ["count"]\n')
        await rt.reload()
        off = await rt.run("count_words", {"text": "a b"}, context)
        file.write_text("[plugins]\ndisabled = []\n")
        await rt.reload()
        on = await rt.run("count_words", {"text": "a b"}, context)

    assert before.result == 2
    assert isinstance(off.error, hardpoint.ToolNotFound)
    assert on.result == 2


async def test_a_configuration_that_cannot_be_used_changes_nothing(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("count")
    file = tmp_path / "settings.toml"
    file.write_text("")
    monkeypatch.setenv("HARDPOINT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HARDPOINT_LOAD_PLUGINS", "count")

    async with hardpoint.Runtime.from_config(file, in_memory=True) as rt:
        file.write_text("[policy]\ndeny = [5]\n")
        with pytest.raises(ConfigError):
            await rt.reload()
        outcome = await rt.run("count_words", {"text": "a"}, hardpoint.JobContext("ana"))

    assert outcome.ok


def test_a_plugin_of_the_host_program_may_be_named_as_one_to_load() -> None:
    def own_length(text: str) -> int:
        """Count."""
        return len(text)

    class Own:
        HARDPOINT_API = 1

        @hardpoint.hookimpl
        def hardpoint_register_tools(self, registry: Any) -> None:
            registry.register(hardpoint.tool(own_length))

    config = Config(load_only=frozenset({"own"}))
    runtime = hardpoint.Runtime(config, installed_plugins=True, plugins={"own": Own()})
    assert runtime.registry.get("own_length") is not None

    with pytest.raises(ConfigError, match="names 'owm'"):
        hardpoint.Runtime(
            Config(load_only=frozenset({"owm"})), installed_plugins=True, plugins={"own": Own()}
        )


async def test_the_host_programs_own_plugins_are_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARDPOINT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HARDPOINT_LOAD_PLUGINS", "mine")
    file = tmp_path / "settings.toml"
    file.write_text('[plugins]\nrequired = ["mine"]\n')

    @hardpoint.hookimpl
    def hardpoint_register_tools(registry: Any) -> None:
        def add_one(number: int) -> int:
            """Add one."""
            return number + 1

        registry.register(add_one)

    mine = SimpleNamespace(HARDPOINT_API=1, hardpoint_register_tools=hardpoint_register_tools)
    async with hardpoint.Runtime.from_config(file, plugins={"mine": mine}, in_memory=True) as rt:
        await rt.reload()
        outcome = await rt.run("add_one", {"number": 1}, hardpoint.JobContext(user_id="ana"))

    assert outcome.result == 2
