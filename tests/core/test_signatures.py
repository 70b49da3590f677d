"""Functions as tools: schemas from type hints, descriptions from docstrings, typed arguments."""

import collections
import collections.abc
import dataclasses
import enum
import functools
import json
import sys
import typing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import attrs
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.context import JobContext
from hardpoint.errors import ExecutionFailed, InvalidParameters, SchemaError
from hardpoint.signatures import Param, describe, to_result

CONTEXT = JobContext(user_id="ana")


def codec_for(annotation):
    """The signature of a function with one parameter `x` of this type."""

    def function(x): ...

    function.__annotations__ = {"x": annotation}
    return describe(function)


def schema_of(annotation):
    signature = codec_for(annotation)
    jsonschema_rs.meta.validate(signature.parameters)
    schema = dict(signature.parameters["properties"]["x"])
    if "$defs" in signature.parameters:
        schema["$defs"] = signature.parameters["$defs"]
    return schema


def received(annotation, value):
    """What the function is given when a model sends `value`; the schema has to agree."""
    signature = codec_for(annotation)
    jsonschema_rs.validate(signature.parameters, {"x": value})
    args, kwargs = signature.bind({"x": value})
    assert args == ()
    return kwargs["x"]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    A = (1, 2)
    B = object()


class Permission(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class Point:
    """A place.

    Attributes:
        x: How far right.
    """

    x: int
    y: float = 0.0
    label: str | None = field(default=None, metadata={"description": "Shown beside it."})
    hidden: int = field(default=7, init=False)


@attrs.frozen
class Person:
    name: str
    _born: date = attrs.field(default=date(2000, 1, 1))
    tags: list[str] = attrs.field(factory=list)


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Options(TypedDict, total=False):
    deep: typing.Required[bool]
    since: date


@dataclass
class Node:
    value: int
    children: "list[Node]" = field(default_factory=list)


@dataclass
class Husband:
    wife: "Wife | None" = None


@dataclass
class Wife:
    husband: "Husband | None" = None


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    content: T
    spare: list[T] = field(default_factory=list)


@dataclass
class Positive:
    number: int

    def __post_init__(self):
        if self.number <= 0:
            raise ValueError(f"secret {self.number}")


UserId = NewType("UserId", int)


# schemas -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (list, {"type": "array", "items": {}}),
        (dict, {"type": "object", "properties": {}}),
        (set, {"type": "array", "items": {}, "uniqueItems": True}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, Any], {"type": "object", "properties": {}}),
        (
            dict[str, int],
            {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}},
        ),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1, None], {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Odd, {"type": "string", "enum": ["A", "B"]}),
        (int | None, {"type": ["integer", "null"]}),
        (Optional[int], {"type": ["integer", "null"]}),  # noqa: UP045
        (int | str, {"type": ["integer", "string"]}),
        (
            list[int] | None,
            {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        ),
        (int | Any, {}),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (date | None, {"type": ["string", "null"], "format": "date"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Path, {"type": "string"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (UserId, {"type": "integer"}),
        (T, {}),
        (TypeVar("N", int, str), {"type": ["integer", "string"]}),
        (TypeVar("S", bound=str), {"type": "string"}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (
            Annotated[int, Param("how many", ge=1, le=9, examples=[3])],
            {"type": "integer", "description": "how many",
             "minimum": 1, "maximum": 9, "examples": [3]},
        ),
        (Annotated[str, Param(min_length=1, max_length=5, pattern="^a")],
         {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^a"}),
        (Annotated[list[int], Param(min_length=2)],
         {"type": "array", "items": {"type": "integer"}, "minItems": 2}),
        (Annotated[int | None, Param(gt=0)], {"type": ["integer", "null"], "exclusiveMinimum": 0}),
        (Annotated[float, Param(multiple_of=0.5)], {"type": "number", "multipleOf": 0.5}),
    ],
)  # fmt: skip
def test_a_type_has_this_schema(annotation, schema):
    assert schema_of(annotation) == schema


def test_tuples_of_fixed_length_list_their_items():
    assert schema_of(tuple[int, str]) == {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
        "items": False,
        "minItems": 2,
        "maxItems": 2,
    }


def test_records_are_closed_objects_with_their_descriptions_and_defaults():
    assert schema_of(Point) == {
        "type": "object",
        "properties": {
            "x": {"type": "integer", "description": "How far right."},
            "y": {"type": "number", "default": 0.0},
            "label": {
                "type": ["string", "null"],
                "description": "Shown beside it.",
                "default": None,
            },
        },
        "required": ["x"],
        "additionalProperties": False,
    }


def test_recursive_types_are_defined_once_and_referred_to():
    schema = schema_of(Node)

    assert schema["$ref"] == "#/$defs/Node"
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    node = received(Node, {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]})
    assert node == Node(1, [Node(2, [Node(3)])])
    husband = received(Husband, {"wife": {"husband": {"wife": None}}})
    assert husband == Husband(Wife(Husband()))


def test_two_types_of_one_name_do_not_share_a_definition():
    def make(kind):
        @dataclass
        class Item:
            value: kind
            next: "Item | None" = None

        Item.__annotations__["next"] = Optional[Item]  # noqa: UP045
        return Item

    first, second = make(int), make(str)

    def function(a: first, b: second): ...

    parameters = describe(function).parameters

    assert parameters["properties"]["a"] != parameters["properties"]["b"]
    assert len(parameters["$defs"]) == 2


# what the function receives ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "sent", "expected"),
    [
        (int, 5, 5),
        (int, 5.0, 5),
        (int, 10**30, 10**30),
        (float, 5, 5.0),
        (float, 0.1, 0.1),
        (bool, True, True),
        (datetime, "2024-02-29T12:00:00Z", datetime(2024, 2, 29, 12, tzinfo=UTC)),
        (date, "2024-02-29", date(2024, 2, 29)),
        (time, "12:30:00", time(12, 30)),
        (timedelta, "PT90S", timedelta(seconds=90)),
        (timedelta, "-P1DT2H3M4.5S", -timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        (timedelta, "P2W", timedelta(weeks=2)),
        (UUID, "00000000-0000-0000-0000-0000000000ff", UUID(int=255)),
        (Path, "a/b", Path("a/b")),
        (PurePosixPath, "a/b", PurePosixPath("a/b")),
        (Decimal, "12.50", Decimal("12.50")),
        (Decimal, 0.1, Decimal("0.1")),
        (bytes, "aGk=", b"hi"),
        (Colour, "red", Colour.RED),
        (Level, 2, Level.HIGH),
        (Odd, "A", Odd.A),
        (Permission, 3, Permission.READ | Permission.WRITE),
        (Literal[Colour.RED, 3], "red", Colour.RED),
        (Literal[1, True], True, True),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[date, ...], ["2024-01-01"], (date(2024, 1, 1),)),
        (set[int], [1, 2], {1, 2}),
        (frozenset[str], ["a"], frozenset({"a"})),
        (collections.deque[int], [1], collections.deque([1])),
        (collections.abc.Sequence[date], ["2024-01-01"], [date(2024, 1, 1)]),
        (collections.abc.Mapping[str, float], {"a": 1}, {"a": 1.0}),
        (dict[int, date], {"1": "2024-01-01"}, {1: date(2024, 1, 1)}),
        (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
        (Point, {"x": 1, "y": 2}, Point(1, 2.0)),
        (Person, {"name": "Ada", "born": "1815-12-10"}, Person("Ada", date(1815, 12, 10))),
        (Pair, {"left": 1}, Pair(1, "r")),
        (Options, {"deep": True, "since": "2024-01-01"}, {"deep": True, "since": date(2024, 1, 1)}),
        (Box[date], {"content": "2024-01-01"}, Box(date(2024, 1, 1))),
        (int | str, "5", "5"),
        (float | int, 5, 5),
        (date | str, "2024-01-01", date(2024, 1, 1)),
        (date | str, "soon", "soon"),
        (Point | Pair, {"left": 1}, Pair(1)),
        (list[int] | list[str], ["a"], ["a"]),
        (Point | None, None, None),
        (list[Point], [{"x": 1}], [Point(1)]),
    ],
)  # fmt: skip
def test_a_function_receives_real_values(annotation, sent, expected):
    value = received(annotation, sent)

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "sent", "path"),
    [
        (int, "5", "/x"),
        (int, True, "/x"),
        (int, 1.5, "/x"),
        (float, 10**400, "/x"),
        (bool | date, 1, "/x"),
        (date, "2024-02-30", "/x"),
        (date, 5, "/x"),
        (timedelta, "P", "/x"),
        (timedelta, "PT", "/x"),
        (timedelta, "P9999999999D", "/x"),
        (Decimal, "NaN", "/x"),
        (bytes, "a", "/x"),
        (bytes, "ä===", "/x"),
        (Colour, "green", "/x"),
        (Literal[1], True, "/x"),
        (Literal["a"] | date, ["a"], "/x"),
        (Permission, 8, "/x"),
        (tuple[int, str], [1], "/x"),
        (list[date], ["2024-01-01", "x"], "/x/1"),
        (dict[str, date], {"a/b": "x"}, "/x/a~1b"),
        (dict[int, str], {"one": "x"}, "/x/one"),
        (Point, {"y": 1}, "/x/x"),
        (Point, {"x": 1, "z": 1}, "/x/z"),
        (Point, [], "/x"),
        (Node, {"value": 1, "children": [{"value": "2"}]}, "/x/children/0/value"),
        (Point | None, {"x": "1"}, "/x/x"),
        (Options, {}, "/x/deep"),
        (Positive, {"number": -4}, "/x"),
    ],
)
def test_a_value_without_meaning_is_refused_at_its_place(annotation, sent, path):
    with pytest.raises(InvalidParameters) as caught:
        codec_for(annotation).bind({"x": sent})

    assert [issue.path for issue in caught.value.issues] == [path]
    assert path in str(caught.value)


def test_messages_never_repeat_the_value():
    class Secret(enum.Enum):
        OPEN = "open"

    for annotation in (date, int, Secret, tuple[int, int], Positive, bytes):
        with pytest.raises(InvalidParameters) as caught:
            codec_for(annotation).bind({"x": "hunter2-hunter2!"})
        assert "hunter2" not in str(caught.value)
    with pytest.raises(InvalidParameters) as caught:
        codec_for(Positive).bind({"x": {"number": -40961}})
    assert "40961" not in str(caught.value)


def test_all_problems_are_reported_at_once():
    def function(when: date, count: int, name: str): ...

    with pytest.raises(InvalidParameters) as caught:
        describe(function).bind({"when": "x", "count": "y", "name": "z"})
    assert {issue.path for issue in caught.value.issues} == {"/when", "/count"}

    with pytest.raises(InvalidParameters) as caught:
        describe(function).bind({"count": 1, "other": 2})
    assert {(issue.path, issue.code) for issue in caught.value.issues} == {
        ("/when", "missing_required"),
        ("/name", "missing_required"),
        ("/other", "unexpected_field"),
    }


def test_arguments_that_json_already_has_are_handed_over_untouched():
    def function(a: str, b: bool, c: list, d: dict, e: list[str], f: Any = None): ...

    params = {"a": "x", "b": True, "c": [1], "d": {}, "e": ["y"]}

    assert describe(function).bind(params)[1] is params


def test_limits_hold_for_dates_and_decimals_too():
    annotation = Annotated[date, Param(ge=date(2024, 1, 1))]
    assert received(annotation, "2024-01-01") == date(2024, 1, 1)
    with pytest.raises(InvalidParameters, match="at least 2024-01-01"):
        codec_for(annotation).bind({"x": "2023-12-31"})

    price = Annotated[Decimal, Param(gt=0)]
    assert received(price, "0.01") == Decimal("0.01")
    with pytest.raises(InvalidParameters, match="more than 0"):
        codec_for(price).bind({"x": "-1"})


def test_objects_of_annotated_types_are_understood():
    class Ge:
        ge = 3

    class Even:
        func = staticmethod(lambda number: number % 2 == 0)

    class Doc:
        documentation = "How many."

    annotation = Annotated[int, Ge(), Even(), Doc(), object()]

    assert schema_of(annotation) == {"type": "integer", "minimum": 3, "description": "How many."}
    assert received(annotation, 4) == 4
    with pytest.raises(InvalidParameters):
        codec_for(annotation).bind({"x": 5})


# parameters --------------------------------------------------------------------------------------


def test_defaults_and_keyword_only_parameters():
    def function(a: int, b: str = "x", *, c: Colour = Colour.RED, d: int = None, e: Any = object()):  # noqa: B008, RUF013
        return a, b, c, d

    signature = describe(function)

    properties = signature.parameters["properties"]
    assert signature.parameters["required"] == ["a"]
    assert properties["b"] == {"type": "string", "default": "x"}
    assert properties["c"] == {"type": "string", "enum": ["red", "blue"], "default": "red"}
    assert properties["d"] == {"type": ["integer", "null"], "default": None}
    assert properties["e"] == {}
    args, kwargs = signature.bind({"a": 1, "c": "blue"})
    assert function(*args, **kwargs) == (1, "x", Colour.BLUE, None)


def test_the_context_is_hidden_from_the_model_and_given_to_the_function():
    def function(a: int, ctx: JobContext): ...
    def optional(a: int, where: JobContext | None = None): ...
    def by_name(a: int, context: "JobContext"): ...

    for each, name in ((function, "ctx"), (optional, "where"), (by_name, "context")):
        signature = describe(each)
        assert signature.context_parameter == name
        assert list(signature.parameters["properties"]) == ["a"]
        assert signature.bind({"a": 1}, CONTEXT) == ((), {"a": 1, name: CONTEXT})
        with pytest.raises(InvalidParameters):
            signature.bind({"a": 1, name: {"user_id": "root"}}, CONTEXT)


def test_a_context_imported_for_type_checking_only_is_recognised():
    names = {}
    exec(
        "from __future__ import annotations\n"
        "def a(x: int, ctx: JobContext): ...\n"
        "def b(x: int, ctx: hardpoint.JobContext | None = None): ...\n"
        "def c(x: int, ctx: Optional[JobContext] = None): ...\n",
        names,
    )
    for name in "abc":
        assert describe(names[name]).context_parameter == "ctx"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(*paths: str): ...", ["'paths'", "take a list"]),
        ("def f(**more: str): ...", ["'more'", "take a dict"]),
        ("def f(x: int, /): ...", ["'x'", "remove the `/`"]),
        ("def f(x: type(print)): ...", ["'x'", "no JSON form", "Any"]),
        ("def f(x: list[complex]): ...", ["'x'", "complex"]),
        ("def f(x: dict[float, str]): ...", ["'x'", "keys of an object are text"]),
        ("def f(x: 'Missing'): ...", ["'x'", "'Missing'", "module level"]),
        ("def f(ctx): ...", ["'ctx'", "JobContext"]),
        ("def f(a: C, b: C): ...", ["'b'", "only one"]),
        ("def f(x: A[str, P(ge=1)]): ...", ["'x'", "`ge`"]),
        ("def f(x: A[int, P(min_length=1)]): ...", ["'x'", "`min_length`"]),
        ("def f(x: L[b'x']): ...", ["'x'", "Literal"]),
        ("def f(): yield 1", ["generator"]),
        ("async def f(): yield 1", ["generator"]),
    ],
)
def test_what_a_model_cannot_give_is_refused_with_the_way_out(source, words):
    names = {"C": JobContext, "A": Annotated, "P": Param, "L": Literal}
    exec(source, names)

    with pytest.raises(SchemaError) as caught:
        describe(names["f"])

    assert caught.value.name == "f"
    for word in words:
        assert word in str(caught.value)


def test_every_problem_of_a_function_is_named():
    def function(a: complex, *b: int, c: type): ...

    with pytest.raises(SchemaError) as caught:
        describe(function)

    assert len(caught.value.problems) == 3


def test_postponed_annotations_of_local_classes_are_resolved():
    names = dict(globals())
    exec(
        "from __future__ import annotations\n"
        "def outer():\n"
        "    @dataclass\n"
        "    class Local:\n"
        "        when: date\n"
        "        after: Local | None = None\n"
        "    def function(x: Local, y: list[Local]): ...\n"
        "    return describe(function)\n",
        names,
    )

    _, kwargs = names["outer"]().bind({"x": {"when": "2024-01-01"}, "y": []})

    assert kwargs["x"].when == date(2024, 1, 1)


def test_methods_partials_wrappers_and_callable_objects_are_functions_too():
    class Greeter:
        def greet(self, name: str) -> str: ...

        def __call__(self, count: int) -> str: ...

    def add(a: int, b: int, c: date) -> int: ...

    @functools.wraps(add)
    def wrapper(*args, **kwargs):
        return add(*args, **kwargs)

    def parameters(function):
        return list(describe(function).parameters["properties"])

    assert parameters(Greeter().greet) == ["name"]
    assert parameters(Greeter()) == ["count"]
    assert parameters(functools.partial(add, 1)) == ["b", "c"]
    assert parameters(wrapper) == ["a", "b", "c"]
    assert describe(functools.partial(add, b=3)).parameters["properties"]["b"]["default"] == 3


def test_asynchronous_functions_are_told_apart():
    async def waits(): ...
    def does_not(): ...

    @functools.wraps(does_not)
    async def wrapper(): ...

    assert describe(waits).is_async
    assert describe(wrapper).is_async
    assert not describe(does_not).is_async


# descriptions ------------------------------------------------------------------------------------

GOOGLE = """Greet a person.

    In their language.

    Args:
        name (str): Whom to greet,
            by first name.
        times: How often: at least once.
        **options: ignored

    Returns:
        name: not a parameter
    """
NUMPY = """Greet a person.

    In their language.

    Parameters
    ----------
    name : str
        Whom to greet,
        by first name.
    times : int, optional
        How often: at least once.

    Returns
    -------
    str
        name: not a parameter
    """
REST = """Greet a person.

    In their language.

    :param str name: Whom to greet,
        by first name.
    :param times: How often: at least once.
    :type times: int
    :returns: name
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST, REST.replace(":param", "@param")])
def test_descriptions_come_from_the_docstring(docstring):
    def greet(name: str, times: Annotated[int, Param(ge=1)] = 1): ...

    greet.__doc__ = docstring
    signature = describe(greet)

    assert signature.description == "Greet a person.\n\nIn their language."
    properties = signature.parameters["properties"]
    assert properties["name"]["description"] == "Whom to greet, by first name."
    assert properties["times"]["description"] == "How often: at least once."


def test_an_annotation_describes_better_than_the_docstring():
    def greet(name: Annotated[str, "The person."]):
        """Greet.

        Args:
            name: Whom to greet.
        """

    assert describe(greet).parameters["properties"]["name"]["description"] == "The person."


def test_a_function_without_a_docstring_has_an_empty_description():
    def bare(x): ...

    signature = describe(bare)

    assert signature.description == ""
    assert signature.parameters["properties"] == {"x": {}}


def test_words_that_look_like_sections_inside_a_text_stay_text():
    def note(x: int):
        """Write a note.

        Example: this is a sentence.
        Args are described elsewhere.
        """

    assert describe(note).description.endswith("Args are described elsewhere.")


# results -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, (2, None)]}, {"a": [1, [2, None]]}),
        (date(2024, 1, 1), "2024-01-01"),
        (datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00:00+00:00"),
        (timedelta(days=1, seconds=1.5), "P1DT1.5S"),
        (timedelta(), "PT0S"),
        (-timedelta(seconds=1), "-PT1S"),
        (Decimal("1.10"), "1.10"),
        (b"hi", "aGk="),
        ({3, 1, 2}, [1, 2, 3]),
        (Path("a/b"), "a/b"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        ({Level.LOW: Odd.A}, {"1": "A"}),
        (Permission.READ | Permission.WRITE, 3),
        (Point(1), {"x": 1, "y": 0.0, "label": None, "hidden": 7}),
        (Person("Ada"), {"name": "Ada", "born": "2000-01-01", "tags": []}),
        (Pair(1), {"left": 1, "right": "r"}),
        (Node(1, [Node(2)]), {"value": 1, "children": [{"value": 2, "children": []}]}),
        ({1: True, None: 2}, {"1": True, "null": 2}),
        (float("nan"), "NaN"),
        ([float("inf"), -float("inf")], ["Infinity", "-Infinity"]),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.deque([1]), [1]),
        (range(3), [0, 1, 2]),
        (type("Text", (str,), {"__str__": lambda self: "other"})("text"), "text"),
    ],
)  # fmt: skip
def test_results_become_json(value, expected):
    result = to_result(value)

    assert result == expected
    json.dumps(result, allow_nan=False)


@pytest.mark.parametrize(
    "value", [object(), print, [object()], {"a": {(1, 2): 3}}, iter([1]), Point]
)
def test_a_result_without_a_json_form_is_an_error_that_says_so(value):
    with pytest.raises(ExecutionFailed):
        to_result(value)


def test_a_result_that_contains_itself_is_an_error():
    circle = []
    circle.append(circle)

    with pytest.raises(ExecutionFailed, match="circle"):
        to_result(circle)


def test_the_output_schema_comes_from_an_object_annotation():
    def point() -> Point: ...
    def node() -> Node: ...
    def text() -> str: ...
    def free() -> dict: ...
    def odd() -> "Missing": ...  # noqa: F821

    assert describe(point).output_schema["properties"]["x"]["type"] == "integer"
    assert describe(node).output_schema["type"] == "object"
    jsonschema_rs.validate(describe(node).output_schema, to_result(Node(1, [Node(2)])))
    assert describe(text).output_schema is None
    assert describe(free).output_schema is None
    assert describe(odd).output_schema is None


@given(
    st.recursive(
        st.builds(lambda value: {"value": value, "children": []}, st.integers()),
        lambda nodes: st.builds(
            lambda value, children: {"value": value, "children": children},
            st.integers(),
            st.lists(nodes, max_size=3),
        ),
        max_leaves=8,
    )
)
def test_what_is_read_is_written_back_the_same(value):
    signature = codec_for(Node)

    assert to_result(signature.bind({"x": value})[1]["x"]) == value


@given(st.timedeltas())
def test_every_duration_survives_the_way_to_json_and_back(span):
    signature = codec_for(timedelta)

    assert signature.bind({"x": to_result(span)})[1]["x"] == span


# pydantic ----------------------------------------------------------------------------------------


def test_pydantic_is_not_imported_for_plain_functions():
    import subprocess

    code = (
        "import sys, dataclasses\n"
        "from hardpoint.signatures import describe\n"
        "@dataclasses.dataclass\n"
        "class P:\n    x: int\n"
        "def f(a: int, p: P) -> P: ...\n"
        "describe(f).bind({'a': 1, 'p': {'x': 1}})\n"
        "print('pydantic' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "False"


def test_pydantic_models_are_understood_where_pydantic_is_installed():
    pydantic = pytest.importorskip("pydantic")

    class Inner(pydantic.BaseModel):
        when: date

    class Order(pydantic.BaseModel):
        id: int = pydantic.Field(ge=1, description="The number.")
        inner: Inner
        others: list["Order"] = []  # noqa: RUF012

    Order.model_rebuild(_types_namespace={"Order": Order})

    order = received(Order, {"id": 1, "inner": {"when": "2024-01-01"}, "others": []})
    assert order == Order(id=1, inner=Inner(when=date(2024, 1, 1)))
    assert to_result(order)["inner"] == {"when": "2024-01-01"}
    with pytest.raises(InvalidParameters) as caught:
        codec_for(Order).bind({"x": {"id": 0, "inner": {"when": "2024-01-01"}}})
    assert caught.value.issues[0].path == "/x/id"

    annotation = Annotated[int, pydantic.Field(ge=2, description="Two or more.")]
    assert schema_of(annotation) == {"type": "integer", "minimum": 2, "description": "Two or more."}

    @pydantic.dataclasses.dataclass
    class Checked:
        number: int = pydantic.Field(gt=0)

    assert received(Checked, {"number": 1}) == Checked(number=1)
    upper = Annotated[str, pydantic.AfterValidator(str.upper)]
    assert received(upper, "a") == "A"


def test_dataclass_fields_keep_their_order():
    kind = dataclasses.make_dataclass("Kind", [(name, int) for name in "zax"])

    assert list(schema_of(kind)["properties"]) == ["z", "a", "x"]
