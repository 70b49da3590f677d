"""Components of IronClaw's tool world, in every version, with every host function."""

from __future__ import annotations

from typing import Any

import pytest
from wasm_guests import wat

from hardpoint import ExecutionFailed, JobContext, SandboxError

VARIANTS = [
    (None, 5), (None, 4), ("0.2.0", 4), ("0.2.0", 5), ("0.3.0", 5), ("0.3.0", 4),
    ("0.4.0", 5), ("0.4.1", 5), ("0.4.1", 4),
]  # fmt: skip


@pytest.mark.parametrize(("version", "http_params"), VARIANTS)
async def test_every_host_function_works_in_every_version(
    load: Any, context: JobContext, services: Any, capabilities: Any, version: Any, http_params: int
) -> None:
    tool = await load(wat.tour(version, http_params), capabilities)

    output = await tool.execute({}, context)

    assert output.result == {
        "now": True,
        "document": "hello notes",
        "missing": None,
        "secret": True,
        "no_secret": False,
        "status": 200,
        "answer": "pong",
        "denied": output.result["denied"],
        "sum": 3,
    }
    assert "allow-list" in output.result["denied"]
    [request] = services.requests
    assert request.headers["authorization"].startswith("Bearer ")
    assert services.calls == [("add", {"a": 1, "b": 2})]


async def test_a_tool_without_capabilities_gets_nothing(
    load: Any, context: Any, services: Any
) -> None:
    tool = await load(wat.tour())

    text = (await tool.execute({}, context)).result

    assert '"document":null' in text
    assert '"secret":false' in text
    assert '"status":0' in text
    assert "may not make requests" in text
    assert "no tool is granted" in text
    assert services.requests == []
    assert services.calls == []


async def test_description_and_schema_come_from_the_guest(load: Any) -> None:
    tool = await load(wat.tool(description="counts things"))

    assert tool.description == "counts things"
    assert tool.parameters_schema()["properties"] == {"op": {"type": "string"}}


async def test_params_reach_the_guest_and_its_answer_comes_back_as_json(
    load: Any, context: Any
) -> None:
    tool = await load(wat.tool())

    output = await tool.execute({"op": "grüße", "n": [1, None]}, context)

    assert output.result == {"echo": {"op": "grüße", "n": [1, None]}}


async def test_text_that_is_no_json_comes_back_as_text(load: Any, context: Any) -> None:
    text = wat.Text()
    tool = await load(wat.tool(f"(call $put {text('plain words')})", text=text))

    output = await tool.execute({}, context)

    assert (output.result, output.structured) == ("plain words", False)


@pytest.mark.parametrize("version", ["0.1.0", "0.3.1", "0.4.2", "0.5.0", "1.0.0"])
async def test_an_unknown_version_is_refused_by_name(load: Any, version: str) -> None:
    with pytest.raises(SandboxError, match=f"near:agent/tool@{version}"):
        await load(wat.tool(version=version))


@pytest.mark.parametrize(
    "name", ["wasi:http/outgoing-handler@0.2.0", "near:agent/channel-host@0.3.0", "evil:x/y"]
)
async def test_imports_beyond_the_world_are_refused_by_name(load: Any, name: str) -> None:
    extra = f'(import "{name}" (instance (export "f" (func))))'

    with pytest.raises(SandboxError, match=name.replace("@", ".")):
        await load(wat.tool(more_imports=extra))


async def test_unknown_functions_of_the_host_interface_are_refused_by_name(load: Any) -> None:
    source = wat.tool().replace(
        '(export "now-millis" (func (result u64)))',
        '(export "now-millis" (func (result u64))) (export "exec" (func (param "c" string)))',
    )

    with pytest.raises(SandboxError, match="exec"):
        await load(source)


async def test_host_functions_with_other_types_are_refused(load: Any) -> None:
    source = (
        wat.tool()
        .replace(
            '(export "secret-exists" (func (param "name" string) (result bool)))',
            '(export "secret-exists" (func (param "name" string) (result string)))',
        )
        .replace(
            '(canon lower (func $host "secret-exists") (memory (core memory $l "memory")))',
            '(canon lower (func $host "secret-exists") (memory (core memory $l "memory"))'
            ' (realloc (core func $l "realloc")))',
        )
        .replace(
            '(import "h" "secret" (func $secret (param i32 i32) (result i32)))',
            '(import "h" "secret" (func $secret (param i32 i32 i32)))',
        )
    )

    with pytest.raises(SandboxError, match="secret-exists"):
        await load(source)


@pytest.mark.parametrize(("version", "answer"), [
    ("0.3.0", '(i32.store (i32.const 32) (i32.const 0)) (i32.store (i32.const 44) (i32.const 1))'
              '(i32.store (i32.const 48) (i32.const {0}))(i32.store (i32.const 52)(i32.const {1}))'
              '(return (i32.const 32))'),
    ("0.4.1", '(i32.store8 (i32.const 32) (i32.const 1)) (i32.store8 (i32.const 36) (i32.const 6))'
              '(i32.store (i32.const 40) (i32.const {0})) (i32.store (i32.const 44) (i32.const 0))'
              '(i32.store (i32.const 48) (i32.const {0}))(i32.store (i32.const 52)(i32.const {1}))'
              '(return (i32.const 32))'),
])  # fmt: skip
async def test_an_error_of_the_guest_is_reported_as_one(
    load: Any, context: Any, version: str, answer: str
) -> None:
    text = wat.Text()
    at, length = text("the city is unknown").replace("(i32.const ", "").replace(")", "").split()
    body = answer.format(at, length)
    tool = await load(wat.tool(body, version=version, text=text))

    with pytest.raises(ExecutionFailed, match="the city is unknown"):
        await tool.execute({}, context)
