"""WebAssembly tools in the whole runtime: policy, nesting, secrets, audit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import wasmtime
from wasm_guests import wat
from wasm_services import CAPABILITIES, SECRET, Resolver

import hardpoint
from hardpoint import (
    Config,
    JobContext,
    Runtime,
    ToolTimeout,
    WasmToolRegistration,
)
from hardpoint.config import LimitsConfig
from hardpoint.errors import ConfigError
from hardpoint.net import PinnedClient
from hardpoint_wasm import plugin
from hardpoint_wasm.describe import Interface
from hardpoint_wasm.limits import Limits
from hardpoint_wasm.runtime import WasmRuntime
from hardpoint_wasm.store import Record, Store
from hardpoint_wasm.tool import WasmTool

TOUR = bytes(wasmtime.wat2wasm(wat.tour()))
ANA = JobContext(user_id="ana", auto_approve=True)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def client(requests: list[Any], status: int = 200) -> PinnedClient:
    import httpx2

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(status, content=f"you sent {dict(request.headers)}".encode())

    return PinnedClient(resolver=Resolver(), transport=httpx2.MockTransport(answer))


async def test_a_tool_from_bytes_is_called_with_everything_on(wasm_runtime: WasmRuntime) -> None:
    async with Runtime() as rt:
        await rt.registry.register_wasm(
            WasmToolRegistration(
                name="mirror", wasm_bytes=bytes(wasmtime.wat2wasm(wat.tool())), runtime=wasm_runtime
            )
        )

        output = await rt.call("mirror", {"op": "x"}, ANA)

    assert output.result == {"echo": {"op": "x"}}


async def test_explain_tells_of_the_sandbox_and_not_of_the_process(load: Any) -> None:
    tool = await load(wat.tool(), capabilities={"http": {"allowlist": [{"host": "a.example"}]}})
    async with Runtime() as rt:
        rt.registry.register(tool)

        told = await rt.explain("guest", {}, ANA)

    assert "files, network" in told["contains"]["contained"]
    assert told["contains"]["not_contained"] == ", ".join(tool.capabilities.permissions)
    assert "a.example" in told["contains"]["not_contained"]


async def test_a_timed_out_guest_is_the_time_out_of_the_call(load: Any) -> None:
    tool = await load(wat.tool("(loop $x (br $x))"), timeout=0.3)
    async with Runtime() as rt:
        rt.registry.register(tool)

        outcome = await rt.run("guest", {}, ANA)

    assert isinstance(outcome.error, ToolTimeout)
    assert not outcome.error.still_running


async def test_secrets_reach_the_server_and_nothing_else(
    load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HARDPOINT_SECRET_API_KEY", SECRET)
    monkeypatch.setenv("HARDPOINT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HARDPOINT_DATA_DIR", str(tmp_path / "data"))
    requests: list[Any] = []
    tool = await load(wat.tour(), CAPABILITIES)
    with caplog.at_level("DEBUG"):
        async with Runtime(in_memory=False, tools=[add], http_client=client(requests)) as rt:
            rt.registry.register(tool)
            outcome = await rt.run("guest", {}, ANA)

    assert outcome.ok, outcome.error
    assert requests[0].headers["authorization"] == f"Bearer {SECRET}"
    seen = json.dumps(outcome.to_json()) + outcome.to_model_text() + caplog.text
    seen += "".join(f.read_text(errors="replace") for f in tmp_path.rglob("*") if f.is_file())
    assert SECRET not in seen
    assert "[REDACTED" in str(outcome.result)


async def test_a_registration_says_how_its_logins_are_renewed(
    monkeypatch: pytest.MonkeyPatch, wasm_runtime: WasmRuntime
) -> None:
    monkeypatch.setenv("HARDPOINT_SECRET_API_KEY", SECRET)
    asked: list[tuple[str, str, bool]] = []

    async def refresh(name: str, user_id: str, *, refused: bool = False) -> bool:
        asked.append((name, user_id, refused))
        return refused

    requests: list[Any] = []
    async with Runtime(tools=[add], http_client=client(requests, status=401)) as rt:
        await rt.registry.register_wasm(
            WasmToolRegistration(
                name="guest", wasm_bytes=TOUR, runtime=wasm_runtime, capabilities=CAPABILITIES,
                oauth_refresh=refresh,
            )
        )  # fmt: skip
        await rt.run("guest", {}, ANA)

    # The tour's other request goes elsewhere, without a secret.
    assert asked == [("api_key", "ana", False), ("api_key", "ana", True)]
    assert len(requests) == 2


async def test_a_registration_with_secrets_of_its_own_is_refused(
    wasm_runtime: WasmRuntime,
) -> None:
    async with Runtime() as rt:
        with pytest.raises(ConfigError, match="no secret store of its own"):
            await rt.registry.register_wasm(
                WasmToolRegistration(
                    name="guest", wasm_bytes=TOUR, runtime=wasm_runtime, secrets_store=object()
                )
            )


async def test_a_tool_never_widens_the_rights_of_its_caller(load: Any) -> None:
    from hardpoint.config import PolicyConfig, RuleEntry

    rules = (RuleEntry("deny", "add"),)
    tool = await load(wat.tour(), {"tool_invoke": {"aliases": {"adder": "add"}}})
    async with Runtime(Config(policy=PolicyConfig(rules=rules)), tools=[add]) as rt:
        rt.registry.register(tool)

        outcome = await rt.run("guest", {}, ANA)

    assert "denied" in str(outcome.result).lower()
    assert '"sum":3' not in str(outcome.result)


@pytest.mark.parametrize(("capability", "each_call"), [("http", 2), ("tool_invoke", 1)])
async def test_the_limits_of_capabilities_hold_across_processes(
    load: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capability: str,
    each_call: int,
) -> None:
    monkeypatch.setenv("HARDPOINT_SECRET_API_KEY", SECRET)
    monkeypatch.setenv("HARDPOINT_DATA_DIR", str(tmp_path / "data"))
    asked = json.loads(json.dumps(CAPABILITIES))
    asked[capability]["rate_limit"] = {"requests_per_minute": each_call}
    config = Config(limits=LimitsConfig(backend="sqlite"))
    said = []
    for _ in range(2):
        tool = await load(wat.tour(), asked)
        # Each runtime has a connection of its own, as another process has.
        async with Runtime(config, in_memory=False, tools=[add], http_client=client([])) as rt:
            rt.registry.register(tool)
            said.append(str((await rt.run("guest", {}, ANA)).result))

    assert [f"the {capability} limit" in each for each in said] == [False, True]


BOMB_TEXT = wat.Text()
BOMB = wat.tool(
    f"""(loop $again
      (call $invoke {BOMB_TEXT("me")} {BOMB_TEXT("{}")} (local.get $r))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $i) (i32.const 30))))
    (call $put (i32.load offset=4 (local.get $r)) (i32.load offset=8 (local.get $r)))""",
    text=BOMB_TEXT,
)


async def test_a_tool_that_calls_itself_without_end_is_bounded_and_others_go_on(
    tmp_path: Path, cache_dir: Path
) -> None:
    wasm_runtime = WasmRuntime(cache_dir, limits=Limits(timeout=20), concurrency=1)
    asked = {"tool_invoke": {"aliases": {"me": "bomb"}}}
    wasm = bytes(wasmtime.wat2wasm(BOMB))
    bomb = await WasmTool.load(wasm, "bomb", asked, runtime=wasm_runtime)
    async with Runtime(tools=[add]) as rt:
        rt.registry.register(bomb)

        async with asyncio.TaskGroup() as group:
            attack = group.create_task(rt.run("bomb", {}, ANA))
            others = [group.create_task(rt.call("add", {"a": n, "b": 1}, ANA)) for n in range(50)]

    wasm_runtime.close()
    assert [task.result().result for task in others] == [n + 1 for n in range(50)]
    assert attack.result().ok, attack.result().error


def _config(tmp_path: Path, cache_dir: Path, **settings: Any) -> Config:
    table = {"folder": str(tmp_path / "tools"), "cache_dir": str(cache_dir)} | settings
    return Config(plugin={"wasm": table})


async def test_the_plugin_brings_the_added_tools(tmp_path: Path, cache_dir: Path) -> None:
    from hardpoint_wasm.names import digest

    interface = Interface("a tour", {"type": "object", "properties": {}, "required": []})
    record = Record("tour", digest(TOUR), "world", interfaces={"tour": interface})
    Store(tmp_path / "tools").add(record, TOUR)

    async with Runtime(_config(tmp_path, cache_dir), plugins={"wasm": plugin}) as rt:
        entry = rt.registry.entry("tour")
        output = await rt.call("tour", {}, ANA)

    assert entry is not None
    assert entry.definition.description.startswith("a tour")
    assert "may not make requests" in output.result


async def test_discovered_tools_come_with_the_first_call(tmp_path: Path, cache_dir: Path) -> None:
    (tmp_path / "found").mkdir()
    (tmp_path / "found/tour.wasm").write_bytes(TOUR)
    config = _config(tmp_path, cache_dir, discover=[str(tmp_path / "found")])

    async with Runtime(config, plugins={"wasm": plugin}) as rt:
        output = await rt.call("tour", {}, ANA)
        described = rt.registry.entry("tour")

    assert "may not make requests" in output.result
    assert described is not None
    assert described.definition.description == "a tool in WebAssembly text"


async def test_a_removed_or_changed_module_stops_no_runtime(
    tmp_path: Path, cache_dir: Path
) -> None:
    record = Record("tour", "sha256:0", "world", interfaces={"tour": Interface()})
    Store(tmp_path / "tools").add(record, TOUR)

    async with Runtime(_config(tmp_path, cache_dir), plugins={"wasm": plugin}) as rt:
        with pytest.raises(hardpoint.ToolNotFound):
            await rt.call("tour", {}, ANA)
