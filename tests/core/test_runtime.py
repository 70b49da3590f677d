"""A runtime as a host program uses it: opened, called in every way, reloaded, closed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hardpoint
from hardpoint import (
    ConfigError,
    HardpointError,
    JobContext,
    Runtime,
    Tool,
    ToolCall,
    ToolDefinition,
    ToolOutput,
    Toolset,
    tool,
)
from hardpoint.interfaces import Channel, Delivery, ExecutionDomain, Invocation, Message
from hardpoint.testing import ScriptedApprover, make_context, make_runtime

ANA = make_context("ana")
SERVERS = sorted((Path(__file__).parents[1] / "data/mcp-schemas").glob("*.json"))

Install = Callable[..., str]


@tool(effects=())
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects=())
async def fail() -> str:
    """Fail."""
    raise hardpoint.ToolError.ExternalService("the service is down")


# handle ----------------------------------------------------------------------------------------

# One reply with two calls, in each provider's own form.
REPLIES: dict[str, Any] = {
    "openai": [
        {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":2}'}},
        {"id": "2", "type": "function", "function": {"name": "fail", "arguments": "{}"}},
    ],
    "openai-strict": SimpleNamespace(
        tool_calls=[
            SimpleNamespace(
                id="1",
                type="function",
                function=SimpleNamespace(name="add", arguments='{"a":1,"b":2}'),
            ),
            SimpleNamespace(
                id="2", type="function", function=SimpleNamespace(name="fail", arguments="")
            ),
        ]
    ),
    "openai-responses": [
        {"type": "function_call", "call_id": "1", "name": "add", "arguments": '{"a":1,"b":2}'},
        {"type": "function_call", "call_id": "2", "name": "fail", "arguments": "{}"},
    ],
    "anthropic": [
        {"type": "text", "text": "let me see"},
        {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1, "b": 2}},
        {"type": "tool_use", "id": "2", "name": "fail", "input": {}},
    ],
    "gemini": {
        "parts": [
            {"functionCall": {"id": "1", "name": "add", "args": {"a": 1, "b": 2}}},
            {"functionCall": {"id": "2", "name": "fail", "args": {}}},
        ]
    },
}


@pytest.mark.parametrize("provider", REPLIES)
async def test_a_reply_of_any_provider_is_answered_call_by_call(provider: str) -> None:
    async with make_runtime(tools=[add, fail]) as rt:
        messages = await rt.handle(provider, REPLIES[provider], ANA)

    text = json.dumps(messages)
    assert text.index("3") < text.index("the service is down")
    assert '"1"' in text
    assert '"2"' in text


async def test_calls_of_one_reply_run_at_once_and_are_answered_in_order() -> None:
    first_may_end = asyncio.Event()

    @tool(effects=())
    async def first() -> str:
        """Wait for the second."""
        await first_may_end.wait()
        return "first"

    @tool(effects=())
    async def second() -> str:
        """Let the first go on."""
        first_may_end.set()
        return "second"

    calls = [
        {"id": str(n), "function": {"name": name, "arguments": "{}"}}
        for n, name in enumerate(("first", "second"))
    ]
    async with make_runtime(tools=[first, second]) as rt:
        messages = await rt.handle("openai", calls, ANA)

    assert [message["tool_call_id"] for message in messages] == ["0", "1"]
    assert "first" in messages[0]["content"]


async def test_a_reply_without_calls_needs_no_messages() -> None:
    async with make_runtime(tools=[add]) as rt:
        assert await rt.handle("openai", {"role": "assistant", "content": "hi"}, ANA) == []


@pytest.mark.parametrize("provider", ["openai", "openai-strict", "anthropic", "gemini", "mcp"])
@pytest.mark.parametrize("server", SERVERS, ids=lambda path: path.stem)
async def test_tools_of_real_servers_are_offered_and_called_under_any_name(
    provider: str, server: Path
) -> None:
    class Remote(Tool):
        def __init__(self, listed: dict[str, Any]) -> None:
            # A dot is allowed in MCP and nowhere else.
            self.name = f"{server.stem}.{listed['name']}"
            self.description = listed.get("description", "")
            self.schema_ = listed["inputSchema"]

        def parameters_schema(self) -> dict[str, Any]:
            return {"properties": {}, **self.schema_}

        def effects(self, params: Any) -> Sequence[Any]:
            return ()

        async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
            return ToolOutput.text(f"ran {self.name}")

    listed = json.loads(server.read_text("utf-8"))["tools"]
    async with make_runtime(tools=[Remote(each) for each in listed]) as rt:
        definitions = rt.definitions(provider)
        offered = [definition.get("function", definition)["name"] for definition in definitions]
        messages = await rt.handle(provider, one_reply(provider, offered), ANA)

    text = json.dumps(messages)
    assert len(set(offered)) == len(listed) + 1  # and result_read
    assert "no tool named" not in text
    for each in listed:
        if not each["inputSchema"].get("required"):
            assert f"ran {server.stem}.{each['name']}" in text


def one_reply(provider: str, names: Sequence[str]) -> Any:
    """A reply that calls all of these without arguments."""
    if provider == "gemini":
        return {"parts": [{"functionCall": {"name": name, "args": {}}} for name in names]}
    if provider == "anthropic":
        return [{"type": "tool_use", "id": name, "name": name, "input": {}} for name in names]
    if provider == "mcp":
        return [{"name": name, "arguments": {}} for name in names]
    return [{"id": name, "function": {"name": name, "arguments": "{}"}} for name in names]


# calling ---------------------------------------------------------------------------------------


async def test_a_call_is_given_by_name_or_as_a_whole() -> None:
    async with make_runtime(tools=[add]) as rt:
        by_name = await rt.run("add", {"a": 1, "b": 2}, ANA)
        whole = await rt.run(ToolCall("add", {"a": 1, "b": 2}, "mine"), context=ANA)
        as_text = await rt.run("add", '{"a": 1, "b": 2}', ANA)

    assert by_name.result == whole.result == as_text.result == 3
    assert whole.call_id == "mine"
    assert by_name.call_id != as_text.call_id


async def test_a_forgotten_context_is_explained() -> None:
    async with make_runtime(tools=[add]) as rt:
        with pytest.raises(HardpointError, match="JobContext"):
            await rt.call("add", {"a": 1, "b": 2})
        with pytest.raises(HardpointError, match="third argument"):
            await rt.call("add", ANA)


@pytest.mark.parametrize("params", [None, {}, "", "nonsense", "[1]", 5, [1], "null"])
async def test_arguments_that_are_none_are_an_orderly_error(params: Any) -> None:
    async with make_runtime(tools=[add]) as rt:
        outcome = await rt.run("add", params, ANA)

    assert isinstance(outcome.error, hardpoint.InvalidParameters)


@pytest.mark.parametrize("name", ["", "\x00", "a" * 100_000, None, 5, ["add"]])
async def test_a_name_that_is_none_is_not_found(name: Any) -> None:
    async with make_runtime(tools=[add]) as rt:
        outcome = await rt.run(name, {}, ANA)

    assert isinstance(outcome.error, hardpoint.ToolNotFound)


async def test_usage_is_counted_for_each_user() -> None:
    limited = tool(
        add.function, name="limited", rate_limit=hardpoint.ToolRateLimitConfig(9, 99), effects=()
    )

    async with make_runtime(tools=[limited]) as rt:
        for user in ("ana", "ana", "bo"):
            await rt.call("limited", {"a": 1, "b": 2}, make_context(user))
        usage = rt.usage("limited", "ana")

    assert (usage.this_minute, usage.this_hour) == (2, 2)


# opening and closing ---------------------------------------------------------------------------


class Recorded(ExecutionDomain):
    def __init__(self, name: str, log: list[str], *, fails: str = "") -> None:
        self.name = name
        self.log = log
        self.fails = fails

    async def run(self, invocation: Invocation) -> ToolOutput:
        return await invocation.execute()

    async def __aenter__(self) -> Recorded:
        if self.fails == "enter":
            raise OSError("no room")
        self.log.append(f"enter {self.name}")
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self.log.append(f"leave {self.name}")
        if self.fails == "exit":
            raise OSError("cannot leave")


def in_domains(log: list[str], *domains: Recorded) -> Any:
    """A plugin with these domains and a tool in each."""

    def register_domains(registry: Any) -> None:
        for domain in domains:
            registry.register(domain.name, domain)

    def register_tools(registry: Any) -> None:
        for domain in domains:

            async def body(ctx: JobContext) -> str:
                """Run there."""
                return "ran"

            registry.register(tool(body, name=f"in_{domain.name}", domain=domain.name, effects=()))

    return SimpleNamespace(
        HARDPOINT_API=1,
        __name__="acme",
        hardpoint_register_domains=hardpoint.hookimpl(register_domains),
        hardpoint_register_tools=hardpoint.hookimpl(register_tools),
    )


async def test_domains_open_at_their_first_call_and_close_youngest_first() -> None:
    log: list[str] = []
    acme = in_domains(log, Recorded("one", log), Recorded("two", log), Recorded("unused", log))

    async with make_runtime(plugins={"acme": acme}) as rt:
        assert log == []
        await asyncio.gather(*(rt.call("in_two", {}, ANA) for _ in range(5)))
        await rt.call("in_one", {}, ANA)

    assert log == ["enter two", "enter one", "leave one", "leave two"]


async def test_a_domain_that_does_not_open_fails_its_calls_and_is_tried_again() -> None:
    log: list[str] = []
    domain = Recorded("one", log, fails="enter")

    async with make_runtime(plugins={"acme": in_domains(log, domain)}) as rt:
        outcomes = await asyncio.gather(*(rt.run("in_one", {}, ANA) for _ in range(3)))
        domain.fails = ""
        again = await rt.run("in_one", {}, ANA)

    assert {type(outcome.error) for outcome in outcomes} == {hardpoint.DomainUnavailable}
    assert "no room" in outcomes[0].error.message  # type: ignore[union-attr]
    assert again.ok
    assert log == ["enter one", "leave one"]


async def test_one_failure_while_closing_does_not_stop_the_rest() -> None:
    log: list[str] = []
    acme = in_domains(log, Recorded("one", log), Recorded("two", log, fails="exit"))

    with pytest.raises(ExceptionGroup) as caught:
        async with make_runtime(plugins={"acme": acme}) as rt:
            await rt.call("in_one", {}, ANA)
            await rt.call("in_two", {}, ANA)

    assert log[-2:] == ["leave two", "leave one"]
    assert "cannot leave" in str(caught.value.exceptions)


async def test_a_missing_domain_says_what_to_install() -> None:
    @tool(domain="container")
    async def inside(ctx: JobContext) -> str:
        """Run inside."""
        return ""

    async with make_runtime(tools=[inside]) as rt:
        outcome = await rt.run("inside", {}, ANA)

    assert isinstance(outcome.error, hardpoint.DomainUnavailable)
    assert "hardpoint-container" in str(outcome.error.hint)


async def test_extensions_start_and_stop_with_the_runtime() -> None:
    log: list[str] = []

    class Chat(Channel):
        async def start(self, services: Any) -> None:
            log.append(f"start with {len(services.registry)} tools")

        async def stop(self) -> None:
            log.append("stop")

        async def send(self, message: Message, context: JobContext) -> Delivery:
            return Delivery("chat")

    def register(registry: Any) -> None:
        registry.register("channel", "chat", Chat())

    acme = SimpleNamespace(
        HARDPOINT_API=1,
        __name__="acme",
        hardpoint_register_extensions=hardpoint.hookimpl(register),
    )
    async with make_runtime(tools=[add], plugins={"acme": acme}) as rt:
        assert list(rt.services.extensions("channel")) == ["chat"]
        assert log == ["start with 2 tools"]

    assert log == ["start with 2 tools", "stop"]


async def test_two_runtimes_share_nothing() -> None:
    async with make_runtime(tools=[add]) as one, make_runtime() as two:
        assert one.registry.has("add")
        assert not two.registry.has("add")


# configuration ---------------------------------------------------------------------------------


async def test_from_config_takes_everything_from_the_files(
    home: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("count")
    monkeypatch.setenv("HARDPOINT_LOAD_PLUGINS", "count")
    (home / "config").mkdir(parents=True)
    (home / "config/config.toml").write_text('[policy]\ndeny = ["count_words(text:no)"]\n')

    async with Runtime.from_config() as rt:
        yes = await rt.run("count_words", {"text": "a b"}, ANA)
        no = await rt.run("count_words", {"text": "no"}, ANA)
        records = rt.plugins()

    assert yes.result == 2
    assert "config.toml:2" in no.error.message  # type: ignore[union-attr]
    assert [record.name for record in records if record.status == "active"] == ["count"]
    assert list((home / "state/audit").glob("*.jsonl"))


async def test_overrides_win_over_files(home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config/config.toml").write_text("[output]\nmax_bytes = 5000\n")

    rt = Runtime.from_config(
        overrides={"output": {"max_bytes": 2000}}, installed_plugins=False, in_memory=True
    )

    assert rt.config.output.max_bytes == 2000


async def test_reload_changes_rules_limits_and_tools_and_running_calls_go_on(
    home: Path,
) -> None:
    file = home.parent / "settings.toml"
    file.write_text("")
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool(effects=())
    async def slow() -> str:
        """Wait."""
        started.set()
        await go_on.wait()
        return "done"

    async with Runtime.from_config(
        file, tools=[add, slow], installed_plugins=False, in_memory=True
    ) as rt:
        running = asyncio.create_task(rt.run("slow", {}, ANA))
        await started.wait()
        file.write_text(
            '[tools.slow]\nenabled = false\n[policy]\ndeny = ["add(a:1)"]\n'
            'application_tools = ["add"]\n'
        )
        await rt.reload()
        denied = await rt.run("add", {"a": 1, "b": 2}, ANA)
        off = await rt.run("slow", {}, ANA)
        file.write_text("[tools.slow]\nenabld = false\n")
        with pytest.raises(ConfigError, match="enabld"):
            await rt.reload()
        still = await rt.run("add", {"a": 1, "b": 2}, ANA)
        go_on.set()
        finished = await running

    assert isinstance(denied.error, hardpoint.NotAuthorized)
    assert isinstance(off.error, hardpoint.ToolDisabled)
    assert isinstance(still.error, hardpoint.NotAuthorized)
    assert finished.result == "done"


def test_all_rules_that_cannot_be_read_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        make_runtime(deny=["a b c", "(", {"where": {}}])

    assert len(caught.value.problems) == 3


async def test_another_policy_can_be_asked_without_being_in_force() -> None:
    from hardpoint.config import PolicyConfig, RuleEntry

    async with make_runtime(tools=[add]) as rt:
        view = rt.under_policy(PolicyConfig(rules=(RuleEntry("deny", "add"),)))
        asked = await view.check("add", {"a": 1, "b": 2}, ANA)
        outcome = await rt.run("add", {"a": 1, "b": 2}, ANA)

    assert asked.decision == "deny"
    assert outcome.ok


# without a loop --------------------------------------------------------------------------------


def test_code_without_a_loop_calls_from_many_threads(home: Path) -> None:
    @tool(effects=())
    def name_of_thread() -> str:
        """Say where this runs."""
        return threading.current_thread().name

    with Runtime.sync(installed_plugins=False, in_memory=True, tools=[add, name_of_thread]) as rt:
        results: list[Any] = []
        threads = [
            threading.Thread(
                target=lambda n=n: results.append(rt.call("add", {"a": n, "b": 1}, ANA).result)
            )
            for n in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ran_on = rt.call("name_of_thread", {}, ANA).result
        events = list(rt.stream("add", {"a": 1, "b": 1}, ANA))
        messages = rt.handle("openai", REPLIES["openai"][:1], ANA)
        listed = rt.registry.list()

    assert sorted(results) == list(range(1, 21))
    assert ran_on.startswith("hardpoint-tool")
    assert events[-1].result == 2
    assert messages[0]["tool_call_id"] == "1"
    assert "add" in listed


def test_code_without_a_loop_reloads(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("")
    with Runtime.sync(file, installed_plugins=False, in_memory=True, tools=[add]) as rt:
        before = rt.run("add", {"a": 1, "b": 1}, ANA)
        file.write_text("[tools.add]\nenabled = false\n")
        rt.reload()
        after = rt.run("add", {"a": 1, "b": 1}, ANA)

    assert before.ok
    assert isinstance(after.error, hardpoint.ToolDisabled)


def test_a_runtime_that_is_not_open_says_how_to_open_it() -> None:
    rt = Runtime.sync(installed_plugins=False, in_memory=True)

    with pytest.raises(HardpointError, match="with Runtime"):
        rt.call("add", {}, ANA)


def test_a_tool_that_hangs_keeps_no_process_alive(tmp_path: Path) -> None:
    code = """
import threading
import hardpoint

@hardpoint.tool(timeout=0.05)
def hang() -> str:
    '''Hang.'''
    threading.Event().wait()

with hardpoint.Runtime.sync(installed_plugins=False, in_memory=True, tools=[hang]) as rt:
    outcome = rt.run("hang", {}, hardpoint.JobContext(user_id="ana"))
    print(outcome.error.kind, outcome.error.still_running)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, cwd=tmp_path
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "timeout True\n", "")


# approving -------------------------------------------------------------------------------------


async def test_an_approver_may_be_an_object_a_function_or_several() -> None:
    def build(approver: Any) -> Runtime:
        return make_runtime(tools=[add], ask=["add"], approver=approver)

    async def yes(request: Any, context: Any) -> hardpoint.Decision:
        return hardpoint.Decision.once()

    for approver in (
        ScriptedApprover("once"),
        yes,
        lambda request, context: hardpoint.Decision.once(),
        [ScriptedApprover(None), ScriptedApprover("once")],
    ):
        async with build(approver) as rt:
            assert (await rt.run("add", {"a": 1, "b": 2}, ANA)).ok
    with pytest.raises(HardpointError, match="neither"):
        build(5)


# toolsets --------------------------------------------------------------------------------------


async def test_a_toolset_that_fails_to_close_is_reported_and_the_rest_closes() -> None:
    log: list[str] = []

    class Server(Toolset):
        def __init__(self, name: str, *, fails: bool = False) -> None:
            self.name = name
            self.fails = fails

        def definitions(self) -> Sequence[ToolDefinition]:
            return [self.get_tool(f"{self.name}__add").definition()]

        def get_tool(self, name: str) -> Tool:
            return tool(add.function, name=f"{self.name}__add", effects=())

        async def __aexit__(self, *exc_info: Any) -> None:
            log.append(self.name)
            if self.fails:
                raise OSError("broken pipe")

    with pytest.raises(ExceptionGroup, match="did not close cleanly"):
        async with make_runtime() as rt:
            for server in (Server("a"), Server("b", fails=True)):
                rt.registry.register_toolset(server)
                await rt.call(f"{server.name}__add", {"a": 1, "b": 2}, ANA)

    assert log == ["b", "a"]


@pytest.mark.parametrize(
    ("rule", "hidden_from"),
    [
        ({"tool": "add", "when": {"user": "eve"}}, {"eve"}),
        ({"tool": "add", "when": {"user": "e*"}, "unless": {"origin": "gateway"}}, {"eve"}),
        ({"tool": "add", "when": {"origin": "library"}}, {"ana", "eve"}),
        ({"tool": "add", "when": {"domain": "orchestrator"}, "unless": {"user": "ana"}}, {"eve"}),
        ({"tool": "add", "when": {"origin": "gateway"}}, set()),
        # What depends on the call, or on what was read before it, says nothing before it.
        ({"tool": "add", "when": {"user": "eve", "effects": "write"}}, set()),
        ({"tool": "add", "when": {"provenance": "untrusted"}}, set()),
        ({"tool": "add", "where": {"a": 1}, "when": {"user": "eve"}}, set()),
    ],
)
async def test_a_caller_does_not_see_what_it_may_never_call(
    rule: dict[str, Any], hidden_from: set[str]
) -> None:
    async with make_runtime(tools=[add], deny=[rule]) as rt:
        for user in ("ana", "eve"):
            seen = {definition.name for definition in rt.visible(make_context(user))}
            outcome = await rt.run("add", {"a": 2, "b": 2}, make_context(user))

            assert ("add" not in seen) is (user in hidden_from)
            assert outcome.ok is (user not in hidden_from) or rule.get("where") is not None

        assert rt.registry.has("add")
