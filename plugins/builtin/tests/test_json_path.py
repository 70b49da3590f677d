"""Paths into JSON values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint import InvalidParameters
from hardpoint_builtin.json_path import delete, parse_path, read, replace, show

DATA = {"a": {"b": [{"c": 10}, {"c": 20}], "e": {}}, "x y": 1, "list": [[1, 2], [3]], "n": None}

steps = st.lists(st.text() | st.integers(0, 10**17), max_size=8)


@given(steps)
def test_a_path_that_is_shown_reads_back_the_same(path):
    assert parse_path(show(tuple(path))) == tuple(path)


@given(st.text(alphabet=".[]\"'\\$ab01-u ") | st.text())
def test_any_text_is_a_path_or_an_orderly_error(text):
    try:
        read(DATA, parse_path(text))
    except InvalidParameters as error:
        assert error.issues[0].code in {
            "invalid_path", "invalid_index", "field_not_found", "not_indexable",
            "index_out_of_bounds",
        }  # fmt: skip
        str(error).encode()


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", ()),
        ("$", ()),
        ("a", ("a",)),
        ("$.a.b[1].c", ("a", "b", 1, "c")),
        ("[0][1]", (0, 1)),
        ("$['a']", ("a",)),
        ("['it\\'s \"x\"']", ('it\'s "x"',)),
        ('["it\'s \\"x\\""]', ('it\'s "x"',)),
        ('["\\u00fc"].b', ("ü", "b")),
        ('[""]', ("",)),
        ("a-b.ü.字", ("a-b", "ü", "字")),
        ("a.$", ("a", "$")),
    ],
)
def test_a_path_has_these_steps(text, path):
    assert parse_path(text) == path


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a..b", "invalid_path"),
        (".a", "invalid_path"),
        ("a.", "invalid_path"),
        ("$$", "invalid_path"),
        ("$a", "invalid_path"),
        ("['a']b", "invalid_path"),
        ("[\"a']", "invalid_path"),
        ("a[0", "invalid_path"),
        ('["\\x"]', "invalid_path"),
        ("a.[0]", "invalid_path"),
        ("[x]", "invalid_index"),
        ("[-1]", "invalid_index"),
        ("[]", "invalid_index"),
        ("[00]", "invalid_index"),
        ("[1_0]", "invalid_index"),
        ("[\u0661]", "invalid_index"),
        ("a" * 5000, "invalid_path"),
        ("[0]" * 300, "invalid_path"),
    ],
)
def test_a_malformed_path_is_refused(text, code):
    with pytest.raises(InvalidParameters) as caught:
        parse_path(text)
    assert caught.value.issues[0].code == code


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("a.bb", "field_not_found", ['did you mean "b"']),
        ("a.e.x", "field_not_found", ["$.a.e", "empty"]),
        ("list[2]", "index_out_of_bounds", ["2 items"]),
        ("list[99999999999999999999999999]", "index_out_of_bounds", []),
        ("list.0", "not_indexable", ["$.list is an array"]),
        ("a[0]", "not_indexable", ["an object"]),
        ("n.x", "not_indexable", ["$.n is null"]),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_ends(path, code, words):
    with pytest.raises(InvalidParameters) as caught:
        read(DATA, parse_path(path))

    assert caught.value.issues[0].code == code
    assert all(word in str(caught.value) for word in words)


def test_setting_returns_a_changed_copy():
    before = repr(DATA)

    assert replace(DATA, parse_path("a.b[0].c"), 5)["a"]["b"] == [{"c": 5}, {"c": 20}]
    assert replace(DATA, parse_path("a.new"), 5)["a"]["new"] == 5
    assert replace(DATA, parse_path("list[2]"), 5)["list"] == [[1, 2], [3], 5]
    assert replace(DATA, (), 5) == 5
    for path in ("a.b[3]", "missing.x", "n.x", "list.x"):
        with pytest.raises(InvalidParameters):
            replace(DATA, parse_path(path), 5)
    assert repr(DATA) == before


def test_deleting_returns_a_changed_copy():
    before = repr(DATA)

    assert delete(DATA, parse_path("a.b[0]"))["a"]["b"] == [{"c": 20}]
    assert "x y" not in delete(DATA, parse_path('["x y"]'))
    for path in ("$", "missing", "list[2]", "n.x"):
        with pytest.raises(InvalidParameters):
            delete(DATA, parse_path(path))
    assert repr(DATA) == before
