"""Servers from the registries, every way: as a direct client has them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NPM = "@modelcontextprotocol/server-"


@pytest.fixture
def server(assets: Any, tmp_path: Path) -> Any:
    """The command of a server, and calls that have the same answer each time."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "hello.txt").write_text("hello world\n", "utf-8")
    repository = tmp_path / "repository"
    repository.mkdir()
    database = tmp_path / "some.db"

    def npm(name: str, *arguments: str) -> list[str]:
        package = assets.npm_package(NPM + name)
        return [assets.node(), str(package / "dist" / "index.js"), *arguments]

    def git() -> list[str]:
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
        author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        for command in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "first"]):
            subprocess.run(["git", *command], cwd=repository, env=environment, check=True)
        return [*assets.python_server("mcp-server-git"), "--repository", str(repository)]

    def make(name: str) -> tuple[list[str], dict[str, str], list[tuple[str, dict[str, Any]]]]:
        match name:
            case "everything":
                return (
                    npm("everything"),
                    {},
                    [
                        ("echo", {"message": "hi"}),
                        ("get-sum", {"a": 2, "b": 3}),
                        ("get-tiny-image", {}),
                        ("get-structured-content", {"location": "Chicago"}),
                        ("get-annotated-message", {"messageType": "error", "includeImage": True}),
                        ("get-resource-links", {"count": 2}),
                    ],
                )
            case "filesystem":
                return (
                    npm("filesystem", str(files)),
                    {},
                    [
                        ("read_text_file", {"path": str(files / "hello.txt")}),
                        ("list_directory", {"path": str(files)}),
                        ("read_text_file", {"path": "/etc/hostname"}),
                    ],
                )
            case "memory":
                entity = {"name": "a", "entityType": "t", "observations": ["o"]}
                return (
                    npm("memory"),
                    {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")},
                    [("create_entities", {"entities": [entity]}), ("read_graph", {})],
                )
            case "sequential-thinking":
                thought = {
                    "thought": "t",
                    "nextThoughtNeeded": False,
                    "thoughtNumber": 1,
                    "totalThoughts": 1,
                }
                return npm("sequential-thinking"), {}, [("sequentialthinking", thought)]
            case "time":
                times = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
                return (
                    assets.python_server("mcp-server-time"),
                    {},
                    [("convert_time", times), ("get_current_time", {"timezone": "No/Where"})],
                )
            case "git":
                where = {"repo_path": str(repository)}
                return git(), {}, [("git_log", where), ("git_status", {"repo_path": "/nowhere"})]
            case "fetch":
                return (
                    assets.python_server("mcp-server-fetch"),
                    {},
                    [("fetch", {"url": "http://127.0.0.1:9/none"})],
                )
            case "sqlite":
                create = {"query": "CREATE TABLE IF NOT EXISTS t (a INTEGER)"}
                command = [*assets.python_server("mcp-server-sqlite"), "--db-path", str(database)]
                return command, {}, [("create_table", create), ("list_tables", {})]
        raise AssertionError(name)

    return make


def plain(result: Any) -> dict[str, Any]:
    """What of a result must be the same."""
    text = result.model_dump_json(by_alias=True, exclude_none=True)
    # One server counts its calls.
    dumped = json.loads(re.sub(r"(thoughtHistoryLength\W+)\d+", r"\g<1>0", text))
    kept = {key: dumped.get(key) for key in ("content", "structuredContent")}
    return kept | {"isError": bool(dumped.get("isError"))}


@pytest.mark.parametrize(
    "name",
    [
        *("everything", "filesystem", "memory", "sequential-thinking"),
        *("time", "git", "fetch", "sqlite"),
    ],
)
async def test_a_server_gives_the_same_every_way(name, server, front, write_config, context):
    command, env, calls = server(name)
    settings = {"command": command[0], "args": command[1:], "env": env, "read_only": ["*"]}

    # As a direct client has it, twice: calls must not change what later ones give.
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=env)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        async with Client(stdio_client(parameters, errlog=nowhere)) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            for tool, arguments in calls:
                await client.call_tool(tool, arguments)
            direct = [plain(await client.call_tool(tool, given)) for tool, given in calls]

    # Through the gateway.
    made = await front({name: settings})
    async with made.client() as client:
        offered = {tool.name: tool for tool in (await client.list_tools()).tools}
        through = [plain(await client.call_tool(f"{name}__{tool}", given)) for tool, given in calls]
    ours = {f"{name}__{tool}": definition.input_schema for tool, definition in listed.items()}
    assert {n: t.input_schema for n, t in offered.items() if n.startswith(f"{name}__")} == ours
    assert through == direct

    # Through the library.
    outcomes = [await made.runtime.run(f"{name}__{tool}", given, context) for tool, given in calls]
    for outcome, expected in zip(outcomes, direct, strict=True):
        assert outcome.ok is not expected["isError"]
        texts = [block["text"] for block in expected["content"] if block["type"] == "text"]
        if not outcome.ok:
            assert " ".join("\n".join(texts).split()) in " ".join(str(outcome.error).split())
        elif expected["structuredContent"] is not None:
            assert outcome.result.keys() == expected["structuredContent"].keys()
        elif len(texts) == len(expected["content"]):
            assert outcome.result == "\n".join(texts)
        else:
            assert len(outcome.output.parts) == len(expected["content"])

    # Through the command line.
    config = write_config({"servers": {name: settings}})
    for (tool, given), outcome in zip(calls[-2:], outcomes[-2:], strict=True):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "hardpoint", "--config", str(config), "call"),
                *(f"{name}__{tool}", "--input", json.dumps(given), "--json", "--yes"),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        answer = json.loads(done.stdout)
        assert answer["ok"] is outcome.ok, done.stderr
        if outcome.ok and name != "sequential-thinking":
            assert answer["result"] == outcome.result


async def test_resources_and_prompts_of_several_servers_stand_side_by_side(server, front):
    command, _, _ = server("everything")
    settings = {"command": command[0], "args": command[1:], "read_only": ["*"]}
    made = await front({"one": settings, "two": settings})

    async with made.client() as client:
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        prompts = (await client.list_prompts()).prompts
        uri = next(r.uri for r in resources if str(r.uri).startswith("hardpoint://two/"))
        read = await client.read_resource(str(uri))
        prompt = await client.get_prompt("one__simple-prompt")
        inner = str(uri).removeprefix("hardpoint://two/")
        with pytest.raises(Exception, match="several servers have this resource"):
            await client.read_resource(inner)

    assert {p.name.split("__")[0] for p in prompts} == {"one", "two"}
    assert {str(t.uri_template).split("/")[2] for t in templates} == {"one", "two"}
    assert str(read.contents[0].uri) == str(uri)
    assert prompt.messages


async def test_a_chain_of_gateways_keeps_names_and_results(server, front, write_config):
    command, _, calls = server("time")
    inner = write_config(
        {"servers": {"time": {"command": command[0], "args": command[1:], "read_only": ["*"]}}}
    )
    serve = ["-m", "hardpoint", "--config", str(inner), "serve"]
    middle = {
        "command": sys.executable,
        "args": serve,
        "env": {
            "HARDPOINT_HOME": os.environ["HARDPOINT_HOME"] + "-inner",
            "HARDPOINT_LOAD_PLUGINS": "mcp",
        },
        "read_only": ["*"],
    }
    made = await front({"inner": middle})
    tool, arguments = calls[0]

    async with made.client() as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = plain(await client.call_tool(f"inner__time__{tool}", arguments))

    assert {"inner__time__convert_time", "inner__time__get_current_time"} <= set(names)
    assert result["structuredContent"] or result["content"]
    assert "+9.0h" in json.dumps(result)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_inspector_lists_and_calls_through_the_gateway(
    era, server, assets, write_config, tmp_path
):
    command, _, _ = server("time")
    config = write_config(
        {"servers": {"time": {"command": command[0], "args": command[1:], "read_only": ["*"]}}}
    )
    # The inspector has an option of its own that is spelled --config.
    user_config = Path(os.environ["HARDPOINT_HOME"]) / "config" / "config.toml"
    user_config.parent.mkdir(parents=True)
    config.rename(user_config)
    package = assets.npm_package("@modelcontextprotocol/inspector")
    binary = json.loads((package / "package.json").read_text("utf-8"))["bin"]
    entry = binary if isinstance(binary, str) else next(iter(binary.values()))

    def inspect(*arguments: str) -> Any:
        done = subprocess.run(
            [
                *(assets.node(), str(package / entry), "--cli", "--protocol-era", era),
                *("-e", f"HARDPOINT_HOME={os.environ['HARDPOINT_HOME']}"),
                *("-e", "HARDPOINT_LOAD_PLUGINS=mcp"),
                *(sys.executable, "-m", "hardpoint", "serve"),
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "MCP_CATALOG_PATH": str(tmp_path / "catalog.json")},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    listed = inspect("--method", "tools/list")
    called = inspect(
        *("--method", "tools/call", "--tool-name", "time__convert_time"),
        *("--tool-arg", "source_timezone=UTC", "time=12:00", "target_timezone=Asia/Tokyo"),
    )

    assert "time__convert_time" in [tool["name"] for tool in listed["tools"]]
    assert "+9.0h" in json.dumps(called)
