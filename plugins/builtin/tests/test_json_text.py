"""Strict JSON, with the place of the mistake."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint_builtin.json_text import MAX_DEPTH, InvalidJson, is_valid, parse, write

scalars = (
    st.none() | st.booleans() | st.integers() | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_is_written_is_read_back_the_same(value):
    for indent in (2, None):
        assert parse(write(value, indent=indent)) == value


@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \\u\n'))
def test_nothing_that_the_standard_reader_refuses_is_accepted(text):
    if is_valid(text):
        json.loads(text)


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("", "invalid_json", 1, 1),
        ("{'a': 1}", "invalid_json", 1, 2),
        ('{"a" 1}', "invalid_json", 1, 6),
        ("[\n  1,\n  oops\n]", "invalid_json", 3, 3),
        ('["NaN",\n NaN]', "invalid_json", 2, 2),
        ('{"-Infinity": [1,\r\n-Infinity]}', "invalid_json", 2, 1),
        ("[1e999]", "number_out_of_range", 1, 2),
        ('["1e999", -1e999]', "number_out_of_range", 1, 11),
        ("1" * 5000, "number_out_of_range", 1, 1),
        ('{"a": 1,\n "a": 2}', "duplicate_key", 2, 2),
        ('[{"b": {"k": 1, "k": 1}}]', "duplicate_key", 1, 17),
        ('"\\ud800"', "invalid_json", 1, 2),
        ('"\\udc00\\ud800"', "invalid_json", 1, 2),
        ('"\\ud800\\ud800\\udc00"', "invalid_json", 1, 2),
        ('"x\ud800"', "invalid_json", 1, 3),
        ("[" * (MAX_DEPTH + 1), "too_deep", 1, MAX_DEPTH + 1),
        ('{"k":' * 80_000, "too_deep", 1, MAX_DEPTH * 5 + 1),
        ('"tab\there"', "invalid_json", 1, 5),
        ("[1] // note", "invalid_json", 1, 5),
        ("[1,2", "invalid_json", 1, 5),
        ("\u0661", "invalid_json", 1, 1),
        ("\u00a0[]", "invalid_json", 1, 1),
    ],
)
def test_a_mistake_is_named_with_its_place(text, code, line, column):
    with pytest.raises(InvalidJson) as caught:
        parse(text)

    error = caught.value
    assert (error.issues[0].code, error.line, error.column) == (code, line, column)
    assert f"line {line}, column {column}" in str(error)
    assert not is_valid(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"\\\\ud800"', "\\ud800"),
        ('"\\ud83d\\ude00"', "😀"),
        ('"[[[[" ', "[[[["),
        ('["\\"[", "]"]', ['"[', "]"]),
        ("-0", 0),
        ("9" * 4000, int("9" * 4000)),
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, None),
    ],
)
def test_unusual_but_valid_text_is_read(text, value):
    assert value is None or parse(text) == value
    assert is_valid(text)


def test_a_number_without_a_json_form_cannot_be_written():
    with pytest.raises(InvalidJson):
        write([float("nan")])
