"""Components without the tool world: exported functions are tools, their types the schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wasm_guests import other

import hardpoint
from hardpoint import (
    ExecutionFailed,
    InvalidParameters,
    JobContext,
    RegistrationError,
    SandboxError,
)
from hardpoint_wasm.tool import load_tools
from hardpoint_wasm.values import chosen_case, lift, lower, tagged
from hardpoint_wasm.wit import BYTES, STRING, WitType, object_schema, option, to_schema

ADD = """(core module $m1 (func (export "add") (param i32 i32) (result i32)
    (i32.add (local.get 0) (local.get 1))))
  (core instance $i1 (instantiate $m1))
  (func (export "add") (param "a" s32) (param "b" s32) (result s32)
    (canon lift (core func $i1 "add")))"""
SAME = """(core module $m3 (import "l" "memory" (memory 1))
    (func (export "same") (param i32 i32) (result i32)
      (i32.store8 (i32.const 0) (i32.eqz (local.get 1)))
      (i32.store (i32.const 4) (local.get 0)) (i32.store (i32.const 8) (local.get 1))
      (i32.const 0)))
  (core instance $i3 (instantiate $m3 (with "l" (instance $l))))
  (func (export "same-text") (param "text" string)
    (result (result string (error string)))
    (canon lift (core func $i3 "same") (memory (core memory $l "memory"))
      (realloc (core func $l "realloc"))))"""


async def _tools(wasm_runtime: Any, source: str, name: str = "calc") -> dict[str, Any]:
    import wasmtime

    wasm = bytes(wasmtime.wat2wasm(source))
    return {tool.name: tool for tool in await load_tools(wasm, name, runtime=wasm_runtime)}


async def test_one_function_is_a_tool_with_a_schema_of_its_types(
    load: Any, context: JobContext
) -> None:
    tool = await load(other.typed(ADD), name="add")

    assert tool.parameters_schema() == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
            "b": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert not hardpoint.validate_tool_schema(tool.parameters_schema())
    assert (await tool.execute({"a": 2, "b": 40}, context)).result == 42


async def test_several_functions_are_several_tools(wasm_runtime: Any, context: JobContext) -> None:
    tools = await _tools(wasm_runtime, other.typed(ADD, SAME))

    assert sorted(tools) == ["calc__add", "calc__same_text"]
    assert (await tools["calc__add"].execute({"a": 1, "b": -3}, context)).result == -2
    assert (await tools["calc__same_text"].execute({"text": "grün"}, context)).result == "grün"


async def test_load_wants_exactly_one(load: Any) -> None:
    with pytest.raises(RegistrationError, match="calc__add"):
        await load(other.typed(ADD, SAME), name="calc")


async def test_the_error_of_a_result_is_an_error(wasm_runtime: Any, context: JobContext) -> None:
    tools = await _tools(wasm_runtime, other.typed(SAME), "same")

    with pytest.raises(ExecutionFailed, match="same"):
        await tools["same"].execute({"text": ""}, context)


@pytest.mark.parametrize("params", [{}, {"a": "1", "b": 2}, {"a": 2**31, "b": 0},
                                    {"a": True, "b": 0}, {"a": 1.5, "b": 0}])  # fmt: skip
async def test_arguments_that_do_not_fit_are_refused_before_the_guest_runs(
    load: Any, context: JobContext, params: dict[str, Any]
) -> None:
    tool = await load(other.typed(ADD), name="add")

    with pytest.raises(InvalidParameters):
        await tool.execute(params, context)


async def test_a_component_with_nothing_to_call_is_refused(load: Any) -> None:
    with pytest.raises(SandboxError, match="no function that could be a tool"):
        await load("(component)")


async def test_types_that_would_fill_the_host_are_not_offered(load: Any) -> None:
    types = "(type $t0 (tuple u8 u8))" + "".join(
        f"(type $t{n} (tuple $t{n - 1} $t{n - 1}))" for n in range(1, 11)
    )
    function = """(core module $m (func (export "f") (param i32) (result i32) (local.get 0)))
      (core instance $i (instantiate $m))
      (func (export "f") (param "x" (option $t10)) (canon lift (core func $i "f")))"""

    with pytest.raises(SandboxError):
        await load(other.typed(types, function))


# values ----------------------------------------------------------------------------------------

RECORD = WitType("record", (), (("a-b", WitType("u8")), ("c", option(STRING))))
VARIANT = WitType(
    "variant", (), (("none-at-all", None), ("text", STRING), ("size", WitType("u32")))
)
CLASHING = WitType("variant", (), (("a", STRING), ("b", STRING), ("c", None)))
ENUM = WitType("enum", (), (("x", None), ("y", None)))
FLAGS = WitType("flags", (), (("r", None), ("w", None)))
TYPES: dict[str, tuple[WitType, st.SearchStrategy[Any]]] = {
    "bool": (WitType("bool"), st.booleans()),
    "s64": (WitType("s64"), st.integers(-(2**63), 2**63 - 1)),
    "u64": (WitType("u64"), st.integers(0, 2**64 - 1)),
    "f64": (WitType("f64"), st.floats(allow_nan=False, allow_infinity=False)),
    "char": (WitType("char"), st.characters(exclude_categories=("Cs",))),
    "string": (STRING, st.text(st.characters(exclude_categories=("Cs",)))),
    "bytes": (BYTES, st.binary().map(lambda b: __import__("base64").b64encode(b).decode())),
    "list": (WitType("list", (WitType("u16"),)), st.lists(st.integers(0, 65535))),
    "tuple": (WitType("tuple", (STRING, WitType("bool"))),
              st.tuples(st.text("ab"), st.booleans()).map(list)),
    "record": (RECORD, st.fixed_dictionaries(
        {"a-b": st.integers(0, 255), "c": st.none() | st.text("xyz")})),
    "option": (option(WitType("u8")), st.none() | st.integers(0, 255)),
    "enum": (ENUM, st.sampled_from("xy")),
    "variant": (VARIANT, st.just("none-at-all") | st.builds(lambda t: {"text": t}, st.text("ab"))
                | st.builds(lambda n: {"size": n}, st.integers(0, 9))),
    "clashing": (CLASHING, st.just("c") | st.builds(lambda t: {"a": t}, st.text("ab"))
                 | st.builds(lambda t: {"b": t}, st.text("ab"))),
    "result": (WitType("result", (), (("ok", None), ("err", STRING))),
               st.just("ok") | st.builds(lambda t: {"err": t}, st.text("ab"))),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_values_survive_the_way_in_and_out(name: str) -> None:
    type_, values = TYPES[name]

    @given(values)
    def survives(value: Any) -> None:
        assert lift(type_, lower(type_, value)) == value

    survives()


def test_flags_come_back_in_the_order_of_their_type() -> None:
    assert lift(FLAGS, lower(FLAGS, ["w", "r"])) == ["r", "w"]


@pytest.mark.parametrize("name", TYPES)
def test_every_type_has_a_schema_that_the_registry_takes(name: str) -> None:
    assert not hardpoint.validate_tool_schema(object_schema((("x", TYPES[name][0]),)))
    assert to_schema(TYPES[name][0])


def test_cases_are_told_apart_as_the_engine_does() -> None:
    assert not tagged(VARIANT)
    assert tagged(CLASHING)
    assert chosen_case(VARIANT, "abc") == ("text", "abc")
    assert chosen_case(VARIANT, 7) == ("size", 7)


@pytest.mark.parametrize(("type_", "value"), [
    (WitType("u8"), 256), (WitType("u8"), -1), (WitType("s8"), 1.5), (WitType("u8"), True),
    (WitType("bool"), 1), (STRING, 1), (WitType("char"), "ab"), (WitType("char"), ""),
    (BYTES, "not base64!"), (ENUM, "z"), (FLAGS, ["z"]), (FLAGS, "r"), (RECORD, {"c": None}),
    (RECORD, []), (VARIANT, {"text": 1}), (VARIANT, {"nope": 1}),
    (VARIANT, {"text": "a", "size": 1}),
    (VARIANT, None), (WitType("tuple", (STRING,)), []), (WitType("list", (STRING,)), "ab"),
])  # fmt: skip
def test_values_of_another_type_are_refused_with_their_place(type_: WitType, value: Any) -> None:
    with pytest.raises(InvalidParameters) as caught:
        lower(type_, value, "/x")

    assert caught.value.issues[0].path.startswith("/x")


def test_text_with_a_lone_surrogate_becomes_text() -> None:
    assert lower(STRING, "a\ud800b") == "a?b"
