"""Exact replacement of text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.errors import ExecutionFailed, InvalidParameters
from hardpoint_container.patching import Edit, apply_edits


def patched(text: str, *edits: Edit) -> str:
    return apply_edits(text.encode(), edits, "f").data.decode()


def test_one_match_is_replaced() -> None:
    assert patched("a b c", Edit("b", "x")) == "a x c"


def test_several_matches_say_how_many_and_where() -> None:
    with pytest.raises(ExecutionFailed, match=r"matched 3 times in 'f' \(lines 1, 2, 4\)"):
        patched("x\nx\n\nx", Edit("x", "y"))


def test_replace_all_replaces_all() -> None:
    made = apply_edits(b"x x x", [Edit("x", "y", everywhere=True)], "f")

    assert (made.data, made.replacements) == (b"y y y", 3)


def test_a_miss_shows_the_closest_text() -> None:
    with pytest.raises(ExecutionFailed, match="matched 0 times") as caught:
        patched(
            "def area(width, height):\n    return width * height\n", Edit("def area(w, h):", "x")
        )

    assert "line 1" in (caught.value.hint or "")
    assert "def area(width, height):" in (caught.value.hint or "")


@pytest.mark.parametrize("sent", ["if  x:\n  go()", "if x:\n\tgo() ", "if x\u200b:\n    go()"])
def test_a_miss_by_blanks_or_look_alikes_is_recognised(sent: str) -> None:
    with pytest.raises(ExecutionFailed) as caught:
        patched("a\nif x:\n    go()\nb\n", Edit(sent, "y"))

    assert "lines 2 to 3 differ only in" in (caught.value.hint or "")


def test_all_edits_match_the_original_and_all_are_made() -> None:
    assert patched("one two", Edit("one", "two"), Edit("two", "one")) == "two one"


def test_one_bad_edit_undoes_the_others() -> None:
    with pytest.raises(ExecutionFailed, match="edit 2: old_string matched 0 times"):
        patched("one two", Edit("one", "1"), Edit("three", "3"))


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(InvalidParameters, match="edits 1 and 2 overlap"):
        patched("abcd", Edit("abc", "x"), Edit("cd", "y"))


@pytest.mark.parametrize("edit", [Edit("", "x"), Edit("a", "a")])
def test_an_edit_that_says_nothing_is_refused(edit: Edit) -> None:
    with pytest.raises(InvalidParameters):
        patched("abc", edit)


def test_windows_line_ends_stay() -> None:
    assert patched("a\r\nb\r\nc\r\n", Edit("a\nb", "x\ny")) == "x\r\ny\r\nc\r\n"


def test_bytes_that_are_no_text_stay() -> None:
    made = apply_edits(b"\xff\xfe one \x00", [Edit("one", "two")], "f")

    assert made.data == b"\xff\xfe two \x00"


def test_the_preview_shows_what_changed() -> None:
    made = apply_edits(b"a\nb\nc\nd\n", [Edit("b", "x")], "f")

    assert made.preview == "@@ line 2 @@\n a\n-b\n+x\n c\n d"


@given(st.text(), st.text(min_size=1), st.text(), st.text())
def test_a_unique_text_is_replaced_and_nothing_else(
    before: str, old: str, new: str, after: str
) -> None:
    text = before + old + after
    if text.count(old) != 1 or text.find(old, text.find(old) + 1) >= 0 or old == new:
        return
    if "\r" in text + new or "\n" in old + new:
        return

    assert patched(text, Edit(old, new)) == before + new + after
