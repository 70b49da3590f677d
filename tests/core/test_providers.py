"""Each provider gets definitions that it accepts, and gives calls that find their tool again."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.coercion import coerce
from hardpoint.errors import InvalidParameters
from hardpoint.parts import Audio, Blob, Image, Link, Part, Resource, Text, ToolOutput
from hardpoint.providers import (
    CUT_OFF,
    FAMILIES,
    NameMap,
    ProviderCall,
    definitions_for,
    parse_calls,
    result_messages,
    why_not_strict,
)
from hardpoint.schema import compile_validator

MCP_SCHEMAS = Path(__file__).parents[1] / "data" / "mcp-schemas"


@attrs.frozen
class Definition:
    name: str
    description: str = ""
    parameters: dict[str, Any] = attrs.field(factory=dict)
    title: str | None = None


def server_tools() -> list[Definition]:
    return [
        Definition(f"{file.stem}.{tool['name']}", tool.get("description", ""), tool["inputSchema"])
        for file in sorted(MCP_SCHEMAS.glob("*.json"))
        for tool in json.loads(file.read_text())["tools"]
    ]


def obj(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def shaped(provider: str, parameters: dict[str, Any]) -> Any:
    """One schema in a provider's form."""
    (made,) = definitions_for(provider, [Definition("t", "", parameters)])
    made = made.get("function", made)
    return made.get("parameters") or made.get("input_schema") or made.get("inputSchema")


def every(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside a schema that is written in the few keywords of a provider."""
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from every(inner)
    for inner in schema.get("$defs", {}).values():
        yield from every(inner)
    for inner in schema.get("anyOf", ()):
        yield from every(inner)
    if "items" in schema:
        yield from every(schema["items"])


# what providers refuse -------------------------------------------------------------------------

STRICT_WORDS = {
    "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "$ref",
    "$defs", "description", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minItems", "maxItems", "pattern", "format",
}  # fmt: skip
GEMINI_WORDS = {
    "type", "properties", "required", "items", "anyOf", "enum", "nullable", "description",
    "minimum", "maximum", "minItems", "maxItems",
}  # fmt: skip


def check_strict(schema: dict[str, Any]) -> None:
    assert schema["type"] == "object"
    for part in every(schema):
        assert part.keys() <= STRICT_WORDS, part
        assert part.keys() & {"type", "anyOf", "$ref"}, part
        if "$ref" in part:
            assert part.keys() == {"$ref"}
        types = part.get("type")
        if types == "object" or (isinstance(types, list) and "object" in types):
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
        if types == "array" or (isinstance(types, list) and "array" in types):
            assert part["items"]
    assert compile_validator(schema)


def check_gemini(schema: dict[str, Any] | None) -> None:
    if schema is None:
        return
    for part in every(schema):
        assert part.keys() <= GEMINI_WORDS, part
        if "anyOf" in part:
            assert part.keys() == {"anyOf"}
            continue
        assert part["type"] in {"string", "integer", "number", "boolean", "array", "object"}
        if "enum" in part:
            assert part["type"] == "string"
            assert part["enum"]
            assert all(isinstance(option, str) and option for option in part["enum"])
        if part["type"] == "array":
            assert part["items"]
        if part["type"] == "object":
            assert part["properties"]
            assert set(part.get("required", ())) <= set(part["properties"])


def check_plain(schema: dict[str, Any]) -> None:
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    assert not schema.keys() & {
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "enum",
        "const",
        "$ref",
        "$schema",
    }
    assert compile_validator(schema)


def check_all(parameters: dict[str, Any]) -> None:
    before = copy.deepcopy(parameters)
    check_plain(shaped("openai", parameters))
    check_plain(shaped("anthropic", parameters))
    check_gemini(shaped("gemini", parameters))
    if why_not_strict(parameters) is None:
        check_strict(shaped("openai-strict", parameters))
    else:
        check_plain(shaped("openai-strict", parameters))
    assert shaped("mcp", parameters) == {"type": "object", **before}
    assert parameters == before


@pytest.mark.parametrize("tool", server_tools(), ids=lambda tool: tool.name)
def test_schemas_of_real_servers_are_accepted_everywhere(tool: Definition) -> None:
    check_all(tool.parameters)


def test_schemas_of_real_servers_are_strict() -> None:
    assert {why_not_strict(tool.parameters) for tool in server_tools()} == {None}


NODE = {**obj("n", n={"type": "integer"}, next={"$ref": "#/$defs/node"})}
SHAPES = [
    obj("kind", "r", kind={"const": "circle"}, r={"type": "number"}),
    obj("kind", kind={"const": "label"}, text={"type": "string"}, big={"type": "boolean"}),
]
ODD = {
    "empty": obj(),
    "top union": {"oneOf": SHAPES},
    "union beside": {**obj("id", id={"type": "integer"}, kind={}), "anyOf": SHAPES},
    "required only": {
        **obj(a={"type": "string"}, b={}),
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "all of": {
        "type": "object",
        "allOf": [obj("a", a={"type": "string"}), {"$ref": "#/$defs/b"}],
        "$defs": {"b": obj(b={})},
    },
    "top reference": {"$ref": "#/$defs/p", "$defs": {"p": obj(a={"type": "string"})}},
    "recursive": {**obj("v", v={"$ref": "#/$defs/node"}), "$defs": {"node": NODE}},
    "recursive root": obj(kids={"type": "array", "items": {"$ref": "#"}}, n={"type": "integer"}),
    "into a variant": {
        "oneOf": [obj(a={"type": "string"}), obj(b={"$ref": "#/oneOf/0/properties/a"})]
    },
    "map": obj(env={"type": "object", "additionalProperties": {"type": "string"}}),
    "tuple": obj(p={"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}),
    "old tuple": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **obj(p={"type": "array", "items": [{"type": "string"}], "additionalItems": False}),
    },
    "old limits": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        **obj("n", n={"type": "integer", "minimum": 3, "exclusiveMinimum": True}),
    },
    "any": obj("v", v={}, w=True, x=False, y={"type": "array", "items": True}),
    "types": obj(
        v={"type": ["string", "integer", "null"]},
        w={"type": ["object", "null"], "properties": {"a": {"type": "string"}}},
    ),
    "numbers": obj(v={"enum": [1, 2, None]}, w={"enum": ["", "a", None]}, x={"const": True}),
    "null": obj(v={"type": "null"}, w={"anyOf": [{"type": "null"}, {"type": "null"}]}),
    "conditions": {
        **obj(a={"type": "string"}),
        "if": {"required": ["a"]},
        "then": {"required": ["b"]},
    },
    "not": obj(v={"type": "string", "not": {"const": "x"}}),
    "nested union": obj(
        v={"anyOf": [{"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"oneOf": SHAPES}]}
    ),
    "bad words": obj(
        v={"type": "string", "title": "V", "examples": ["x"], "x-y": 1, "$comment": "c"}
    ),
    "look around": obj(v={"type": "string", "pattern": "(?=.*x)y", "minLength": 2}),
    "array of maps": obj(v={"type": "array", "items": {"type": "object", "properties": {}}}),
    "side": {
        **obj(v={"$ref": "#/$defs/n", "minimum": 10, "description": "D"}),
        "$defs": {"n": {"type": "integer", "maximum": 50}},
    },
}


@pytest.mark.parametrize("parameters", ODD.values(), ids=ODD)
def test_odd_schemas_are_accepted_everywhere(parameters: dict[str, Any]) -> None:
    check_all(parameters)


leaves = st.sampled_from([
    {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["boolean", "null"]}, {},
    {"enum": ["a", "b"]}, {"const": 5}, {"type": "object", "additionalProperties": True}, True,
    {"type": "null"}, {"$ref": "#"}, {"$ref": "#/$defs/d"}, {"type": "string", "format": "uri"},
])  # fmt: skip
schemas = st.recursive(
    leaves,
    lambda inner: (
        inner.map(lambda s: {"type": "array", "items": s})
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda p: obj(*p, **p))
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda p: obj(**p))
        | st.lists(inner, min_size=1, max_size=3).map(lambda s: {"anyOf": s})
        | st.lists(inner, min_size=1, max_size=2).map(lambda s: {"oneOf": s, "description": "d"})
        | st.lists(inner, min_size=1, max_size=2).map(lambda s: {"allOf": s})
    ),
    max_leaves=10,
)


def without_endless_references(parameters: dict[str, Any]) -> bool:
    try:
        compile_validator(parameters)
    except Exception:
        return False
    return True


parameters_of_tools = (
    st.dictionaries(st.sampled_from("abc"), schemas, max_size=4)
    .map(lambda p: {**obj(*list(p)[:1], **p), "$defs": {"d": obj(e={"$ref": "#/$defs/d"})}})
    .filter(without_endless_references)
)


@given(parameters_of_tools)
def test_any_schema_has_a_form_that_each_provider_accepts(parameters: dict[str, Any]) -> None:
    check_all(parameters)


def example(schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> Any:
    """Some arguments that a model bound to a strict schema could send."""
    if "$ref" in schema:
        target = root
        for step in schema["$ref"].split("/")[1:]:
            target = target[step]
        return example(target, root, depth + 1)
    if "anyOf" in schema:
        null = {"type": "null"} in schema["anyOf"]
        return None if null and depth > 3 else example(schema["anyOf"][0], root, depth + 1)
    if "enum" in schema:
        return schema["enum"][-1]
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "null" in types:
        return None
    if "object" in types:
        return {k: example(s, root, depth + 1) for k, s in schema["properties"].items()}
    if "array" in types:
        return [] if depth > 3 else [example(schema["items"], root, depth + 1)]
    return {"string": "x", "integer": 7, "number": 1.5, "boolean": True}[types[0]]


names = st.sampled_from("abc")
EXACT = st.recursive(
    st.sampled_from([
        {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["boolean", "null"]},
        {"enum": ["a", "b"]}, {"const": 5}, {"type": "null"}, {"$ref": "#"},
    ]),
    lambda inner: (
        inner.map(lambda s: {"type": "array", "items": s})
        | st.dictionaries(names, inner, min_size=1, max_size=3).map(lambda p: obj(**p))
        | st.lists(inner, min_size=1, max_size=3).map(lambda s: {"anyOf": s})
    ),
    max_leaves=8,
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from("abc"), EXACT, min_size=1, max_size=3).map(lambda p: obj(**p))
)
def test_what_a_strict_form_allows_is_right_for_the_tool(parameters: dict[str, Any]) -> None:
    if why_not_strict(parameters) is not None:
        return
    strict = shaped("openai-strict", parameters)
    sent = example(strict, strict)
    assert compile_validator(strict).is_valid(sent)

    arrived = coerce(sent, parameters)

    assert compile_validator(parameters).validate(arrived) == []


# strict mode -----------------------------------------------------------------------------------


def test_an_optional_field_may_be_null_and_names_its_default() -> None:
    made = shaped(
        "openai-strict", obj("a", a={"type": "string"}, b={"type": "integer", "default": 5})
    )

    assert made["required"] == ["a", "b"]
    assert made["properties"]["b"] == {
        "type": ["integer", "null"],
        "description": "(null for the default 5)",
    }


def test_constraints_beside_a_reference_and_behind_it_are_kept() -> None:
    made = shaped("openai-strict", ODD["side"])

    value = made["properties"]["v"]
    assert (value["minimum"], value["maximum"]) == (10, 50)
    assert value["description"] == "D"


def test_what_strict_mode_has_no_word_for_is_said_in_the_description() -> None:
    made = shaped(
        "openai-strict", obj("v", v={"type": "string", "minLength": 3, "description": "D"})
    )

    assert made["properties"]["v"] == {"type": "string", "description": "D (at least 3 characters)"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("top union", "union"),
        ("map", "any name"),
        ("tuple", "items of one type"),
        ("any", "any type"),
        ("conditions", "if"),
        ("not", "not"),
        ("array of maps", "any name"),
    ],
)
def test_a_schema_without_a_strict_form_says_so(
    name: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        (made,) = definitions_for("openai-strict", [Definition("t", "", ODD[name])])

    assert made["function"]["strict"] is False
    assert reason in str(why_not_strict(ODD[name]))
    assert "without strict mode" in caplog.text


def test_one_tool_without_a_strict_form_leaves_the_others_strict() -> None:
    tools = [Definition("a", "", ODD["map"]), Definition("b", "", obj(x={"type": "string"}))]

    assert [m["function"]["strict"] for m in definitions_for("openai-strict", tools)] == [
        False,
        True,
    ]


def test_a_schema_that_doubles_at_each_step_stays_small() -> None:
    definitions = {
        f"d{n}": obj(a={"$ref": f"#/$defs/d{n + 1}"}, b={"$ref": f"#/$defs/d{n + 1}"})
        for n in range(40)
    }
    definitions["d40"] = {"type": "string"}
    parameters = {**obj(v={"$ref": "#/$defs/d0"}), "$defs": definitions}

    assert "too deeply nested" in str(why_not_strict(parameters))
    assert len(json.dumps(shaped("gemini", parameters))) < 1_000_000


# other forms -----------------------------------------------------------------------------------


def test_variants_at_the_top_become_one_object_and_a_sentence() -> None:
    (made,) = definitions_for("anthropic", [Definition("draw", "Draw.", {"oneOf": SHAPES})])

    schema = made["input_schema"]
    assert schema["properties"]["kind"] == {"enum": ["circle", "label"]}
    assert schema["required"] == ["kind"]
    assert made["description"].startswith('Draw. Give one of: (kind="circle", r); (kind="label"')


def test_gemini_gets_what_it_cannot_describe_as_json_text_that_coercion_opens() -> None:
    parameters = obj("env", env={"type": "object", "additionalProperties": {"type": "integer"}})

    made = shaped("gemini", parameters)

    assert made["properties"]["env"] == {"type": "string", "description": "(as JSON text: object)"}
    assert coerce({"env": '{"a": "1"}'}, parameters) == {"env": {"a": 1}}


def test_gemini_is_told_of_a_tool_without_parameters_by_leaving_them_out() -> None:
    assert definitions_for("gemini", [Definition("t", "D", obj())]) == [
        {"name": "t", "description": "D"}
    ]


def test_mcp_definitions_carry_what_mcp_knows() -> None:
    assert definitions_for("mcp", [Definition("a.b", "D", obj(), title="T")]) == [
        {"name": "a.b", "title": "T", "description": "D", "inputSchema": obj()}
    ]


def test_a_form_shares_nothing_with_the_tool() -> None:
    parameters = obj(a={"type": "string", "enum": ["x"], "default": "x"})
    for provider in FAMILIES:
        made = shaped(provider, parameters)
        made["properties"]["a"].setdefault("enum", []).append("y")
        made["properties"]["b"] = {}
    assert parameters == obj(a={"type": "string", "enum": ["x"], "default": "x"})


def test_an_unknown_provider_is_named() -> None:
    with pytest.raises(InvalidParameters, match="no provider named 'other'; known are anthropic"):
        definitions_for("other", [])
    with pytest.raises(InvalidParameters):
        parse_calls("other", [])


# names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["openai", "anthropic", "gemini", "mcp"])
def test_names_are_allowed_and_come_back(family: str) -> None:
    names = [
        "plain",
        "a.b",
        "a_b",
        "a/b",
        "ä",
        "x" * 65,
        "x" * 200,
        "x" * 201,
        "1",
        "-",
        "",
        "a b",
        "\ud800",
    ]
    allowed = {"gemini": "_.-", "mcp": "_.-"}.get(family, "_-")

    mapped = NameMap(family, names)

    wire = [mapped.to_wire(name) for name in names]
    assert len(set(wire)) == len(names)
    assert [mapped.from_wire(name) for name in wire] == names
    for name in wire:
        assert 1 <= len(name) <= (128 if family == "mcp" else 64)
        assert name.isascii()
        assert all(letter.isalnum() or letter in allowed for letter in name)


def test_a_name_is_the_same_whatever_stands_beside_it() -> None:
    alone = NameMap("openai", ["files.read"]).to_wire("files.read")

    assert alone == NameMap("openai", ["files_read", "x", "files.read", "files/read"]).to_wire(
        "files.read"
    )
    assert NameMap("openai", ["read_file"]).to_wire("read_file") == "read_file"


def test_a_name_that_imitates_a_mapped_one_keeps_its_own_tool() -> None:
    imitation = NameMap("openai", ["files.read"]).to_wire("files.read")

    mapped = NameMap("openai", ["files.read", imitation])

    assert mapped.from_wire(imitation) == imitation
    assert mapped.to_wire("files.read") != imitation


# calls -----------------------------------------------------------------------------------------


def plain_objects(value: Any) -> Any:
    """The same as objects with attributes, as providers' libraries give them."""
    if isinstance(value, dict) and "args" not in value and "input" not in value:
        return SimpleNamespace(**{key: plain_objects(member) for key, member in value.items()})
    if isinstance(value, dict):
        return SimpleNamespace(**value)
    return [plain_objects(member) for member in value] if isinstance(value, list) else value


CHAT = {"id": "c1", "type": "function", "function": {"name": "a_b", "arguments": '{"x": 1}'}}
CALL = {
    "type": "function_call",
    "id": "fc",
    "call_id": "c1",
    "name": "a_b",
    "arguments": '{"x": 1}',
}
USE = {"type": "tool_use", "id": "c1", "name": "a_b", "input": {"x": 1}}
FUNCTION = {"functionCall": {"id": "c1", "name": "a_b", "args": {"x": 1}}}
REPLIES = [
    ("openai", [CHAT]),
    ("openai", {"role": "assistant", "content": None, "tool_calls": [CHAT]}),
    (
        "openai-strict",
        {"choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [CHAT]}}]},
    ),
    ("openai-responses", [{"type": "reasoning", "id": "r"}, CALL]),
    ("openai-responses", {"output": [{"type": "message", "content": []}, CALL]}),
    ("anthropic", [USE]),
    (
        "anthropic",
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Hm."}, USE],
            "stop_reason": "tool_use",
        },
    ),
    ("gemini", [FUNCTION]),
    ("gemini", {"role": "model", "parts": [{"text": "Hm."}, FUNCTION]}),
    ("gemini", {"candidates": [{"finishReason": "STOP", "content": {"parts": [FUNCTION]}}]}),
    ("gemini", [{"function_call": {"id": "c1", "name": "a_b", "args": {"x": 1}}}]),
    (
        "mcp",
        [{"id": "c1", "method": "tools/call", "params": {"name": "a_b", "arguments": {"x": 1}}}],
    ),
    ("mcp", {"id": "c1", "name": "a_b", "arguments": {"x": 1}}),
]


@pytest.mark.parametrize("as_objects", [False, True])
@pytest.mark.parametrize(("provider", "reply"), REPLIES)
def test_calls_are_found_in_every_form_of_a_reply(
    provider: str, reply: Any, as_objects: bool
) -> None:
    (call,) = parse_calls(provider, plain_objects(reply) if as_objects else reply, ["a_b"])

    params = json.loads(call.params) if isinstance(call.params, str) else call.params
    if isinstance(params, SimpleNamespace):
        params = vars(params)
    assert (call.id, call.name, params) == ("c1", "a_b", {"x": 1})


def test_mapped_names_lead_back_to_their_tool() -> None:
    tools = [Definition("a.b", "", obj()), Definition("c", "", obj())]
    for provider in ("openai", "openai-strict", "anthropic", "gemini", "mcp"):
        made = definitions_for(provider, tools)[0]
        wire = made.get("function", made)["name"]
        reply = {
            "openai": [{"id": "1", "function": {"name": wire, "arguments": "{}"}}],
            "anthropic": [{"type": "tool_use", "id": "1", "name": wire, "input": {}}],
            "gemini": [{"functionCall": {"name": wire, "args": {}}}],
            "mcp": [{"name": wire, "arguments": {}}],
        }[FAMILIES[provider]]

        assert parse_calls(provider, reply, ["c", "a.b"])[0].name == "a.b"


@pytest.mark.parametrize("arguments", ['{"x": ', "", "null", None, "[1]", 5])
def test_arguments_that_cannot_be_read_are_left_to_validation(arguments: Any) -> None:
    reply = [{"id": "1", "function": {"name": "t", "arguments": arguments}}]

    (call,) = parse_calls("openai", reply, ["t"])

    assert call.params == arguments
    assert compile_validator(obj("x", x={})).validate(coerce(call.params, obj("x", x={})))


@pytest.mark.parametrize(
    ("provider", "reply"),
    [
        (
            "openai",
            {"choices": [{"finish_reason": "length", "message": {"tool_calls": [CHAT, CHAT]}}]},
        ),
        (
            "openai-responses",
            {"output": [CALL, CALL], "incomplete_details": {"reason": "max_output_tokens"}},
        ),
        ("anthropic", {"content": [USE, USE], "stop_reason": "max_tokens"}),
        (
            "gemini",
            {
                "candidates": [
                    {"finishReason": "MAX_TOKENS", "content": {"parts": [FUNCTION, FUNCTION]}}
                ]
            },
        ),
    ],
)
def test_the_last_call_of_a_reply_that_was_cut_off_does_not_run(provider: str, reply: Any) -> None:
    first, last = parse_calls(provider, reply, ["a_b"])

    assert first.params != CUT_OFF
    assert last.params == CUT_OFF
    (issue,) = compile_validator(obj()).validate(coerce(last.params, obj()))
    assert "cut off" in issue.received


@pytest.mark.parametrize("provider", sorted(FAMILIES))
@pytest.mark.parametrize(
    "reply",
    [
        None, [], {}, "text", 5, [None], [{}], [[]], [5], ["x"], {"content": "text"},
        {"parts": None},
        {"tool_calls": None}, {"choices": []}, {"choices": [None]}, [{"function": {}}],
        [{"type": "tool_use"}], [{"functionCall": {}}], [{"type": "function_call", "name": 5}],
    ],
)  # fmt: skip
def test_a_badly_formed_reply_is_no_crash(provider: str, reply: Any) -> None:
    for call in parse_calls(provider, reply, ["t"]):
        assert isinstance(call.name, str)
        assert isinstance(call.id, str)


# results ---------------------------------------------------------------------------------------


@attrs.frozen
class Outcome:
    text: str
    output: ToolOutput | None = None

    @property
    def ok(self) -> bool:
        return self.output is not None

    def to_model_text(self) -> str:
        return self.text


FINE = Outcome("done", ToolOutput({"a": 1}, parts=[Image(b"png", "image/png")]))
BROKEN = Outcome("Error: no")


def answered(provider: str, reply: Any, *outcomes: Outcome) -> list[Any]:
    calls = parse_calls(provider, reply, ["a_b"])
    return result_messages(provider, list(zip(calls, outcomes, strict=True)))


def test_openai_gets_one_message_for_each_call() -> None:
    assert answered("openai", [CHAT, CHAT], FINE, BROKEN) == [
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "tool", "tool_call_id": "c1", "content": "Error: no"},
    ]


def test_the_responses_api_gets_outputs_with_images() -> None:
    first, second = answered("openai-responses", [CALL, CALL], FINE, BROKEN)

    assert first["type"] == "function_call_output"
    assert first["call_id"] == "c1"
    assert [part["type"] for part in first["output"]] == ["input_text", "input_image"]
    assert second["output"] == "Error: no"


def test_anthropic_gets_all_results_in_one_message() -> None:
    (message,) = answered("anthropic", [USE, USE], FINE, BROKEN)

    fine, broken = message["content"]
    assert message["role"] == "user"
    assert fine["tool_use_id"] == "c1"
    assert [part["type"] for part in fine["content"]] == ["text", "image"]
    assert "is_error" not in fine
    assert broken["is_error"] is True


def test_gemini_gets_the_name_that_it_knows() -> None:
    wire = NameMap("gemini", ["a/b"]).to_wire("a/b")
    calls = parse_calls("gemini", [{"functionCall": {"name": wire, "args": {}}}], ["a/b"])

    (message,) = result_messages("gemini", [(calls[0], BROKEN)])

    assert calls[0].name == "a/b"
    assert message["parts"] == [
        {"functionResponse": {"name": wire, "response": {"error": "Error: no"}}}
    ]


def test_mcp_requests_get_responses_and_plain_calls_get_results() -> None:
    request = {"id": 7, "method": "tools/call", "params": {"name": "a_b", "arguments": {}}}

    (response,) = answered("mcp", [request], FINE)
    (result,) = answered("mcp", [{"name": "a_b"}], BROKEN)

    assert response["jsonrpc"] == "2.0"
    assert response["id"] == 7
    assert response["result"]["structuredContent"] == {"a": 1}
    assert [part["type"] for part in response["result"]["content"]] == ["text", "image"]
    assert result == {"content": [{"type": "text", "text": "Error: no"}], "isError": True}


def test_mcp_knows_every_kind_of_part() -> None:
    parts: list[Part] = [
        Text("t"),
        Audio(b"a"),
        Blob(b"b", name="n"),
        Resource("x:y", text="t"),
        Resource("x:y", data=b"d", media_type="a/b"),
        Link("https://example.com", name="n"),
    ]

    (result,) = answered("mcp", [{"name": "a_b"}], Outcome("", ToolOutput(parts=parts)))

    types = [part["type"] for part in result["content"]]
    assert types == ["text", "audio", "resource", "resource", "resource", "resource_link"]
    assert json.loads(json.dumps(result)) == result


def test_no_calls_need_no_messages() -> None:
    assert [result_messages(provider, []) for provider in FAMILIES] == [[]] * len(FAMILIES)
    assert ProviderCall("1", "t", {}).form == ""
