"""Another configuration while the runtime runs: what starts, what ends, what is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import hardpoint
from hardpoint import (
    Config,
    ConfigError,
    HardpointError,
    JobContext,
    Runtime,
    Tool,
    ToolDefinition,
    ToolOutput,
    Toolset,
    hookimpl,
    tool,
)
from hardpoint.config import PolicyConfig
from hardpoint.interfaces import Channel, Delivery, ExecutionDomain, Invocation, Message

ANA = JobContext(user_id="ana")
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


@attrs.frozen
class Settings:
    """The table of the plugin under test."""

    channels: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    domain: str | None = None
    broken: str | None = None
    """Which channel cannot be started."""
    unusable: bool = False


@attrs.define(eq=False)
class World:
    """What happened to everything that the plugin registered, in its order."""

    events: list[str] = attrs.field(factory=list)
    gates: dict[str, asyncio.Event] = attrs.field(factory=dict)
    running: asyncio.Event = attrs.field(factory=asyncio.Event)

    def plugin(self) -> Any:
        """A plugin whose things tell this world what becomes of them."""
        world = self

        @hookimpl
        def hardpoint_config_type() -> type:
            return Settings

        @hookimpl
        def hardpoint_register_tools(registry: Any, config: Settings) -> None:
            if config.unusable:
                raise ValueError("nothing can be made of this")
            for name in config.servers:
                registry.register_toolset(Server(name, world))
            if config.domain is not None:
                registry.register(Inside())

        @hookimpl
        def hardpoint_register_domains(registry: Any, config: Settings) -> None:
            if config.domain is not None:
                registry.register("place", Place(config.domain, world))

        @hookimpl
        def hardpoint_register_extensions(registry: Any, config: Settings) -> None:
            for name in config.channels:
                registry.register("channel", name, Line(name, world, broken=config.broken == name))

        hooks = (
            hardpoint_config_type,
            hardpoint_register_tools,
            hardpoint_register_domains,
            hardpoint_register_extensions,
        )
        return SimpleNamespace(HARDPOINT_API=1, **{hook.__name__: hook for hook in hooks})

    def since(self, position: int) -> Sequence[str]:
        return self.events[position:]


class Line(Channel):
    def __init__(self, name: str, world: World, *, broken: bool) -> None:
        self.name, self.world, self.broken = name, world, broken

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Line) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    async def start(self, services: Any) -> None:
        if self.broken:
            raise HardpointError(f"{self.name} does not answer")
        self.world.events.append(f"start {self.name}")

    async def stop(self) -> None:
        self.world.events.append(f"stop {self.name}")

    async def send(self, message: Message, context: JobContext) -> Delivery:
        raise AssertionError("not used")


class Ask(Tool):
    """Waits until it is told to go on, where the world has a gate of its name."""

    description = "Answers."

    def __init__(self, name: str, world: World) -> None:
        self.name, self.world = name, world

    def parameters_schema(self) -> dict[str, Any]:
        return SCHEMA

    async def execute(self, params: Mapping[str, Any], context: JobContext) -> ToolOutput:
        gate = self.world.gates.get(self.name)
        if gate is not None:
            self.world.running.set()
            await gate.wait()
        self.world.events.append(f"ran {self.name}")
        return ToolOutput.text(self.name)


class Server(Toolset):
    def __init__(self, name: str, world: World) -> None:
        self.name, self.world = name, world
        self._tool = Ask(f"{name}__ask", world)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Server) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def definitions(self) -> Sequence[ToolDefinition]:
        return [ToolDefinition(f"{self.name}__ask", "Answers.", SCHEMA)]

    def get_tool(self, name: str) -> Tool:
        return self._tool

    async def __aenter__(self) -> Server:
        self.world.events.append(f"enter {self.name}")
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self.world.events.append(f"leave {self.name}")


class Inside(Tool):
    name = "inside"
    description = "Runs in its place."

    def parameters_schema(self) -> dict[str, Any]:
        return SCHEMA

    def domain(self) -> str:
        return "place"

    async def execute(self, params: Mapping[str, Any], context: JobContext) -> ToolOutput:
        return ToolOutput.text("inside")


class Place(ExecutionDomain):
    def __init__(self, kind: str, world: World) -> None:
        self.kind, self.world = kind, world

    async def run(self, invocation: Invocation) -> ToolOutput:
        return await invocation.execute()

    async def __aenter__(self) -> Place:
        self.world.events.append(f"enter {self.kind}")
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self.world.events.append(f"leave {self.kind}")


def config(*, deny: Sequence[str] = (), **table: Any) -> Config:
    rules = [{"decision": "deny", "spec": rule} for rule in deny]
    return hardpoint.structure({"plugin": {"p": table}, "policy": {"rules": rules}}, Config, "test")


def runtime(world: World, first: Config, **options: Any) -> Runtime:
    return Runtime(first, plugins={"p": world.plugin()}, **options)


async def settled(rt: Runtime) -> None:
    """Wait until what is gone is closed."""
    async with asyncio.timeout(10):
        await asyncio.gather(*rt._core.retiring)


@pytest.fixture
def world() -> World:
    return World()


async def test_what_is_new_starts_what_is_gone_ends_and_the_rest_runs_on(world: World) -> None:
    async with runtime(world, config(channels=["mail", "chat"])) as rt:
        await rt.reload(config(channels=["chat", "phone"]))
        await settled(rt)

        assert world.events == ["start mail", "start chat", "start phone", "stop mail"]
        assert sorted(rt.services.extensions("channel")) == ["chat", "phone"]

    assert sorted(world.since(4)) == ["stop chat", "stop phone"]


async def test_an_unrelated_change_touches_no_plugin(world: World) -> None:
    first = config(channels=["mail"], servers=["a"], domain="cave")
    async with runtime(world, first) as rt:
        await rt.call("a__ask", {}, ANA)
        await rt.call("inside", {}, ANA)
        before = len(world.events)
        await rt.reload(attrs.evolve(first, policy=config(deny=["inside"]).policy))
        await settled(rt)
        denied = await rt.run("inside", {}, ANA)
        await rt.call("a__ask", {}, ANA)

        assert world.since(before) == ["ran a__ask"]
        assert denied.error is not None
        assert denied.error.kind == "not_authorized"


async def test_a_toolset_goes_on_while_its_neighbours_come_and_go(world: World) -> None:
    async with runtime(world, config(servers=["a", "b"])) as rt:
        await rt.call("a__ask", {}, ANA)
        await rt.call("b__ask", {}, ANA)
        await rt.reload(config(servers=["b", "c"]))
        await settled(rt)
        await rt.call("b__ask", {}, ANA)
        await rt.call("c__ask", {}, ANA)
        gone = await rt.run("a__ask", {}, ANA)

        assert world.since(4) == ["leave a", "ran b__ask", "enter c", "ran c__ask"]
        assert gone.error is not None
        assert gone.error.kind == "not_found"
        assert rt.registry.list() == ["b__ask", "c__ask", "result_read"]


async def test_what_is_gone_is_left_when_its_last_call_has_ended(world: World) -> None:
    world.gates["a__ask"] = asyncio.Event()
    async with runtime(world, config(servers=["a"], channels=["mail"])) as rt:
        call = asyncio.create_task(rt.run("a__ask", {}, ANA))
        await world.running.wait()
        await rt.reload(config())
        held = list(world.events)
        world.gates["a__ask"].set()
        outcome = await call
        await settled(rt)

    assert held == ["start mail", "enter a"]
    assert outcome.ok
    assert world.since(2) == ["ran a__ask", "leave a", "stop mail"]


async def test_a_call_that_waits_for_a_person_holds_up_nothing_and_then_ends_in_order(
    world: World,
) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def person(request: Any, context: Any) -> Any:
        asked.set()
        await answered.wait()
        return hardpoint.Decision.once()

    ask = attrs.evolve(
        config(servers=["a"]),
        policy=hardpoint.structure(
            {"rules": [{"decision": "ask", "spec": "a__ask"}]}, PolicyConfig, "test"
        ),
    )
    async with runtime(world, ask, approver=person) as rt:
        call = asyncio.create_task(rt.run("a__ask", {}, ANA))
        await asked.wait()
        await rt.reload(config())
        await settled(rt)
        answered.set()
        outcome = await call

    assert outcome.error is not None
    assert outcome.error.kind == "not_found"
    assert "call again" in str(outcome.error.hint)
    assert world.events == []


async def test_a_domain_is_replaced_with_its_settings(world: World) -> None:
    async with runtime(world, config(domain="cave")) as rt:
        await rt.call("inside", {}, ANA)
        await rt.reload(config(domain="hut"))
        await settled(rt)
        await rt.call("inside", {}, ANA)

        assert world.events == ["enter cave", "leave cave", "enter hut"]

    assert world.events[-1] == "leave hut"


async def test_what_cannot_start_leaves_everything_as_it_was(world: World) -> None:
    first = config(channels=["mail"], servers=["a"], domain="cave")
    async with runtime(world, first) as rt:
        await rt.call("a__ask", {}, ANA)
        await rt.call("inside", {}, ANA)
        before = len(world.events)
        with pytest.raises(HardpointError, match="phone does not answer"):
            await rt.reload(
                config(channels=["chat", "phone"], servers=["b"], broken="phone", deny=["inside"])
            )
        await settled(rt)
        await rt.call("a__ask", {}, ANA)
        await rt.call("inside", {}, ANA)

        assert world.since(before) == ["start chat", "stop phone", "stop chat", "ran a__ask"]
        # What failed half-way may hold something too, and ends like the others.
        assert rt.config is first
        assert list(rt.services.extensions("channel")) == ["mail"]
        assert rt.registry.list() == ["a__ask", "inside", "result_read"]


@pytest.mark.parametrize(
    ("table", "said"),
    [({"unusable": True}, "nothing can be made of this"), ({"chanels": ["mail"]}, "chanels")],
)
async def test_settings_that_a_plugin_cannot_use_do_not_end_it(
    table: dict[str, Any], said: str, world: World
) -> None:
    first = config(channels=["mail"], servers=["a"])
    async with runtime(world, first) as rt:
        with pytest.raises(HardpointError, match=said):
            await rt.reload(config(**table))
        await settled(rt)

        assert (await rt.run("a__ask", {}, ANA)).ok
        assert world.events == ["start mail", "enter a", "ran a__ask"]


async def test_a_plugin_is_switched_off_and_on(world: World) -> None:
    first = config(channels=["mail"], servers=["a"])
    off = attrs.evolve(first, plugins=attrs.evolve(first.plugins, disabled=frozenset({"p"})))
    async with runtime(world, first) as rt:
        await rt.reload(off)
        await settled(rt)
        gone = await rt.run("a__ask", {}, ANA)
        await rt.reload(first)
        back = await rt.run("a__ask", {}, ANA)

        assert not gone.ok
        assert back.ok
        assert world.events == ["start mail", "stop mail", "start mail", "enter a", "ran a__ask"]


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"store": {"path": "elsewhere.db"}}, r"\[store\]"),
        ({"audit": {"enabled": False}}, r"\[audit\]"),
        ({"network": {"allow_http": True}}, r"\[network\]"),
        ({"jobs": {"concurrency": 1}}, r"\[jobs\]"),
        ({"telemetry": {"otel": True}}, r"\[telemetry\]"),
        ({"output": {"keep_bytes": 5}}, r"\[output\] keep_bytes"),
    ],
)
async def test_what_only_a_start_can_change_is_refused_by_name(
    table: dict[str, Any], named: str, world: World
) -> None:
    async with runtime(world, config(channels=["mail"])) as rt:
        with pytest.raises(ConfigError, match=named) as caught:
            await rt.reload(hardpoint.structure(table, Config, "test"))

        assert "start it again" in str(caught.value.hint)
        assert world.events == ["start mail"]


@tool(effects=())
async def quick() -> str:
    """Be quick."""
    return "done"


async def test_limits_and_budgets_change_with_the_configuration(world: World) -> None:
    def limited(calls: int) -> Config:
        return hardpoint.structure(
            {
                "tools": {
                    "quick": {
                        "rate_limit": {"requests_per_minute": calls, "requests_per_hour": 100}
                    }
                }
            },
            Config,
            "test",
        )

    budget = hardpoint.structure({"budget": {"user": {"calls": 1}}}, Config, "test")
    async with Runtime(limited(2), tools=[quick]) as rt:
        kinds = []
        for each in (limited(2), limited(2), limited(1), limited(3)):
            await rt.reload(each)
            outcome = await rt.run("quick", {}, ANA)
            kinds.append(None if outcome.error is None else outcome.error.kind)
        await rt.reload(budget)
        spent = [await rt.run("quick", {}, ANA) for _ in range(2)]

    # What was counted before stays counted.
    assert kinds == [None, None, "rate_limited", None]
    assert [each.ok for each in spent] == [True, False]


async def test_what_a_session_has_read_counts_from_the_change_on(world: World) -> None:
    @tool(effects=(), provenance="private")
    async def diary() -> str:
        """Read the diary."""
        return "secret thoughts"

    @tool(effects=("network",))
    async def post() -> str:
        """Post something."""
        return "posted"

    rule = {"decision": "deny", "spec": {"tool": "post", "when": {"provenance": "private"}}}
    strict = hardpoint.structure({"policy": {"rules": [rule]}}, Config, "test")
    async with Runtime(tools=[diary, post]) as rt:
        await rt.reload(strict)
        before = await rt.run("post", {}, ANA)
        await rt.call("diary", {}, ANA)
        after = await rt.run("post", {}, ANA)

    assert before.ok
    assert not after.ok


async def test_the_runtime_ends_while_a_call_still_holds_what_is_gone(world: World) -> None:
    world.gates["a__ask"] = asyncio.Event()
    async with runtime(world, config(servers=["a"], channels=["mail"])) as rt:
        call = asyncio.create_task(rt.run("a__ask", {}, ANA))
        await world.running.wait()
        await rt.reload(config())
        call.cancel()

    assert world.since(2) == ["leave a", "stop mail"]


async def test_what_was_started_ends_when_the_start_fails(world: World) -> None:
    with pytest.raises(HardpointError, match="phone does not answer"):
        async with runtime(world, config(channels=["mail", "phone"], broken="phone")):
            raise AssertionError("never entered")

    assert world.events == ["start mail", "stop phone", "stop mail"]


async def test_listeners_hear_what_came_and_went(world: World) -> None:
    async with runtime(world, config(servers=["a", "b"])) as rt:
        heard: list[Any] = []
        rt.registry.subscribe(heard.append)
        await rt.reload(config(servers=["b", "c"]))

        assert [(c.added, c.removed) for c in heard if c.added or c.removed] == [
            (("c__ask",), ("a__ask",))
        ]


async def test_changed_files_are_followed_and_bad_ones_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, world: World
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[plugin.p]\nchannels = ["mail"]\n')

    async def until(text: str, event: str) -> None:
        file.write_text(text)
        async with asyncio.timeout(10):
            while event not in (*world.events, *caplog.messages):
                await asyncio.sleep(0.01)

    async with Runtime.from_config(
        file, plugins={"p": world.plugin()}, installed_plugins=False, in_memory=True
    ) as rt:
        following = asyncio.create_task(rt.follow_config(every=0.01))
        await asyncio.sleep(0)
        await until('[plugin.p]\nchannels = ["chat"]\n', "stop mail")
        file.write_text("[plugin.p\n")
        async with asyncio.timeout(10):
            while not any("the former settings stay" in text for text in caplog.messages):
                await asyncio.sleep(0.01)
        await until('[plugin.p]\nchannels = ["phone"]\n', "stop chat")
        following.cancel()

    assert world.events[:4] == ["start mail", "start chat", "stop mail", "start phone"]


async def test_what_a_run_adjusts_stays_adjusted_after_a_reload(
    tmp_path: Path, world: World
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[plugin.p]\nchannels = ["mail"]\n')

    def without_p(read: Config) -> Config:
        return attrs.evolve(read, blocked={"p": "-p no:p"})

    async with Runtime.from_config(
        file,
        adjust=without_p,
        plugins={"p": world.plugin()},
        installed_plugins=False,
        in_memory=True,
    ) as rt:
        file.write_text('[plugin.p]\nchannels = ["chat"]\n')
        await rt.reload()

        assert rt.plugins()[0].status == "blocked"

    assert world.events == []
