"""What becomes of a server's list: names, repairs, what is dropped, what is cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint import validate_tool_schema
from hardpoint_mcp.catalogue import build, clean_text, repair
from hardpoint_mcp.config import ServerConfig
from hardpoint_mcp.names import LONGEST, assign

OBJECT: dict[str, Any] = {"type": "object"}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


def catalogue(*tools: Any, mode: Any = "server", **config: Any) -> Any:
    return build("srv", ServerConfig(command="x", **config), mode, tools)


def tool(name: Any, **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": "d", "inputSchema": SCHEMA, **fields}


# names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "server", "original", "offered"),
    [
        ("server", "time", "now", "time__now"),
        ("mcp", "time", "now", "mcp__time__now"),
        ("none", "time", "now", "now"),
        ("server", "my server!", "a/b:c d", "my_server___a_b_c_d"),
        ("server", "s", "dots.are.fine", "s__dots.are.fine"),
        ("server", "s", "ünï", "s___n_"),
    ],
)
def test_names_are_prefixed_and_cleaned(mode, server, original, offered):
    assert assign(server, mode, [original]) == {offered: original}


def test_names_that_would_be_mistaken_for_each_other_get_a_mark_that_stays():
    both = assign("s", "server", ["get-sum", "get_sum", "Get_Sum"])

    assert list(both.values()) == ["get-sum", "get_sum", "Get_Sum"]
    assert len({name.replace("-", "_").casefold() for name in both}) == 3
    assert next(iter(both)) == "s__get-sum"
    assert assign("s", "server", ["x", "get-sum", "get_sum"]).keys() >= set(list(both)[:2])


def test_a_name_that_needs_no_change_keeps_its_spelling_whatever_stands_before_it():
    names = assign("s", "server", ["a b", "a_b"])

    assert names["s__a_b"] == "a_b"
    assert list(names.values()) == ["a b", "a_b"]


def test_a_long_name_is_cut_with_a_mark():
    names = assign("s" * 60, "mcp", ["x" * 200, "x" * 201])

    assert len(names) == 2
    assert all(len(name) <= LONGEST for name in names)


@given(st.lists(st.text(max_size=150), max_size=20), st.text(max_size=80))
def test_offered_names_are_always_usable_and_apart(originals, server):
    names = assign(server, "server", originals)

    for name in names:
        assert 1 <= len(name) <= LONGEST
        assert all(c.isascii() and (c.isalnum() or c in "_.-") for c in name)
    assert len({name.replace("-", "_").casefold() for name in names}) == len(names)
    assert set(names.values()) == set(originals)


def test_renaming_changes_the_name_behind_the_prefix():
    made = catalogue(tool("getCurrentTime"), rename={"getCurrentTime": "now"})

    (listed,) = made.tools.values()
    assert listed.definition.name == "srv__now"
    assert listed.original == listed.definition.original_name == "getCurrentTime"
    assert listed.definition.owner == "srv"


def test_globs_choose_by_the_servers_own_names():
    made = catalogue(
        tool("read_a"), tool("read_b"), tool("write_a"), include=["read_*"], exclude=["*_b"]
    )

    assert list(made.tools) == ["srv__read_a"]


# schemas ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"type": "object"},
        {"type": ["object"]},
        {"properties": {"a": {"type": "string"}}},
        {"type": "object", "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": None, "required": None},
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "array"}, {"type": "null"}]}}},
        {"type": "object", "properties": {"a": {"items": {"type": "object"}, "type": "array"}}},
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/b"}},
            "$defs": {"b": {"type": "object"}},
        },
    ],
)
def test_what_servers_forget_is_filled_in(schema):
    made = catalogue(tool("t", inputSchema=schema))

    assert list(made.tools) == ["srv__t"], made.warnings
    assert validate_tool_schema(made.tools["srv__t"].definition.parameters) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": ["string", "null"]},
        "text",
        [],
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}},
        {"type": "object", "properties": {"a": {"type": "strange"}}},
        {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
    ],
)
def test_a_tool_beyond_repair_costs_itself_alone(schema):
    made = catalogue(tool("bad", inputSchema=schema), tool("good"))

    assert list(made.tools) == ["srv__good"]
    assert any("'bad' is left out" in warning for warning in made.warnings)


def test_repair_leaves_what_it_does_not_know():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"$anchor": "b", "type": "string", "x-thing": 1}},
        "allOf": [{"anyOf": [{"required": ["a"]}]}],
        "if": {"properties": {"a": {"const": "x"}}},
        "additionalProperties": False,
    }

    assert repair(schema) == schema


def test_a_schema_nested_beyond_reason_costs_its_tool_alone():
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(2000):
        deep = {"type": "object", "properties": {"a": deep}}

    made = catalogue(tool("deep", inputSchema=deep), tool("good"))

    assert list(made.tools) == ["srv__good"]


def test_a_broken_output_schema_is_dropped_and_the_tool_stays():
    made = catalogue(tool("t", outputSchema={"type": 7}))

    assert made.tools["srv__t"].definition.output_schema is None


def test_the_same_name_twice_keeps_the_first():
    made = catalogue(tool("t", description="first"), tool("t", description="second"), tool(""))

    assert made.tools["srv__t"].definition.description == "first"
    assert len(made.warnings) == 2


@pytest.mark.parametrize("file", sorted(Path(__file__).parents[3].glob("tests/data/mcp-schemas/*")))
def test_every_tool_of_known_servers_is_kept(file):
    items = json.loads(file.read_text("utf-8"))["tools"]

    made = build("s", ServerConfig(command="x"), "server", items)

    assert len(made.tools) == len(items)
    assert made.warnings == ()
    for listed in made.tools.values():
        assert listed.definition.parameters == listed.raw["inputSchema"]


# texts -----------------------------------------------------------------------------------------


def test_schemas_are_read_in_both_spellings():
    described = {"type": "object", "properties": {"a": {"type": "string"}}}
    listed = {"name": "a", "description": "Does it.", "input_schema": described}

    assert catalogue(listed).tools["srv__a"].definition.parameters == described


def test_annotations_are_read_in_both_spellings():
    made = catalogue(
        tool("a", annotations={"readOnlyHint": True, "title": "A"}),
        tool("b", annotations={"destructive_hint": True, "read_only_hint": "yes"}),
    )

    assert made.tools["srv__a"].definition.annotations == {"readOnlyHint": True, "title": "A"}
    assert made.tools["srv__b"].definition.annotations == {"destructiveHint": True}
    assert made.tools["srv__a"].definition.title == "A"


def test_what_nobody_sees_is_taken_out_of_descriptions():
    hidden = "Adds\u200b numbers.\u202e \U000e0041\U000e0042\x07\nSecond line."

    assert clean_text(hidden) == "Adds numbers. \nSecond line."
    assert clean_text("x" * 20_000).endswith("…")
    assert clean_text(None) == ""
