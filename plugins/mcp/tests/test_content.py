"""Results of servers as outputs, and back."""

from __future__ import annotations

import base64

import pytest

from hardpoint import Audio, Blob, Image, Link, Resource, Text, ToolOutput
from hardpoint_mcp.content import McpToolError, to_blocks, to_output, to_part

PNG = base64.b64encode(b"png").decode()


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "hi"}, Text("hi")),
        ({"type": "image", "data": PNG, "mimeType": "image/png"}, Image(b"png", "image/png")),
        ({"type": "image", "data": PNG, "mime_type": "image/gif"}, Image(b"png", "image/gif")),
        ({"type": "audio", "data": PNG}, Audio(b"png", "audio/wav")),
        (
            {"type": "resource", "resource": {"uri": "a:b", "text": "t", "mimeType": "text/plain"}},
            Resource("a:b", "t", None, "text/plain"),
        ),
        (
            {"type": "resource", "resource": {"uri": "a:b", "blob": PNG}},
            Resource("a:b", None, b"png", None),
        ),
        (
            {"type": "resource_link", "uri": "a:b", "name": "n", "description": "d"},
            Link("a:b", "n", "d", None),
        ),
        ({"type": "image", "data": "***"}, Text("[image: its data is not base64]")),
        ({"type": "hologram", "x": 1}, Text('{"type": "hologram", "x": 1}')),
        ({}, Text("{}")),
    ],
)
def test_a_block_becomes_a_part(block, part):
    assert to_part(block) == part


def test_texts_alone_are_one_text():
    raw = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}

    assert to_output(raw) == ToolOutput(result="a\nb", structured=False)


def test_texts_and_images_keep_their_order():
    raw = {"content": [{"type": "text", "text": "a"}, {"type": "image", "data": PNG}]}

    assert to_output(raw).parts == (Text("a"), Image(b"png", "image/png"))
    assert to_output(raw).result is None


def test_structured_content_is_the_result_and_its_repetition_is_not_told_twice():
    raw = {
        "content": [{"type": "text", "text": '{"n": 1}'}, {"type": "text", "text": "and more"}],
        "structuredContent": {"n": 1},
    }

    output = to_output(raw)

    assert output.result == {"n": 1}
    assert output.parts == (Text("and more"),)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("Rain.", ["Rain."]),
        (7, ["7"]),
        (True, ["true"]),
        (None, ["null"]),
        ("7", ["7"]),
        (["a", {"b": 1}], ["a", '{"b": 1}']),
        ([1, 2], ["[1, 2]"]),
        ([], []),
    ],
)
def test_a_value_that_was_wrapped_is_not_told_twice(value, texts):
    blocks = [{"type": "text", "text": text} for text in texts]
    output = to_output({"content": blocks, "structuredContent": {"result": value}})
    assert (output.result, output.parts) == ({"result": value}, ())


def test_a_text_beside_a_wrapped_value_stays():
    blocks = [{"type": "text", "text": "but tomorrow"}]
    output = to_output({"content": blocks, "structuredContent": {"result": "Rain."}})
    assert output.parts == (Text("but tomorrow"),)


def test_structured_content_that_does_not_fit_gives_way_to_the_text():
    raw = {"content": [{"type": "text", "text": "text"}], "structuredContent": {"n": "x"}}

    output = to_output(raw, lambda value: False)

    assert output.result == "text"
    assert "does not fit" in output.meta["hardpoint/warning"]


@pytest.mark.parametrize("spelling", ["isError", "is_error"])
def test_a_failed_tool_is_an_error_with_its_words(spelling):
    with pytest.raises(McpToolError, match="no such file"):
        to_output({"content": [{"type": "text", "text": "no such file"}], spelling: True})


@pytest.mark.parametrize(
    "raw", [{}, {"content": None}, {"content": "text"}, {"content": [None, 3]}, {"content": []}]
)
def test_an_empty_or_broken_result_is_an_empty_output(raw):
    assert to_output(raw).result == ""


def test_an_output_becomes_blocks():
    output = ToolOutput(result={"a": "ü"}).with_parts(
        Image(b"png"), Blob(b"x", "application/zip", "f.zip"), Resource("a:b", "t"), Link("c:d")
    )

    assert to_blocks(output) == [
        {"type": "text", "text": '{"a": "ü"}'},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {
            "type": "resource",
            "resource": {"uri": "blob:f.zip", "mimeType": "application/zip", "blob": "eA=="},
        },
        {"type": "resource", "resource": {"uri": "a:b", "text": "t"}},
        {"type": "resource_link", "uri": "c:d", "name": "c:d"},
    ]
