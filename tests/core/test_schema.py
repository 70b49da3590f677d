"""Tool schemas: what may be registered, what arguments fit, and that strangers cannot hurt us."""

from __future__ import annotations

import collections
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.errors import ConfigError, InvalidParameters, SchemaError
from hardpoint.schema import (
    Validator,
    compile_document,
    compile_validator,
    lint,
    validate_tool_schema,
)

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
MCP_SCHEMAS = Path(__file__).parents[1] / "data" / "mcp-schemas"


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def paths(validator: Validator, params: Any) -> list[str]:
    return [issue.path for issue in validator.validate(params)]


@contextmanager
def answers_in_time() -> Iterator[None]:
    """Fails when there is no end to it; twenty seconds are for a machine that is busy otherwise."""

    def too_late(*_: object) -> None:
        raise AssertionError("no answer in time")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(20)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# lint ------------------------------------------------------------------------------------------


def server_schemas() -> list[Any]:
    return [
        pytest.param(tool["inputSchema"], id=f"{file.stem}:{tool['name']}")
        for file in sorted(MCP_SCHEMAS.glob("*.json"))
        for tool in json.loads(file.read_text())["tools"]
    ]


@pytest.mark.parametrize("schema", server_schemas())
def test_schemas_of_real_servers_have_no_problems(schema: dict[str, Any]) -> None:
    assert lint(schema) == []
    assert compile_validator(schema)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {}}, 'missing "type": "object"'),
        ({"type": "string"}, 'expected type "object", got "string"'),
        ({"type": "object"}, 'missing or non-object "properties"'),
        (obj(a={"type": "object"}), 'a: missing or non-object "properties"'),
        (
            {**obj(), "required": ["x"]},
            "required key 'x' not found in properties",
        ),
        (obj(tags={"type": "array"}), 'tags: array property missing "items"'),
        (obj(rows={"type": "array", "items": {"type": "array"}}), "rows.items: array property"),
        (obj(a={"anyOf": []}), "a: anyOf must be a list of at least one schema"),
        (obj(a={"type": "string", "minLength": "x"}), "minLength"),
        (obj(a={"allOf": [{"type": "strnig"}]}), "a.allOf[0]: unknown type 'strnig'"),
        (obj(a={"type": []}), "type is an empty list"),
        (obj(a={"type": {"x": 1}}), "unknown type object with 1 field"),
        (obj(a={"required": True}), "a: required must be a list"),
        ({**obj(), "$schema": "https://example.com/mine"}, "unknown dialect"),
        (obj(a={"$ref": 5}), "a: $ref must be text"),
        (obj(a={"dependentSchemas": {"b": 1}}), "a: dependentSchemas.b must be a schema"),
        ({**obj(), "definitions": []}, "definitions"),
        ({**obj(a={"$ref": "#/$defs/X"}), "$defs": {"X": 1}}, "$defs.X must be a schema"),
    ],
)
def test_each_problem_is_named_with_its_place(schema: Any, words: str) -> None:
    assert any(words in problem for problem in lint(schema)), lint(schema)


def test_all_problems_are_reported_at_once() -> None:
    schema = {**obj(a={"type": "array"}, b={"type": "what"}), "required": ["c"]}

    problems = lint(schema, "tool")

    assert len(problems) == 3
    assert all(problem.startswith("tool: ") for problem in problems)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}, "anyOf": [{"required": ["a"]}], "required": []}
        | {"properties": {"a": {}}},
        {**obj(a={"type": "string"}), "then": {"required": ["b"]}},
        obj(env={"type": "object", "additionalProperties": True}),
        obj(env={"type": "object", "patternProperties": {"^x": {}}}),
        {**obj(**{"not": {"type": "string"}, "$ref": {}, "default": {}}), "required": ["not"]},
        obj(a={"type": ["array", "null"], "items": {}}),
        obj(a={"$ref": "#/properties/b"}, b={"type": "integer"}),
        {**obj(a={"$ref": "#node"}), "$defs": {"n": {"$anchor": "node"}}},
        {"$ref": "#/$defs/P", "$defs": {"P": obj(a={})}},
        {
            "$id": "https://example.com/a",
            **obj(a={"$ref": "b#/$defs/n"}),
            "$defs": {"b": {"$id": "b", "$defs": {"n": {"type": "integer"}}}},
        },
    ],
)
def test_unusual_but_sound_schemas_are_fine(schema: dict[str, Any]) -> None:
    assert lint(schema) == []


@pytest.mark.parametrize(
    "pattern",
    ["(", "[", "*a", "+", "a**", "a+*", "a{2}{3}", "a{3,1}", "(?<n>", "\\", "(?z)", "[z-a]", "a|*"],
)
def test_broken_patterns_are_problems(pattern: str) -> None:
    assert any("pattern" in p for p in lint(obj(v={"pattern": pattern})))
    assert any("pattern" in p for p in lint(obj(v={"patternProperties": {pattern: {}}})))


@pytest.mark.parametrize(
    "pattern", ["a*?", "[*+]+", r"\*+", r"\p{L}+", "a{2}", "(a*)+", r"(?=.*\d).+", "{", "x|y?"][:7]
)
def test_sound_patterns_are_fine(pattern: str) -> None:
    assert lint(obj(v={"pattern": pattern})) == []


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        inner = obj(k=inner)
    return inner


@pytest.mark.parametrize(("levels", "fine"), [(16, True), (17, False), (5000, False)])
def test_depth_is_limited_to_sixteen(levels: int, fine: bool) -> None:
    assert (lint(nested(levels)) == []) is fine


@pytest.mark.parametrize(
    "place", ["properties", "$defs", "definitions", "x-other", "components", "dependentSchemas"]
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize(
    "target", ["https://x.example/y", "file:///etc/passwd", "../a", "//h/x", "http://[", "other"]
)
def test_references_outside_are_refused_wherever_they_stand(
    place: str, keyword: str, target: str
) -> None:
    schema = {**obj(), place: {"n": {keyword: target}}}

    assert any("leaves the schema" in problem for problem in lint(schema))
    with pytest.raises(SchemaError):
        compile_validator(schema)


@pytest.mark.parametrize("keyword", ["default", "examples", "enum", "const"])
def test_references_in_data_are_data(keyword: str) -> None:
    data: Any = {"$ref": "https://x.example/y"}
    schema = obj(v={keyword: [data] if keyword in ("examples", "enum") else data})

    assert lint(schema) == []


# hostile schemas and arguments -----------------------------------------------------------------


def doubling(keyword: str, levels: int) -> dict[str, Any]:
    """Each definition asks for the next one twice, so that the work doubles at every step."""
    definitions: dict[str, Any] = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "integer"}
    return {**obj(v={"$ref": "#/$defs/d0"}), "$defs": definitions}


def cyclic() -> dict[str, Any]:
    schema = obj()
    schema["properties"]["self"] = schema
    return schema


def laughs() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(60):
        schema = obj(a=schema, b=schema)
    return schema


class Unreadable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "schema",
    [
        doubling("allOf", 60),
        doubling("anyOf", 60),
        doubling("oneOf", 30),
        cyclic(),
        laughs(),
        nested(100_000),
        {**obj(), "description": "x" * 70_000},
        {**obj(), "enum": [[[]] * 3] * 50_000},
        obj(v={"$ref": "#/properties/v"}),
        {**obj(v={"$ref": "#/$defs/a"}), "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {}]}}},
        obj(v={"pattern": "((((a{100}){100}){100}){100})"}),
        obj(v={"pattern": "(?=" * 5000}),
        obj(v={"default": float("nan")}),
        obj(v={"default": {1, 2}}),
        obj(v={"default": b"bytes"}),
        obj(v={"default": Unreadable()}),
        obj(v={"default": ("a", "tuple")}),
        obj(v={"default": 10**5000}),
        obj(v={"description": "\ud800"}),
        {5: {}},
        {**obj(), "\udfff": {}},
        {"type": "object", "properties": {5: {}}},
        obj(v={"$ref": "#/" + "a/" * 20_000}),
        obj(v={"$ref": "#%ff%zz"}),
        obj(v={"$ref": "#/properties/v/$ref"}),
        "text",
        None,
        [],
        5,
        Unreadable(),
    ],
    ids=range(30),
)
def test_hostile_schemas_are_refused_in_time(schema: Any) -> None:
    with answers_in_time():
        assert lint(schema)
        with pytest.raises(SchemaError):
            compile_validator(schema)


def test_problems_stay_short_and_few() -> None:
    schema = obj(**{f"{n}-{'x' * 50}": {"type": "y" * 40} for n in range(400)})

    problems = lint(schema)

    assert len(problems) <= 50
    assert all(len(problem) < 300 for problem in problems)


def operators(count: int) -> dict[str, Any]:
    """An expression language: each level is judged once per operator."""
    variants: list[dict[str, Any]] = [
        {**obj(op={"const": f"o{n}"}, left={"$ref": "#/$defs/e"}), "required": ["op"]}
        for n in range(count)
    ]
    return {
        **obj(v={"$ref": "#/$defs/e"}),
        "$defs": {"e": {"oneOf": [*variants, {"type": "integer"}]}},
    }


def chain(levels: int, end: Any, key: str = "left") -> Any:
    value = end
    for _ in range(levels):
        value = {"op": "o0", key: value}
    return value


@pytest.mark.parametrize("levels", [1, 4, 30, 100])
def test_problems_in_recursive_unions_are_found_in_time(levels: int) -> None:
    validator = compile_validator(operators(10))

    with answers_in_time():
        found = validator.validate({"v": chain(levels, "bad")})

    assert found
    if levels <= 4:
        assert found[0].path == "/v" + "/left" * levels


TREE = {**obj(kids={"type": "array", "items": {"$ref": "#"}}, n={"type": "integer"})}
SPREADING = {
    "allOf": [
        {"properties": {"a": {"$ref": "#"}, "n": {"type": "integer"}}},
        {"additionalProperties": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}},
    ],
    **obj(),
}


def self_holding(kind: type) -> Any:
    value: Any = kind()
    if kind is dict:
        value["a"] = value["b"] = value["kids"] = value
        return value
    value.extend([value, value])
    return {"kids": value}


def shared(levels: int) -> Any:
    value: Any = {"n": 1}
    for _ in range(levels):
        value = {"a": value, "kids": [value, value]}
    return value


@pytest.mark.parametrize("schema", [TREE, SPREADING, {"type": "object"}])
@pytest.mark.parametrize(
    "params",
    [
        self_holding(dict),
        self_holding(list),
        shared(100),
        {"a": chain(50_000, 1, "a")},
        {"kids": [json.loads("[" * 900 + "]" * 900)]},
        {"v": float("nan")},
        {"v": float("inf")},
        {"v": {1, 2}},
        {"v": "\ud800"},
        {"\ud800": 1},
        {5: 1},
        {"v": 10**5000},
        {"v": Unreadable()},
        {"v": [()]},
    ],
    ids=range(14),
)
def test_hostile_arguments_are_issues_in_time(schema: dict[str, Any], params: Any) -> None:
    validator = compile_validator(schema)

    with answers_in_time():
        assert not validator.is_valid(params)
        issues = validator.validate(params)

    assert issues
    assert all(len(issue.path) < 200 and len(issue.received) < 200 for issue in issues)


def test_deeply_nested_arguments_that_multiply_are_refused_in_time() -> None:
    validator = compile_validator(SPREADING)

    with answers_in_time():
        assert validator.validate({"a": chain(100, "bad", "a")})


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 100_000 + "b"),
        ("(x+x+)+y", "x" * 100_000),
        ("(?=.*x)(?=.*y).*z", "a" * 15_000),
        ("((?=.*b)a|a)*c", "a" * 15_000),
        (r"(.*)\1b", "a" * 15_000),
        ("(?:a|b)*a(?:a|b){100}c", "ab" * 100_000),
    ],
)
def test_catastrophic_patterns_answer_in_time(pattern: str, text: str) -> None:
    validator = compile_validator(obj(v={"type": "string", "pattern": pattern}))

    with answers_in_time():
        assert paths(validator, {"v": text}) == ["/v"]
        assert paths(validator, {"v": text * 200}) in (["/v"], [""])


def test_a_hundred_thousand_wrong_items_are_told_in_time() -> None:
    validator = compile_validator(obj(v={"type": "array", "items": {"type": "string"}}))

    with answers_in_time():
        issues = validator.validate({"v": list(range(100_000))})

    assert len(issues) == 50
    assert issues[0].path == "/v/0"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
keywords = st.sampled_from([
    "type", "properties", "items", "required", "anyOf", "allOf", "$ref", "$defs", "enum",
    "additionalProperties", "not", "if", "then", "$id", "$schema", "prefixItems", "minimum",
    "const", "pattern",
    "patternProperties", "dependentSchemas", "dependencies", "default", "$dynamicRef", "$anchor",
])  # fmt: skip
words = st.sampled_from(
    ["object", "array", "string", "#", "#/$defs/a", "a", "#a", "http://x/y", "("]
)
wild_schemas = st.recursive(
    json_values | words | st.booleans(),
    lambda inner: (
        st.dictionaries(keywords | st.sampled_from("ab"), inner, max_size=4)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=25,
)


@given(wild_schemas, st.dictionaries(st.sampled_from("ab"), json_values, max_size=3))
def test_any_schema_is_refused_in_words_or_judges_any_arguments(schema: Any, params: Any) -> None:
    problems = lint(schema)
    assert all(isinstance(problem, str) for problem in problems)
    try:
        validator = compile_validator(schema)
    except SchemaError as refused:
        assert refused.problems
        assert problems
    else:
        assert validator.is_valid(params) is not bool(validator.validate(params))


@given(st.dictionaries(keywords | st.sampled_from("ab"), wild_schemas, max_size=4))
def test_lint_never_changes_a_schema(schema: dict[str, Any]) -> None:
    before = repr(schema)
    lint(schema)
    assert repr(schema) == before


# validation ------------------------------------------------------------------------------------


def told(schema: dict[str, Any], params: Any, **more: Any) -> list[tuple[str, str, str, str]]:
    issues = compile_validator(schema).validate(params, **more)
    return [(issue.path, issue.code, issue.expected, issue.received) for issue in issues]


SHAPES = {
    "oneOf": [
        {**obj(kind={"const": "circle"}, r={"type": "number"}), "required": ["kind", "r"]},
        {**obj(kind={"const": "label"}, text={"type": "string"}), "required": ["kind", "text"]},
    ]
}


@pytest.mark.parametrize(
    ("schema", "params", "issue"),
    [
        (obj(v={"type": "integer"}), {"v": "x"}, ("/v", "type_mismatch", "integer", 'string "x"')),
        (
            {**obj(v={"type": "integer"}), "required": ["v"]},
            {},
            ("/v", "missing_required", "integer", "nothing"),
        ),
        (
            {**obj(name={}), "additionalProperties": False},
            {"nmae": "secret"},
            ("/nmae", "unexpected_field", "no such field; did you mean 'name'?", "string"),
        ),
        (
            {**obj(name={}), "unevaluatedProperties": False},
            {"x": 1},
            ("/x", "unexpected_field", "no such field", "integer"),
        ),
        (
            obj(v={"enum": ["a", "b"]}),
            {"v": "c"},
            ("/v", "invalid_value", 'one of "a", "b"', 'string "c"'),
        ),
        (obj(v={"const": 5}), {"v": 6}, ("/v", "invalid_value", "5", "6")),
        (obj(v={"minimum": 3}), {"v": 1}, ("/v", "invalid_value", "at least 3", "1")),
        (
            obj(v={"maxLength": 3}),
            {"v": "x" * 90},
            ("/v", "invalid_value", "at most 3 characters", "90 characters"),
        ),
        (
            obj(v={"pattern": "^a"}),
            {"v": "b"},
            ("/v", "invalid_value", "text that matches ^a", 'string "b"'),
        ),
        (
            obj(v={"uniqueItems": True}),
            {"v": [1, 1.0]},
            ("/v", "invalid_value", "items that all differ", "array of 2 items"),
        ),
        (obj(v=False), {"v": 1}, ("/v", "unexpected_field", "no such field", "integer")),
        (
            obj(v=SHAPES),
            {"v": {"kind": "circle", "r": "x"}},
            ("/v/r", "type_mismatch", "number", 'string "x"'),
        ),
        (
            obj(v=SHAPES),
            {"v": {"kind": "square"}},
            ("/v/kind", "invalid_value", 'one of "circle", "label"', 'string "square"'),
        ),
        (
            obj(v=SHAPES),
            {"v": {}},
            ("/v/kind", "missing_required", 'one of "circle", "label"', "nothing"),
        ),
        (obj(v=SHAPES), {"v": 5}, ("/v", "type_mismatch", "object", "5")),
        (
            obj(v={"anyOf": [{"type": "integer", "minimum": 10}, {"type": "null"}]}),
            {"v": 5},
            ("/v", "invalid_value", "at least 10", "5"),
        ),
        (
            obj(v={"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            {"v": "x"},
            ("/v", "type_mismatch", "integer or null", 'string "x"'),
        ),
        (
            obj(v={"anyOf": [{"maximum": 1}, {"minimum": 9}]}),
            {"v": 5},
            ("/v", "invalid_value", "at most 1 or at least 9", "5"),
        ),
        (
            obj(v={"oneOf": [{"minimum": 1}, {"minimum": 2}]}),
            {"v": 5},
            ("/v", "invalid_value", "a value that fits exactly one of 2 variants", "5"),
        ),
        (
            obj(v={"not": {"type": "integer"}}),
            {"v": 5},
            ("/v", "invalid_value", "a value that is not excluded", "5"),
        ),
        (
            obj(v={"contains": {"const": 1}}),
            {"v": [2]},
            ("/v", "invalid_value", "the items that the schema asks for", "array of 1 item"),
        ),
        (
            {**obj(a={}), "dependentRequired": {"a": ["b"]}},
            {"a": 1},
            ("/b", "missing_required", "a value", "nothing"),
        ),
        (
            {**obj(), "if": {"required": ["a"]}, "then": {"required": ["b"]}},
            {"a": 1},
            ("/b", "missing_required", "a value", "nothing"),
        ),
        (
            obj(**{"a/b~c": {"type": "null"}}),
            {"a/b~c": 1},
            ("/a~1b~0c", "type_mismatch", "null", "1"),
        ),
        (
            {**obj(), "patternProperties": {"^n": {"type": "integer"}}},
            {"n1": "x"},
            ("/n1", "type_mismatch", "integer", 'string "x"'),
        ),
        (
            {**obj(), "propertyNames": {"pattern": "^a"}},
            {"b": 1},
            ("/b", "unexpected_field", "another name", 'string "b"'),
        ),
        (
            obj(v={"prefixItems": [{}], "items": False}),
            {"v": [1, 2]},
            ("/v/1", "unexpected_field", "no such field", "integer"),
        ),
        (
            {
                "$schema": DRAFT_7,
                **obj(v={"items": [{"type": "null"}], "additionalItems": {"type": "null"}}),
            },
            {"v": [None, 3]},
            ("/v/1", "type_mismatch", "null", "3"),
        ),
    ],
)
def test_each_issue_names_place_expected_and_received(
    schema: dict[str, Any], params: Any, issue: tuple[str, str, str, str]
) -> None:
    assert told(schema, params) == [issue]


def test_every_problem_is_told() -> None:
    schema = {**obj(a={"type": "integer"}, b={"type": "string"}), "required": ["c"]}

    assert {path for path, *_ in told(schema, {"a": "x", "b": 1})} == {"/a", "/b", "/c"}


def test_whole_numbers_are_exact_at_any_size() -> None:
    big = 10**40
    validator = compile_validator(obj(v={"type": "integer", "maximum": big, "multipleOf": 2}))

    assert validator.is_valid({"v": big})
    assert not validator.is_valid({"v": big + 2})
    assert not validator.is_valid({"v": big - 1})
    assert not compile_validator(obj(v={"const": 2**53 + 1})).is_valid({"v": 2**53})


@pytest.mark.parametrize(("value", "kind"), [(True, "integer"), (1, "boolean"), (None, "integer")])
def test_booleans_numbers_and_null_are_kept_apart(value: Any, kind: str) -> None:
    assert not compile_validator(obj(v={"type": kind})).is_valid({"v": value})
    assert not compile_validator(obj(v={"enum": [0, "x"]})).is_valid({"v": False})


@pytest.mark.parametrize("params", [None, [], "text", 5, b"x"])
def test_arguments_must_be_an_object_whatever_the_schema_says(params: Any) -> None:
    assert told({"properties": {}}, params)[0][0] == ""


def test_any_mapping_is_accepted() -> None:
    assert told(obj(a={"type": "integer"}), collections.ChainMap({"a": 1})) == []
    assert told(obj(a={"type": "integer"}), collections.OrderedDict(a="x"))[0][0] == "/a"


@pytest.mark.parametrize(
    "params",
    [
        {"token": "hunter2"},
        {"token": {"inner": ["hunter2"]}},
        {"tokn": "hunter2"},
        {"o": {"token": "hunter2"}},
        {"o": '{"token": "hunter2"'},
        '{"token": "hunter2"',
        {"o": {"list": [{"token": "hunter2"}]}},
    ],
)
def test_sensitive_values_are_never_repeated(params: Any) -> None:
    inner = {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "null"}}}
    schema = {
        **obj(
            token={"type": "object", "additionalProperties": {"items": {"type": "integer"}}},
            o={"type": "object", "properties": {"token": {"const": 1}, "list": inner}},
        ),
        "additionalProperties": False,
    }

    issues = compile_validator(schema).validate(params, sensitive=frozenset({"token"}))

    assert issues
    assert "hunter2" not in repr(issues)


def test_beside_a_reference_counts_what_the_dialect_says() -> None:
    part = {"v": {"$ref": "#/definitions/n", "minimum": 10}}
    schema = {**obj(**part), "definitions": {"n": {"type": "integer"}}}
    old = {"$schema": DRAFT_7, **schema}

    assert told(schema, {"v": 5}) == [("/v", "invalid_value", "at least 10", "5")]
    assert told(old, {"v": 5}) == []


@given(st.dictionaries(st.sampled_from("abc"), json_values, max_size=3))
def test_is_valid_and_validate_agree(params: dict[str, Any]) -> None:
    schema = obj(
        a={"type": ["integer", "null"]},
        b={"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/n"}}, {"$ref": "#"}]},
        c={"not": {"type": "string"}},
    ) | {"$defs": {"n": {"oneOf": [{"type": "number"}, {"minLength": 2, "type": "string"}]}}}
    validator = compile_validator(schema)

    assert validator.is_valid(params) is (validator.validate(params) == [])


# the public dispatcher -------------------------------------------------------------------------


def test_the_second_argument_decides_what_is_checked() -> None:
    schema = {**obj(name={"type": "string"}, age={"type": "number"}), "required": ["name"]}

    assert validate_tool_schema(schema) == []
    assert validate_tool_schema({}, "x")[0].startswith("x: ")
    assert validate_tool_schema(schema, {"name": "Alice", "age": 30}) is None
    assert validate_tool_schema(schema, params={"name": "Alice"}) is None
    with pytest.raises(InvalidParameters) as caught:
        validate_tool_schema(schema, {"age": "x"})
    assert {issue.path for issue in caught.value.issues} == {"/name", "/age"}
    with pytest.raises(SchemaError):
        validate_tool_schema(obj(v={"$ref": "https://x.example"}), {})


# our own documents -----------------------------------------------------------------------------

DOCUMENT = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "limits": {
            "type": "object",
            "properties": {"memory": {"type": "integer", "minimum": 1, "default": 64}},
            "additionalProperties": False,
            "default": {},
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}


def test_documents_get_their_defaults_in_a_copy() -> None:
    given_document = {"name": "x", "limits": {}}

    checked = compile_document(DOCUMENT)(given_document, "a.json")

    assert checked == {"name": "x", "limits": {"memory": 64}}
    assert given_document == {"name": "x", "limits": {}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "a.json: missing 'name'"),
        ({"name": "x", "limit": {}}, "a.json.limit: unknown key; did you mean 'limits'?"),
        (
            {"name": "x", "limits": {"memory": "5"}},
            'a.json.limits.memory: must be integer, got string "5"',
        ),
        ([], "a.json: must be object, got array of 0 items"),
    ],
)
def test_a_broken_document_is_one_clear_error(document: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_document(DOCUMENT)(document, "a.json")
    assert str(caught.value) == message


@pytest.mark.parametrize("target", ["https://x.example/y", "file:///etc/passwd", "other.json"])
def test_a_document_schema_may_not_refer_outside(target: str) -> None:
    with pytest.raises(ValueError, match="leads out"):
        compile_document({"properties": {"a": {"$ref": target}}})
