"""Finding tools by words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint import ToolDefinition
from hardpoint.search import ToolIndex, words_of


def definition(name: str, description: str = "", *parameters: str) -> ToolDefinition:
    properties = {each: {"type": "string"} for each in parameters}
    return ToolDefinition(name, description, {"type": "object", "properties": properties})


TOOLS = [
    definition("read_file", "Read a text file of the workspace, with line numbers.", "path"),
    definition("write_file", "Write a text file, replacing what it holds.", "path", "content"),
    definition("web_fetch", "Read a public web page as Markdown.", "url"),
    definition("sendEmail", "Send a message to a person.", "recipient", "subject"),
    definition("list_dir", "List a folder: folders first, then files with their sizes."),
    definition("query_db", "Run a query against the companies' database.", "sql"),
]


def names(query: str, limit: int = 10) -> list[str]:
    return [found.name for found, _ in ToolIndex(TOOLS).search(query, limit=limit)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("read_file", "read_file"),
        ("READ_FILE", "read_file"),
        ("read file", "read_file"),
        ("readFile", "read_file"),
        ("reading files", "read_file"),
        ("send an email", "sendEmail"),
        ("message to the recipient", "sendEmail"),
        ("sql", "query_db"),
        ("company database", "query_db"),
        ("web page", "web_fetch"),
        ("sizes of folders", "list_dir"),
    ],
)
def test_the_tool_that_is_meant_comes_first(query: str, first: str) -> None:
    assert names(query)[0] == first


@pytest.mark.parametrize("query", ["", " ", "the of and", "zebra", "?!", "\x00"])
def test_nothing_fits_nothing(query: str) -> None:
    assert names(query) == []


def test_no_more_than_asked_for_and_best_first() -> None:
    found = ToolIndex(TOOLS).search("file", limit=2)

    assert len(found) == 2
    assert found[0][1] >= found[1][1]


def test_equal_matches_are_sorted_by_name() -> None:
    index = ToolIndex([definition(name, "Same words.") for name in ("c", "a", "b")])

    assert [found.name for found, _ in index.search("same")] == ["a", "b", "c"]


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    many = [definition(f"tool_{number}", "Look up an entry.") for number in range(1000)]
    one = definition("zz_oddity", "Look up an entry about a platypus.")

    assert ToolIndex([*many, one]).search("look up the platypus entry")[0][0] is one


def test_an_empty_index_answers() -> None:
    assert ToolIndex([]).search("anything") == []


def test_words_have_one_form() -> None:
    assert words_of("readFiles HTTPServer2 Companies_ÜBER") == [
        "read", "file", "http", "server", "2", "company", "über",
    ]  # fmt: skip


@given(st.text(max_size=200))
def test_any_query_is_answered(query: str) -> None:
    assert len(ToolIndex(TOOLS).search(query, limit=3)) <= 3
