"""What is remembered of servers between two starts, and when it is fetched again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hardpoint_mcp.servers import standard_folders


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A line for each time that the server was asked for its tools."""
    return tmp_path / "lists"


@pytest.fixture
def server(fake: Any, log: Path) -> dict[str, Any]:
    command, *args = fake("log-lists")
    return {"command": command, "args": args, "env": {"FAKE_FILE": str(log)}, "read_only": ["*"]}


def lists(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def offered(front: Any) -> list[str]:
    return [d.name for d in front.runtime.visible() if d.name.startswith("s__")]


async def call(front: Any, context: Any) -> Any:
    return await front.runtime.run("s__echo", {"message": "hi"}, context)


async def test_a_server_that_was_met_is_listed_and_used_without_asking_again(
    front, server, log, context
):
    first = await front({"s": server})
    again = await front({"s": server})

    assert offered(again) == offered(first)
    assert (await call(again, context)).result == "hi"
    assert lists(log) == 1


async def test_an_old_list_is_fetched_again_when_the_server_is_used(front, server, log, context):
    await front({"s": server})
    again = await front({"s": server}, catalogue_ttl=0)

    assert lists(log) == 1
    await call(again, context)
    await call(again, context)
    assert lists(log) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tools": 7}', '{"tools": [7], "met_at": 1}'])
async def test_a_damaged_memory_is_no_memory(text, front, server, log, context):
    await front({"s": server})
    [file] = (standard_folders()["cache"] / "mcp").glob("s.*.json")
    file.write_text(text)

    again = await front({"s": server})

    assert (await call(again, context)).result == "hi"
    assert lists(log) == 2


async def test_another_configuration_is_another_server(front, server, log):
    await front({"s": server})
    await front({"s": server | {"env": server["env"] | {"MODE": "other"}}})
    assert lists(log) == 2


async def test_settings_that_the_server_does_not_see_keep_the_memory(front, server, log):
    await front({"s": server})
    again = await front({"s": server | {"include": ["e*"]}})

    assert lists(log) == 1
    assert offered(again) == ["s__echo", "s__env"]


async def test_what_is_remembered_holds_no_secrets_and_is_private(front, server):
    await front({"s": server | {"env": server["env"] | {"TOKEN": "tok-123"}}})
    [file] = (standard_folders()["cache"] / "mcp").glob("s.*.json")

    assert file.stat().st_mode & 0o077 == 0
    assert "tok-123" not in file.read_text()
    assert json.loads(file.read_text())["tools"]


async def test_one_server_that_cannot_start_costs_the_others_nothing(front, server, context):
    made = await front({"s": server, "gone": {"command": "no-such-program"}})

    assert (await call(made, context)).result == "hi"
    toolset = made.gateway.servers.toolsets["gone"]
    assert "no-such-program" in toolset.error
