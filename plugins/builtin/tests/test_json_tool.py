"""The `json` tool."""

import pytest

from hardpoint import InvalidParameters, JobContext
from hardpoint_builtin.json_tool import JsonTool

CONTEXT = JobContext(user_id="ana", tool_output_stash={"call-1": {"a": [1, 2]}})


async def run(operation, data=None, **more):
    params = {"operation": operation, **more}
    if data is not None:
        params["data"] = data
    return (await JsonTool().execute(params, CONTEXT)).result


@pytest.mark.parametrize(
    ("operation", "data", "more", "result"),
    [
        ("parse", '{"a": 1}', {}, {"a": 1}),
        ("parse", {"a": 1}, {}, {"a": 1}),
        ("query", {"a": [1, 2]}, {"path": "a[1]"}, 2),
        ("query", '{"a": "{\\"b\\": 1}"}', {"path": "a"}, '{"b": 1}'),
        ("stringify", {"b": 1, "a": "ü"}, {}, '{\n  "b": 1,\n  "a": "ü"\n}'),
        ("stringify", ' {"a":1}', {"format": "compact"}, '{"a":1}'),
        ("stringify", "{not json", {}, '"{not json"'),
        ("stringify", "5", {}, '"5"'),
        ("validate", "[1]", {}, {"valid": True}),
        ("validate", "[1,]", {}, {"valid": False}),
        ("validate", {"a": 1}, {}, {"valid": False}),
        ("set", '{"a": [1]}', {"path": "a[0]", "value": {"x": 1}}, {"a": [{"x": 1}]}),
        ("set", {}, {"path": "a", "value": "5"}, {"a": "5"}),
        ("delete", {"a": 1, "b": 2}, {"path": "a"}, {"b": 2}),
        ("length", {"a": [1, 2]}, {"path": "a"}, 2),
        ("length", '{"a": 1}', {}, 1),
        ("last", [1, 2], {}, 2),
        ("slice", [0, 1, 2, 3], {"start": 1, "end": 3}, [1, 2]),
        ("aggregate", {"n": [1, 2, 6]}, {"path": "n", "function": "average"}, 3),
        ("aggregate", [1, 10**30], {"function": "sum"}, 10**30 + 1),
    ],
)  # fmt: skip
async def test_an_operation_has_this_result(operation, data, more, result):
    assert await run(operation, data, **more) == result


@pytest.mark.parametrize(
    ("operation", "data", "more", "code"),
    [
        ("jq", "{}", {}, "invalid_operation"),
        ("parse", None, {}, "missing_data"),
        ("query", {"a": 1}, {}, "missing_path"),
        ("set", {"a": 1}, {"path": "a"}, "missing_value"),
        ("last", [], {}, "index_out_of_bounds"),
        ("length", 5, {}, "not_indexable"),
        ("slice", list(range(5000)), {}, "invalid_index"),
        ("aggregate", [1, "2"], {"function": "sum"}, "not_indexable"),
        ("aggregate", [True], {"function": "sum"}, "not_indexable"),
        ("aggregate", [], {"function": "sum"}, "not_indexable"),
        ("aggregate", [1], {}, "invalid_function"),
        ("aggregate", [1e308, 1e308], {"function": "sum"}, "number_out_of_range"),
        ("aggregate", [10**400, 1.5], {"function": "sum"}, "number_out_of_range"),
    ],
)
async def test_a_wrong_call_is_refused_with_a_code(operation, data, more, code):
    with pytest.raises(InvalidParameters) as caught:
        await run(operation, data, **more)

    assert caught.value.issues[0].code == code


async def test_an_earlier_output_takes_the_place_of_the_data():
    assert await run("query", source_tool_call_id="call-1", path="a[0]") == 1

    with pytest.raises(InvalidParameters, match="call-1"):
        await run("query", source_tool_call_id="call-2", path="a[0]")


def test_data_has_no_type_so_that_every_provider_takes_any_value():
    assert "type" not in JsonTool().parameters_schema()["properties"]["data"]
