"""WASI commands: JSON in, JSON out, an exit code; and nothing of the outside."""

from __future__ import annotations

from typing import Any

import pytest
from wasm_guests import other

from hardpoint import ExecutionFailed, JobContext, SandboxError
from hardpoint_wasm.capabilities import Capabilities


async def test_a_command_reads_its_arguments_and_answers_in_json(
    load: Any, context: JobContext
) -> None:
    tool = await load(other.ECHO)

    output = await tool.execute({"text": "grüße", "n": [1, 2.5, None]}, context)

    assert output.result == {"echo": {"text": "grüße", "n": [1, 2.5, None]}}
    assert output.meta["wasm"]["kind"] == "command"


async def test_another_exit_code_is_a_failure_with_the_end_of_standard_error(
    load: Any, context: JobContext
) -> None:
    tool = await load(other.EXIT)

    with pytest.raises(ExecutionFailed, match=r"exit code 7(.|\n)*no good"):
        await tool.execute({}, context)


async def test_a_command_can_sleep_within_its_time(load: Any, context: JobContext) -> None:
    tool = await load(other.NAP)

    assert (await tool.execute({}, context)).result is True


async def test_description_and_arguments_come_from_the_capabilities_file(load: Any) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    capabilities = Capabilities.from_json({"description": "Says it back", "parameters": schema})

    tool = await load(other.ECHO, capabilities)

    assert tool.description == "Says it back"
    assert tool.parameters_schema() == schema


LOOK = """
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $env (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $pre (param i32 i32) (result i32)))"""


async def test_a_command_sees_no_environment_no_arguments_and_no_folder(
    load: Any, context: JobContext
) -> None:
    body = """
    (drop (call $env (i32.const 32) (i32.const 36)))
    (drop (call $args (i32.const 40) (i32.const 44)))
    (call $exit (i32.add (i32.mul (i32.load (i32.const 32)) (i32.const 100))
      (i32.add (i32.mul (i32.load (i32.const 40)) (i32.const 10))
        (i32.eqz (call $pre (i32.const 3) (i32.const 48))))))"""
    source = other.command(body).replace("(module", "(module" + LOOK, 1)
    tool = await load(source)

    # No variable, one argument (the program's name), and descriptor 3 is no folder.
    with pytest.raises(ExecutionFailed, match="exit code 10"):
        await tool.execute({}, context)


@pytest.mark.parametrize(("source", "words"), [
    ('(module (memory (export "memory") 1))', "no _start"),
    ('(module (func (export "_start")))', "no memory"),
    ('(module (func (export "_start") (param i32)) (memory (export "memory") 1))', "no _start"),
    ('(module (import "env" "system" (func)) (func (export "_start"))'
     ' (memory (export "memory") 1))', "'env'"),
    ('(module (import "wasi_snapshot_preview1" "launch" (func)) (func (export "_start"))'
     ' (memory (export "memory") 1))', "launch"),
])  # fmt: skip
async def test_modules_that_are_no_commands_are_refused(
    load: Any, context: JobContext, source: str, words: str
) -> None:
    async def load_and_call() -> None:
        await (await load(source)).execute({}, context)

    with pytest.raises(SandboxError, match=words):
        await load_and_call()


RUN = """(component
  (core module $m (func (export "run") (result i32) (i32.const {code})))
  (core instance $i (instantiate $m))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance $run (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $run)))"""


async def test_a_component_with_wasi_cli_run_is_a_command(load: Any, context: JobContext) -> None:
    good, bad = await load(RUN.format(code=0)), await load(RUN.format(code=1))

    output = await good.execute({}, context)

    assert (output.result, output.meta["wasm"]["kind"]) == ("", "command")
    with pytest.raises(ExecutionFailed, match="exit code 1"):
        await bad.execute({}, context)


async def test_a_memory_limit_holds_for_commands(load: Any, context: JobContext) -> None:
    grow = "(loop $x (br_if $x (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))"
    tool = await load(
        other.command(grow + "(call $exit (memory.size))"), memory=4 << 20, name="grower"
    )

    with pytest.raises(ExecutionFailed, match="exit code 50"):  # 2 + 3 * 16 pages of 64
        await tool.execute({}, context)
