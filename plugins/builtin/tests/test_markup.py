from __future__ import annotations

import pytest

from hardpoint_builtin.markup import text_of, tidy, title_of


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        ('<p class="a">x</p>', '<p class="a">x</p>'),
        ("<P CLASS=A>x</P>", "<p CLASS=A>x</p>"),
        ("a < b && c > d", "a < b && c > d"),
        ("<a title='1 > 0'>x</a>", "<a title='1 > 0'>x</a>"),
        ('<div data-x="<b>">x</div>', '<div data-x="&lt;b>">x</div>'),
        ("a<!-- b -->c", "ac"),
        ("a<!-->b-->c", "ab-->c"),
        ("a<!doctype html><?xml?>b", "ab"),
        ("a<script>if (a < b) { '</p>' }</script >b", "ab"),
        ("a<SCRIPT\nsrc=x>b</sCript\n>c", "ac"),
        ("a<scripts>b</scripts>", "a<scripts>b</scripts>"),
        ("a<style>b", "a"),
        ("a<meta x=y><link><base>b", "ab"),
        ("a</b>c", "ac"),
        ("a<b", "a<b>"),
        ("a<b x=", "a<b>"),
        ("a</ b>c", "ac"),
        ("a<b onclick='" + "x" * 5000 + "'>c</b>", "a<b>c</b>"),
    ],
)
def test_a_page_is_reduced_to_plain_tags(text, tidied):
    assert tidy(text) == tidied


def test_a_tidy_page_stays_as_it_is():
    page = "<div><ul><li>a<li>b</ul><p>c<br>d</div>"

    assert tidy(tidy(page)) == tidy(page) == page


def test_an_element_is_not_nested_endlessly_in_itself():
    assert tidy("<b>" * 1000).count("<b>") == 200
    assert tidy("<b>x</b>" * 1000).count("<b>") == 1000


def test_text_and_title_stand_in_one_line():
    assert text_of("<p>a\n b</p><p>&lt;c&gt;</p>") == "a b <c>"
    assert title_of("<TITLE\n>a\n &amp; b</TITLE>") == "a & b"
    assert title_of("<p>") == ""
