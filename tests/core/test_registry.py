"""Names to tools: who may have which, what comes and goes, what readers see meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from hardpoint import (
    ExternalService,
    HardpointError,
    JobContext,
    NameTaken,
    ProtectedName,
    RegistrationError,
    SchemaError,
    Tool,
    ToolDefinition,
    ToolNotFound,
    ToolOutput,
    ToolRegistry,
    Toolset,
    tool,
)
from hardpoint.testing import make_context, make_runtime

ANA = make_context("ana")
OPEN = {"type": "object", "properties": {}}


def named(name: str, **options: Any) -> Tool:
    """A tool that gives back its name."""

    async def body() -> str:
        """Say who you are."""
        return name

    return tool(body, name=name, effects=(), **options)


class Changing(Toolset):
    """A toolset whose tools are what a test says."""

    def __init__(self, name: str, *names: str, fails: Exception | None = None) -> None:
        self.name = name
        self.fails = fails
        self.entered = 0
        self.left = 0
        self.tools = {each: named(each) for each in names}

    def definitions(self) -> Sequence[ToolDefinition]:
        return [each.definition() for each in self.tools.values()]

    def get_tool(self, name: str) -> Tool:
        return self.tools[name]

    async def __aenter__(self) -> Changing:
        self.entered += 1
        if self.fails is not None:
            raise self.fails
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self.left += 1


# names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["my_tool", "my-tool", "My_Tool", "MY-TOOL"])
def test_names_that_a_reader_could_confuse_are_one_name(other: str) -> None:
    registry = ToolRegistry()
    registry.register(named("my_tool"), owner="first")

    with pytest.raises(NameTaken) as caught:
        registry.register(named(other), owner="second")

    assert (caught.value.owner, caught.value.by) == ("first", "second")
    assert "second__" in str(caught.value.hint)
    assert registry.list() == ["my_tool"]


@pytest.mark.parametrize("name", ["", "a b", "ä", "a/b", "x" * 129, "a\n", "../x"])
def test_a_name_that_no_client_takes_is_refused(name: str) -> None:
    with pytest.raises(RegistrationError):
        ToolRegistry().register(named(name))


def test_a_prefix_stands_before_the_name_and_the_source_is_remembered() -> None:
    registry = ToolRegistry()
    registry.register(named("words"), owner="acme", prefix="acme__")

    entry = registry.entry("acme__words")

    assert entry is not None
    assert entry.definition.name == "acme__words"
    assert entry.definition.original_name == "words"
    assert entry.definition.owner == "acme"


@pytest.mark.parametrize("protected_first", [True, False])
def test_a_protected_name_belongs_to_its_distribution_before_and_after(
    protected_first: bool,
) -> None:
    registry = ToolRegistry(protect=True)
    if protected_first:
        registry.register(named("echo"), owner="hardpoint-builtin")

    for name in ("echo", "Echo", "ECHO"):
        with pytest.raises(ProtectedName, match="hardpoint-builtin"):
            registry.register(named(name), owner="acme")
    if not protected_first:
        registry.register(named("echo"), owner="hardpoint-builtin")

    entry = registry.entry("echo")
    assert entry is not None
    assert entry.owner == "hardpoint-builtin"
    with pytest.raises(ProtectedName):
        registry.unregister("echo", owner="acme")


def test_a_reserved_name_is_nobodys() -> None:
    for owner in ("acme", "hardpoint-builtin", "application"):
        with pytest.raises(ProtectedName):
            ToolRegistry(protect=True).register(named("skill_install"), owner=owner)


def test_nobody_removes_what_belongs_to_another() -> None:
    registry = ToolRegistry()
    registry.register(named("a"), owner="first")

    with pytest.raises(RegistrationError, match="first"):
        registry.unregister("a", owner="second")

    assert registry.unregister("a", owner="first")
    assert not registry.unregister("a", owner="first")


# what can be registered ------------------------------------------------------------------------


def test_a_function_is_a_tool_and_a_class_is_not() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    registry = ToolRegistry()
    registry.register(add)

    assert registry.list() == ["add"]
    with pytest.raises(HardpointError, match="register an instance"):
        registry.register(Tool)
    with pytest.raises(HardpointError, match="neither"):
        registry.register(5)  # type: ignore[arg-type]


def test_a_schema_that_cannot_be_used_lists_every_problem() -> None:
    class Bad(Tool):
        name = "bad"
        description = "Bad."

        def parameters_schema(self) -> dict[str, Any]:
            return {
                "type": "object",
                "properties": {"items": {"type": "array"}},
                "required": ["ghost"],
            }

        async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
            return ToolOutput.text("")

    with pytest.raises(SchemaError) as caught:
        ToolRegistry().register(Bad(), owner="acme")

    assert len(caught.value.problems) == 2
    assert caught.value.owner == "acme"


def test_a_tool_that_cannot_describe_itself_is_refused_by_name() -> None:
    class Nameless(Tool):
        def parameters_schema(self) -> dict[str, Any]:
            return OPEN

        async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
            return ToolOutput.text("")

    with pytest.raises(RegistrationError, match="Nameless"):
        ToolRegistry().register(Nameless())


# reading ---------------------------------------------------------------------------------------


def test_reading_is_sorted_whatever_the_order_of_registration() -> None:
    registry = ToolRegistry()
    for name in ("b", "c", "a"):
        registry.register(named(name))

    assert registry.list() == ["a", "b", "c"]
    assert [d.name for d in registry.schemas()] == ["a", "b", "c"]
    assert [d.name for d in registry.tool_definitions()] == ["a", "b", "c"]
    assert [each.name for each in registry.all()] == ["a", "b", "c"]
    assert list(registry) == ["a", "b", "c"]
    assert (len(registry), registry.count(), registry.has("a"), "z" in registry) == (
        3, 3, True, False,
    )  # fmt: skip
    assert [d.name for d in registry.tool_definitions_for(["c", "a", "z"])] == ["a", "c"]
    assert [d.name for d in registry.tool_definitions_excluding(["b"])] == ["a", "c"]
    assert [d.name for d in registry.tool_definitions_for_domain("orchestrator")] == ["a", "b", "c"]
    assert registry.get("z") is None


def test_what_a_reader_does_to_a_list_changes_nothing() -> None:
    registry = ToolRegistry()
    registry.register(named("a"))

    registry.list().clear()
    list(registry.schemas()).clear()

    assert registry.list() == ["a"]


def test_near_names_are_suggested() -> None:
    registry = ToolRegistry()
    for name in ("read_file", "write_file", "echo"):
        registry.register(named(name))

    assert registry.close_names("read_flie")[0] == "read_file"
    assert registry.close_names("Read-File")[0] == "read_file"
    assert registry.close_names("zzzzzz") == ()


def test_retain_only_keeps_what_is_named_and_nothing_named_changes_nothing() -> None:
    registry = ToolRegistry()
    for name in ("a", "b", "c"):
        registry.register(named(name))

    registry.retain_only([])
    before = registry.list()
    registry.retain_only(["a", "z"])

    assert before == ["a", "b", "c"]
    assert registry.list() == ["a"]


# events ----------------------------------------------------------------------------------------


def test_every_change_is_told_once_and_a_failing_listener_stops_nobody() -> None:
    registry = ToolRegistry()
    seen: list[Any] = []

    def broken(change: Any) -> None:
        raise RuntimeError("no")

    registry.subscribe(broken)
    leave = registry.subscribe(seen.append)
    source = Changing("source", "x", "y")
    registry.register(named("a"))
    registry.register_toolset(source)
    source.tools = {"y": named("y", title="Y"), "z": named("z")}
    registry.replace(source, source.definitions())
    registry.replace(source, source.definitions())
    registry.unregister("a")
    registry.unregister_toolset(source)
    leave()
    registry.register(named("b"))

    assert [(c.added, c.removed, c.changed) for c in seen] == [
        (("a",), (), ()),
        (("x", "y"), (), ()),
        (("z",), ("x",), ("y",)),
        ((), ("a",), ()),
        ((), ("y", "z"), ()),
    ]


# toolsets --------------------------------------------------------------------------------------


def test_a_bad_definition_drops_only_itself_and_says_why() -> None:
    registry = ToolRegistry(protect=True)
    registry.register(named("taken"), owner="first")
    source = Changing("source", "good", "taken", "echo", "also_good", "Good")
    definitions = [
        *source.definitions(),
        ToolDefinition("broken", parameters={"type": "string"}),
        ToolDefinition("not a name", parameters=OPEN),
    ]

    registry.register_toolset(source, owner="acme")
    registry.replace(source, definitions)

    assert registry.list() == ["also_good", "good", "taken"]
    assert {d.name: d.toolset for d in registry.dropped} == dict.fromkeys(
        ["taken", "echo", "Good", "broken", "not a name"], "source"
    )
    assert all(d.reason for d in registry.dropped)
    registry.replace(source, source.definitions()[:1])
    assert registry.dropped == ()


def test_a_prefix_holds_for_every_definition() -> None:
    registry = ToolRegistry()
    registry.register_toolset(Changing("s", "s__a", "b"), prefix="s__")

    assert registry.list() == ["s__a"]
    assert "prefix" in registry.dropped[0].reason


def test_a_toolset_is_there_once_and_as_a_whole() -> None:
    registry = ToolRegistry()
    source = Changing("source", "a")
    registry.register_toolset(source, owner="acme")

    with pytest.raises(NameTaken):
        registry.register_toolset(Changing("source", "b"))
    with pytest.raises(RegistrationError, match="not registered"):
        registry.replace(Changing("source", "b"), [])

    assert registry.list() == ["a"]
    assert registry.toolsets() == {"source": source}


def test_a_toolset_that_cannot_describe_itself_leaves_nothing_behind() -> None:
    class Broken(Changing):
        def definitions(self) -> Sequence[ToolDefinition]:
            raise RuntimeError("no cache")

    registry = ToolRegistry()
    with pytest.raises(RuntimeError):
        registry.register_toolset(Broken("source", "a"))

    registry.register_toolset(Changing("source", "a"))
    assert registry.list() == ["a"]


async def test_a_toolset_is_entered_at_its_first_call_and_left_at_the_end() -> None:
    source = Changing("source", "a", "b")

    async with make_runtime() as rt:
        rt.registry.register_toolset(source)
        listed = [d["name"] for d in rt.definitions()]
        before = source.entered
        outcomes = await asyncio.gather(*(rt.call(name, {}, ANA) for name in ("a", "b", "a")))

    assert {"a", "b"} <= set(listed)
    assert before == 0
    assert [outcome.result for outcome in outcomes] == ["a", "b", "a"]
    assert (source.entered, source.left) == (1, 1)


async def test_tools_of_an_unreachable_toolset_stay_listed_and_it_is_tried_again() -> None:
    source = Changing("source", "a", fails=OSError("connection refused"))

    async with make_runtime() as rt:
        rt.registry.register_toolset(source)
        outcome = await rt.run("a", {}, ANA)
        listed = rt.registry.list()
        source.fails = None
        again = await rt.run("a", {}, ANA)

    assert isinstance(outcome.error, ExternalService)
    assert "connection refused" in outcome.error.message
    assert "a" in listed
    assert again.result == "a"


async def test_a_listed_tool_that_its_toolset_lacks_is_an_external_failure() -> None:
    source = Changing("source", "a")

    async with make_runtime() as rt:
        rt.registry.register_toolset(source)
        source.tools.clear()
        outcome = await rt.run("a", {}, ANA)

    assert isinstance(outcome.error, ExternalService)


async def test_a_removed_tool_is_not_found() -> None:
    source = Changing("source", "a")

    async with make_runtime() as rt:
        rt.registry.register_toolset(source)
        await rt.call("a", {}, ANA)
        rt.registry.replace(source, [])
        outcome = await rt.run("a", {}, ANA)

    assert isinstance(outcome.error, ToolNotFound)


async def test_a_running_call_keeps_its_tool() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool(name="slow", effects=())
    async def old() -> str:
        """Wait."""
        started.set()
        await go_on.wait()
        return "old"

    source = Changing("source")
    source.tools = {"slow": old}
    async with make_runtime() as rt:
        rt.registry.register_toolset(source)
        running = asyncio.create_task(rt.call("slow", {}, ANA))
        await started.wait()
        source.tools = {"slow": named("slow")}
        rt.registry.replace(source, source.definitions())
        fresh = await rt.call("slow", {}, ANA)
        rt.registry.unregister_toolset(source)
        go_on.set()
        finished = await running

    assert fresh.result == "slow"
    assert finished.result == "old"


# many ------------------------------------------------------------------------------------------


def test_a_reader_sees_all_of_the_old_tools_or_all_of_the_new_ones() -> None:
    registry = ToolRegistry()
    names = [f"tool_{number}" for number in range(50)]
    source = Changing("source", *names)
    registry.register_toolset(source)
    stop = threading.Event()
    missed: list[str] = []

    def read() -> None:
        while not stop.is_set():
            missed.extend(name for name in names if registry.entry(name) is None)
            if len(registry.list()) != 50 or len(registry.schemas()) != 50:
                missed.append("list")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(100):
        registry.replace(source, source.definitions())
    stop.set()
    for reader in readers:
        reader.join()

    assert missed == []


def test_threads_register_and_remove_at_once() -> None:
    registry = ToolRegistry()
    errors: list[Exception] = []

    def work(number: int) -> None:
        try:
            for turn in range(50):
                name = f"t{number}_{turn}"
                registry.register(named(name), owner=f"o{number}")
                registry.close_names("t1_1x")
                registry.search("say")
                if turn % 2:
                    registry.unregister(name, owner=f"o{number}")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert registry.count() == 8 * 25


def test_one_of_many_threads_gets_a_name() -> None:
    registry = ToolRegistry()
    barrier = threading.Barrier(8)
    won: list[int] = []

    def work(number: int) -> None:
        barrier.wait()
        try:
            registry.register(named("same"), owner=f"o{number}")
            won.append(number)
        except NameTaken:
            pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    entry = registry.entry("same")
    assert entry is not None
    assert [f"o{number}" for number in won] == [entry.owner]


def test_ten_thousand_tools() -> None:
    class Plain(Tool):
        description = "Look something up in a table of the company."

        def __init__(self, number: int) -> None:
            self.name = f"lookup_{number}"

        def parameters_schema(self) -> dict[str, Any]:
            return {
                "type": "object",
                "properties": {"key": {"type": "string"}},
                "required": ["key"],
            }

        async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
            return ToolOutput.text(self.name)

    registry = ToolRegistry()
    for number in range(10_000):
        registry.register(Plain(number))

    definitions = registry.schemas()
    assert len(definitions) == 10_000
    assert registry.schemas()[0] is definitions[0]
    assert registry.search("lookup 4711")[0][0].name == "lookup_4711"
    assert registry.close_names("lookup_47111")[0].startswith("lookup_")
