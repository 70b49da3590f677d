"""Text becomes what the schema asks for; nothing else changes, and nothing is guessed."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.coercion import coerce, make_coercer
from hardpoint.errors import SchemaError
from hardpoint.schema import compile_validator


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def one(schema: Any, value: Any) -> Any:
    """What becomes of one required value."""
    return coerce({"v": value}, {**obj(v=schema), "required": ["v"]})["v"]


ROW = {**obj(n={"type": "integer"}, s={"type": "string"}), "required": ["n"]}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "-12", -12),
        ({"type": "integer"}, "\t7\n", 7),
        ({"type": "integer"}, "9" * 400, int("9" * 400)),
        ({"type": "integer"}, "1e3", 1000),
        ({"type": "number"}, "-0.5e-1", -0.05),
        ({"type": "boolean"}, "fAlSe", False),
        ({"type": "null"}, "null", None),
        ({"type": ["null", "array"]}, "null", None),
        ({"const": 5}, "5", 5),
        ({"enum": [True, 2]}, "TRUE", True),
        ({"type": "array", "items": ROW}, '[{"n": "1", "s": "2"}]', [{"n": 1, "s": "2"}]),
        ({"type": "array", "items": ROW}, ['{"n": 1}'], [{"n": 1}]),
        ({"allOf": [{"type": "array"}, {"items": {"type": "integer"}}]}, '["3"]', [3]),
        ({"not": {"type": "string"}, "type": ["integer", "string"]}, "3", "3"),
        (
            {"anyOf": [{"type": "integer"}, {"type": "array", "items": ROW}]},
            '[{"n":"1"}]',
            [{"n": 1}],
        ),
    ],
)
def test_text_becomes_what_is_asked_for(schema: Any, text: Any, value: Any) -> None:
    assert one(schema, text) == value
    assert type(one(schema, text)) is type(value)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "１２"),
        ({"type": "integer"}, "5\x00"),
        ({"type": "integer"}, "5 6"),
        ({"type": "integer"}, "1e999"),
        ({"type": "integer"}, "1e400000000"),
        ({"type": "integer"}, "1.5"),
        ({"type": "integer"}, "0" * 10),
        ({"type": "integer"}, "9" * 5000),
        ({"type": "integer"}, "9007199254740993.0"),
        ({"type": "integer"}, "\xa05"),
        ({"type": "number"}, "infinity"),
        ({"type": "number"}, "-NaN"),
        ({"type": "number"}, "1."),
        ({"type": "number"}, ".5"),
        ({"type": "boolean"}, "true "),
        ({"type": "boolean"}, "falſe"),
        ({"type": "array"}, "[1] [2]"),
        ({"type": "array"}, "[1,]"),
        ({"type": "array"}, "[-Infinity]"),
        ({"type": "array"}, "[1e999]"),
        ({"type": "array"}, "[" + "9" * 5000 + "]"),
        ({"type": "array"}, "\ufeff[1]"),
        ({"type": "object"}, "{}}"),
        ({"type": "object"}, "[]"),
        ({"type": "object"}, '{"a": 1, // no\n}'),
        ({"type": "null"}, "Null"),
        ({"type": "null"}, ""),
        (False, "5"),
        (True, "5"),
        ({"minimum": 5}, "7"),
        ({"type": "string", "format": "date"}, "20240131"),
    ],
)
def test_what_cannot_be_read_stays_as_it_is(schema: Any, text: str) -> None:
    assert one(schema, text) is text


@pytest.mark.parametrize("value", [5, 5.5, True, None, [1], {"a": 1}, float("nan")])
@pytest.mark.parametrize("kind", ["integer", "number", "boolean", "null", "string"])
def test_only_text_is_changed(kind: str, value: Any) -> None:
    assert one({"type": kind}, value) is value


@pytest.mark.parametrize(
    ("schema", "params", "expected"),
    [
        (obj(v={"type": "integer"}), {"v": ""}, {}),
        (obj(v={"type": "integer"}), {"v": "null"}, {}),
        (obj(v={"type": ["integer", "null"]}), {"v": ""}, {"v": None}),
        (obj(v={"type": "string"}), {"v": ""}, {"v": ""}),
        (obj(v={}), {"v": "null"}, {"v": "null"}),
        ({**obj(v={"type": "integer"}), "required": ["v"]}, {"v": ""}, {"v": ""}),
        # Null is how a field is left out where every field must be sent.
        (obj(v={"type": "string"}), {"v": None}, {}),
        (obj(v={"type": ["string", "null"]}), {"v": None}, {"v": None}),
        (obj(v={}), {"v": None}, {"v": None}),
        (obj(), {"v": None}, {"v": None}),
        ({**obj(v={"type": "string"}), "required": ["v"]}, {"v": None}, {"v": None}),
        # A key that another part of the schema requires is required.
        ({**obj(v={"type": "integer"}), "allOf": [{"required": ["v"]}]}, {"v": ""}, {"v": ""}),
        (
            {
                **obj(v={"type": "integer"}),
                "$ref": "#/$defs/r",
                "$defs": {"r": {"required": ["v"]}},
            },
            {"v": ""},
            {"v": ""},
        ),
        # The members of a map and the items of a list are no optional fields.
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"v": ""}, {"v": ""}),
        (obj(v={"type": "array", "items": {"type": "integer"}}), {"v": [""]}, {"v": [""]}),
        (obj(o=obj(v={"type": "integer"})), {"o": {"v": ""}}, {"o": {}}),
        (obj(o=obj(v={"type": "integer"})), {"o": '{"v": ""}'}, {"o": {}}),
    ],
)
def test_an_empty_optional_field_is_absent(schema: Any, params: Any, expected: Any) -> None:
    assert coerce(params, schema) == expected


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ('{"n": "5"}', {"n": 5}),
        ("", {}),
        (" null ", {}),
        (None, {}),
        ("[]", "[]"),
        ('"{}"', '"{}"'),
        ("{" * 5000, "{" * 5000),
        (5, 5),
        ([], []),
        (b"{}", b"{}"),
    ],
)
def test_whole_arguments_may_be_the_text_of_one_object(params: Any, expected: Any) -> None:
    assert coerce(params, ROW) == expected


def circle(**more: Any) -> dict[str, Any]:
    return {**obj(kind={"const": "circle"}, r={"type": "number"}, **more), "required": ["kind"]}


LABEL = {**obj(kind={"const": "label"}, r={"type": "string"}), "required": ["kind"]}
EXPRESSION = {
    **obj(e={"$ref": "#/$defs/e"}),
    "$defs": {
        "e": {
            "anyOf": [
                {"type": "integer"},
                *(
                    {**obj(op={"const": f"o{n}"}, x={"$ref": "#/$defs/e"}), "required": ["op", "x"]}
                    for n in range(8)
                ),
            ]
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "params", "expected"),
    [
        # Marks pick the variant, also when something else in it is still wrong.
        ({"oneOf": [circle(), LABEL]}, {"kind": "circle", "r": "1"}, {"kind": "circle", "r": 1}),
        ({"oneOf": [circle(), LABEL]}, {"kind": "label", "r": "1"}, {"kind": "label", "r": "1"}),
        (
            {"oneOf": [circle(big={"type": "boolean"}), LABEL]},
            {"kind": "circle", "r": "1", "big": "maybe"},
            {"kind": "circle", "r": 1, "big": "maybe"},
        ),
        ({"oneOf": [circle(), LABEL]}, {"kind": "x", "r": "1"}, {"kind": "x", "r": "1"}),
        # Without marks the variant that fits after the change.
        (
            {
                "anyOf": [
                    {**obj(a={"type": "integer"}), "required": ["a"]},
                    {**obj(b={"type": "boolean"}), "required": ["b"]},
                ]
            },
            {"b": "true"},
            {"b": True},
        ),
        # What fits as it is stays as it is.
        (
            {"anyOf": [obj(a={"type": "integer"}), obj(a={"type": "string"})]},
            {"a": "5"},
            {"a": "5"},
        ),
        # One variant for objects among others.
        (obj(v={"anyOf": [{"type": "string"}, ROW]}), {"v": {"n": "5"}}, {"v": {"n": 5}}),
        (obj(v={"oneOf": [ROW, {"type": "null"}]}), {"v": '{"n": "5"}'}, {"v": {"n": 5}}),
        # Nested and recursive.
        (
            EXPRESSION,
            {"e": {"op": "o3", "x": {"op": "o7", "x": "5"}}},
            {"e": {"op": "o3", "x": {"op": "o7", "x": 5}}},
        ),
        (
            {**obj(v={"prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}})},
            {"v": ["1", "true", "TRUE", "x"]},
            {"v": [1, True, True, "x"]},
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                **obj(v={"items": [{"type": "integer"}], "additionalItems": {"type": "null"}}),
            },
            {"v": ["1", "null"]},
            {"v": [1, None]},
        ),
        (
            {
                "type": "object",
                "patternProperties": {"^n": {"type": "integer"}},
                "additionalProperties": {"type": "boolean"},
            },
            {"n1": "1", "z": "true"},
            {"n1": 1, "z": True},
        ),
        (
            {"$dynamicAnchor": "t", **obj(n={"type": "integer"}, kid={"$dynamicRef": "#t"})},
            {"kid": {"n": "1"}},
            {"kid": {"n": 1}},
        ),
        (
            {**obj(v={"$ref": "#a"}), "$defs": {"A": {"$anchor": "a", "type": "integer"}}},
            {"v": "1"},
            {"v": 1},
        ),
    ],
)
def test_the_rules_reach_every_part_of_a_schema(schema: Any, params: Any, expected: Any) -> None:
    assert coerce(params, schema) == expected


def test_what_needs_no_change_is_given_back_itself() -> None:
    params = {"n": 1, "s": "5", "other": [{"x": "1"}]}

    assert make_coercer(ROW)(params) is params


def test_arguments_are_never_changed_in_place() -> None:
    schema = obj(
        a={"type": "array", "items": ROW}, b={"type": "integer"}, c=obj(d={"type": "null"})
    )
    params = {"a": [{"n": "1"}], "b": "", "c": {"d": "null"}}
    before = copy.deepcopy(params)

    changed = coerce(params, schema)

    assert changed == {"a": [{"n": 1}], "c": {"d": None}}
    assert params == before


def test_an_unsafe_schema_is_refused() -> None:
    with pytest.raises(SchemaError):
        make_coercer(obj(v={"$ref": "https://x.example"}))


def test_a_validator_can_be_shared() -> None:
    assert make_coercer(compile_validator(ROW))({"n": "1"}) == {"n": 1}


# hostile arguments -----------------------------------------------------------------------------


def endless() -> Any:
    value: dict[str, Any] = {"n": "1"}
    value["kids"] = [value, value]
    value["e"] = value["x"] = value
    return value


def shared(levels: int) -> Any:
    value: Any = {"n": "1"}
    for _ in range(levels):
        value = {"kids": [value, value], "e": value, "x": value}
    return value


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"op": "o1", "x": value, "kids": [value] if levels < 200 else []}
    return {"e": value, **value}


SAME_TWICE = {
    "type": "object",
    "anyOf": [{"properties": {"x": {"$ref": "#"}}, "required": [name]} for name in ("a", "b", "c")],
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "schema",
    [
        EXPRESSION,
        obj(kids={"type": "array", "items": {"$ref": "#"}}, n={"type": "integer"}),
        SAME_TWICE,
    ],
)
@pytest.mark.parametrize(
    "params",
    [
        endless(),
        shared(110),
        deep(30),
        deep(120),
        deep(5000),
        '{"kids":' * 3000,
        json.dumps({"e": "[" * 20_000}),
        {"e": {1, 2}, "kids": [object()], 5: "x"},
        {"e": {"op": "o1", "x": "\ud800"}},
        {"kids": [{"n": str(n)} for n in range(50_000)]},
    ],
    ids=range(10),
)
def test_hostile_arguments_come_back_in_time(schema: Any, params: Any) -> None:
    coerced = make_coercer(schema)(params)

    compile_validator(schema).validate(coerced)


def test_nested_text_is_opened_only_as_deep_as_arguments_may_go() -> None:
    text = "[]"
    for _ in range(12):
        text = json.dumps([text])
    schema = {
        **obj(v={"$ref": "#/$defs/l"}),
        "$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}},
    }

    value = coerce({"v": text}, schema)["v"]

    for _ in range(12):
        assert isinstance(value, list)
        value = value[0]
    assert value == []


# properties ------------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
typed_schemas = st.recursive(
    st.sampled_from(["integer", "number", "boolean", "null", "string"]).map(lambda t: {"type": t})
    | st.just({}),
    lambda inner: (
        inner.map(lambda s: {"type": "array", "items": s})
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda p: obj(**p))
        | st.lists(inner, min_size=1, max_size=3).map(lambda s: {"anyOf": s})
        | st.lists(inner, min_size=1, max_size=2).map(lambda s: {"oneOf": s})
    ),
    max_leaves=6,
)
values = st.recursive(
    scalars | st.sampled_from(["5", "1.5", "true", "null", "", "[]", '{"a": "1"}', '["2"]']),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | inner.map(json.dumps)
    ),
    max_leaves=6,
)
arguments = st.dictionaries(st.sampled_from("abc"), values, max_size=3)
objects = st.dictionaries(st.sampled_from("abc"), typed_schemas, max_size=3).map(lambda p: obj(**p))


@given(objects, arguments)
def test_valid_arguments_are_left_alone(schema: Any, params: Any) -> None:
    if compile_validator(schema).is_valid(params):
        assert coerce(params, schema) is params


@given(objects, arguments)
def test_coercing_twice_changes_nothing_more(schema: Any, params: Any) -> None:
    once = coerce(params, schema)

    assert coerce(once, schema) == once


@given(objects, arguments)
def test_coercion_never_makes_valid_arguments_wrong(schema: Any, params: Any) -> None:
    validator = compile_validator(schema)

    assert validator.is_valid(params) <= validator.is_valid(coerce(params, schema))


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans())
def test_a_value_sent_as_json_text_arrives_as_the_value(value: Any) -> None:
    kind = (
        "boolean" if isinstance(value, bool) else "integer" if isinstance(value, int) else "number"
    )

    got = one({"type": kind}, json.dumps(value))

    assert got == value
    assert math.copysign(1, got) == math.copysign(1, value)


@given(st.text())
def test_no_text_is_ever_guessed_to_be_a_number(text: str) -> None:
    got = one({"type": "number"}, text)

    if got is not text:
        assert json.loads(text) == got
