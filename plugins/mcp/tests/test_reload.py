"""Changed settings while servers run and clients are connected."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

import hardpoint
from hardpoint import JobContext
from hardpoint.errors import HardpointError
from hardpoint_mcp import plugin
from hardpoint_mcp.gateway.library import RESOURCES
from hardpoint_mcp.gateway.run import make_gateway, make_runtime

ANA = JobContext(user_id="ana")
SERVE = [sys.executable, "-m", "hardpoint", "--config"]


def settings(servers: Any, **tables: Any) -> hardpoint.Config:
    serve = tables.pop("serve", {})
    return hardpoint.structure(
        {"plugin": {"mcp": {"servers": servers, "serve": serve}}, **tables},
        hardpoint.Config,
        "test",
    )


@pytest.fixture
def server(fake: Any, mark: str) -> Any:
    """A table of a server that asks for no approvals, whose processes can be found."""

    def make(**more: Any) -> dict[str, Any]:
        command, *args = fake()
        table = {"command": command, "args": args, "read_only": ["*"], "env": {"MARK": mark}}
        return table | more

    return make


@contextlib.asynccontextmanager
async def running(config: hardpoint.Config) -> Any:
    runtime = make_runtime(config, plugins={"mcp": plugin}, installed_plugins=False, in_memory=True)
    async with runtime:
        yield runtime


async def pid(runtime: Any, name: str) -> str:
    output = await runtime.call(f"{name}__pid", {}, ANA)
    return str(output.result)


async def test_servers_come_and_go_and_the_others_keep_their_connection(server, alive, wait_until):
    async with running(settings({"a": server(), "b": server()})) as runtime:
        a, b = await pid(runtime, "a"), await pid(runtime, "b")
        mark = server()["env"]["MARK"]
        await runtime.reload(settings({"a": server(), "c": server()}))
        gone = await runtime.run("b__pid", {}, ANA)
        c = await pid(runtime, "c")

        assert await pid(runtime, "a") == a
        assert gone.error.kind == "not_found"
        assert await wait_until(lambda: int(b) not in alive(mark))
        assert {int(a), int(c)} <= set(alive(mark))

        await runtime.reload(settings({"a": server(), "c": server()}, policy={"rules": []}))
        await runtime.reload(settings({"a": server(idle_timeout=5), "c": server()}))

        # Other settings make it another server.
        assert await pid(runtime, "a") != a
        assert await pid(runtime, "c") == c
        assert await wait_until(lambda: int(a) not in alive(mark))

    assert await wait_until(lambda: alive(mark) == [])


async def test_a_server_goes_on_when_the_new_settings_fail(server, alive):
    async with running(settings({"a": server()})) as runtime:
        a = await pid(runtime, "a")
        with pytest.raises(HardpointError, match="comand"):
            await runtime.reload(settings({"a": server(idle_timeout=5), "b": {"comand": "x"}}))

        assert await pid(runtime, "a") == a
        assert runtime.registry.toolsets().keys() == {"a"}


async def test_the_whole_plugin_is_switched_off_and_on(server, alive, wait_until):
    on = settings({"a": server()})
    off = settings({"a": server()}, plugins={"disabled": ["mcp"]})
    mark = server()["env"]["MARK"]
    async with running(on) as runtime:
        await pid(runtime, "a")
        await runtime.reload(off)
        assert await wait_until(lambda: alive(mark) == [])
        assert not (await runtime.run("a__pid", {}, ANA)).ok
        await runtime.reload(on)
        assert await pid(runtime, "a")


async def test_a_client_hears_of_every_list_that_a_server_takes_along(server, fake, wait_until):
    from mcp import Client

    command, *args = fake("library")
    shelf = {"command": command, "args": args}
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(getattr(message, "method", ""))

    async with running(settings({"a": server(), "shelf": shelf})) as runtime:
        gateway = make_gateway(runtime)
        gateway.start()
        try:
            async with Client(
                gateway.server, mode="legacy", cache=None, message_handler=hear
            ) as client:
                await client.list_tools()
                await runtime.reload(settings({"a": server()}))
                wanted = {f"notifications/{what}/list_changed" for what in ("tools", "resources")}
                assert await wait_until(lambda: wanted <= set(heard))
        finally:
            gateway.stop()


async def test_lists_of_resources_are_those_of_the_servers_in_force(server, fake):
    command, *args = fake("library")
    shelf = {"command": command, "args": args}
    async with running(settings({"a": server()})) as runtime:
        gateway = make_gateway(runtime)
        gateway.start()
        try:
            await runtime.reload(settings({"a": server(), "shelf": shelf}))
            with_shelf = await gateway.library.listed(RESOURCES)
            offered = gateway.library.offers("resources")
            await runtime.reload(settings({"a": server()}))
            without = gateway.library.offers("resources")
        finally:
            gateway.stop()

    assert [item["uri"] for item in with_shelf] == ["hardpoint://shelf/fake://book"]
    assert offered
    assert not without


# the program -----------------------------------------------------------------------------------


class Speaker:
    """`hardpoint serve` on a pipe, spoken to by hand."""

    def __init__(self, config: Path) -> None:
        self.process = subprocess.Popen(
            [*SERVE, str(config), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.notes: list[str] = []
        self.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": "t", "version": "1"},
        )
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, **params: Any) -> Any:
        self.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        while "id" not in (message := self.read()):
            self.notes.append(message["method"])
        return message["result"]

    def names(self) -> set[str]:
        return {tool["name"] for tool in self.ask("tools/list")["tools"]}

    def wait_for_news(self) -> None:
        """Read until the list of tools is said to have changed."""
        while self.read().get("method") != "notifications/tools/list_changed":
            pass

    def end(self) -> bytes:
        _, errors = self.process.communicate(timeout=30)
        return errors


def test_serve_announces_servers_rules_and_plugins_that_its_files_change(write_config, server):
    config = write_config({"servers": {"a": server()}})
    speaker = Speaker(config)
    try:
        first = speaker.names()
        a = speaker.ask("tools/call", name="a__pid")["content"][0]["text"]

        write_config({"servers": {"a": server(), "b": server()}})
        speaker.wait_for_news()
        with_b = speaker.names()

        write_config({"servers": {"a": server(), "b": server()}}, policy={"deny": ["b__env"]})
        speaker.wait_for_news()
        without_env = speaker.names()

        write_config({"servers": {"a": server()}})
        speaker.wait_for_news()
        without_b = speaker.names()
        still = speaker.ask("tools/call", name="a__pid")["content"][0]["text"]

        write_config({"servers": {"a": server()}}, plugins={"disabled": ["mcp"]})
        speaker.wait_for_news()
        without_plugin = speaker.names()
    finally:
        errors = speaker.end()

    assert "a__pid" in first
    assert "b__pid" in with_b - first
    assert "b__env" in with_b - without_env
    assert "b__pid" in without_env - without_b
    assert still == a
    assert without_plugin == {name for name in first if not name.startswith("a__")}
    assert b"Traceback" not in errors


def test_a_token_that_is_taken_away_lets_nobody_in_any_more(write_config, wait_for_line):
    def serve(**clients: Any) -> dict[str, Any]:
        return {
            "serve": {
                "clients": {
                    name: {
                        "token": "sha256:" + hashlib.sha256(token.encode()).hexdigest(),
                        "user": name,
                    }
                    for name, token in clients.items()
                }
            }
        }

    config = write_config(serve(ana="one", ben="two"))
    process = subprocess.Popen(
        [*SERVE, str(config), "serve", "--http", "127.0.0.1:0"], stderr=subprocess.PIPE
    )
    try:
        url = re.search(rb"http://\S+", wait_for_line(process.stderr, b"serving on")).group()

        def status(token: str | None) -> int:
            headers = {"accept": "application/json, text/event-stream"}
            if token is not None:
                headers["authorization"] = f"Bearer {token}"
            message = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                },
            }
            return httpx2.post(
                url.decode(), json=message, headers=headers, trust_env=False
            ).status_code

        before = [status("one"), status("two"), status(None)]
        write_config(serve(ana="one"))
        with contextlib.suppress(TimeoutError):
            asyncio.run(_until(lambda: status("two") == 401))
        after = [status("one"), status("two"), status(None)]
    finally:
        process.terminate()
        process.communicate(timeout=30)

    assert before == [200, 200, 401]
    assert after == [200, 401, 401]


async def _until(check: Any) -> None:
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(check):
            await asyncio.sleep(0.1)


async def test_settings_that_would_open_an_address_to_everybody_close_it(server):
    from hardpoint_mcp.gateway.http import Entrance

    token = {"token": "sha256:" + "0" * 64, "user": "ana"}
    guarded = settings({}, serve={"clients": {"ana": token}})
    async with running(guarded) as runtime:
        entrance = Entrance(make_gateway(runtime), "192.0.2.1", 80)
        transport = httpx2.ASGITransport(app=entrance)
        async with httpx2.AsyncClient(transport=transport, base_url="http://192.0.2.1") as client:
            before = (await client.post("/mcp", json={})).status_code
            await runtime.reload(settings({}))
            after = (await client.post("/mcp", json={})).status_code

    assert (before, after) == (401, 503)
