"""Plain data becomes values strictly, and every problem has its place."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Literal, TypedDict
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.errors import ConfigError
from hardpoint.serde import make_converter, structure, to_json


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


@attrs.frozen
class Limits:
    per_minute: int = attrs.field(default=60, validator=attrs.validators.ge(1))


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


class Typed(TypedDict):
    a: int


@attrs.frozen
class Everything:
    name: str
    ratio: float = 1.0
    on: bool = False
    tags: frozenset[str] = frozenset()
    limits: Limits = Limits()
    more: tuple[Limits, ...] = ()
    by_name: Mapping[str, Limits] = attrs.field(factory=dict)
    mode: Literal["plain", "deep"] = "plain"
    colour: Colour | None = None
    path: Path | None = None
    price: Decimal = Decimal(0)
    wait: timedelta = timedelta(0)
    spec: str | Mapping[str, Any] = ""
    either: int | Limits | None = None
    data: bytes = b""
    point: Point | None = None


def problems(value: Any, type_: Any = Everything) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        structure(value, type_, "plugin.x")
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (str, "5", "5"),
        (int, 5, 5),
        (float, 5, 5.0),
        (bool, True, True),
        (Decimal, "0.10", Decimal("0.10")),
        (Decimal, 0.1, Decimal("0.1")),
        (timedelta, 1.5, timedelta(seconds=1.5)),
        (datetime, "2024-01-31T10:00:00+00:00", datetime(2024, 1, 31, 10, tzinfo=UTC)),
        (datetime, datetime(2024, 1, 31, tzinfo=UTC), datetime(2024, 1, 31, tzinfo=UTC)),
        (date, date(2024, 1, 31), date(2024, 1, 31)),
        (UUID, "12345678123456781234567812345678", UUID(int=0x12345678123456781234567812345678)),
        (Path, "a/b", Path("a/b")),
        (bytes, "aGk=", b"hi"),
        (Colour, "red", Colour.RED),
        (Level, 1, Level.LOW),
        (Literal[1, "a"], "a", "a"),
        (frozenset[int], [1, 1], frozenset({1})),
        (tuple[int, str], [1, "a"], (1, "a")),
        (list[float | int], [1, 1.5], [1, 1.5]),
        (int | str, "5", "5"),
        (str | list[str], ["a"], ["a"]),
        (dict[str, Any], {"a": [1]}, {"a": [1]}),
        (Limits | None, None, None),
        (Limits, Limits(5), Limits(5)),
        (Point, {"x": 1}, Point(1)),
        (Typed, {"a": 1}, {"a": 1}),
        (Any, {"x": None}, {"x": None}),
    ],
)
def test_fitting_data_becomes_the_value(type_: Any, value: Any, expected: Any) -> None:
    got = structure(value, type_, "x")

    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("type_", "value", "problem"),
    [
        (str, 5, "expected text, got 5"),
        (str, Colour.RED, "expected text, got Colour"),
        (int, "12", "expected a whole number, got text"),
        (int, 5.0, "expected a whole number, got 5.0"),
        (int, True, "expected a whole number, got true"),
        (float, "1.5", "expected a number, got text"),
        (bool, "true", "expected true or false, got text"),
        (bool, 1, "expected true or false, got 1"),
        (Decimal, "NaN", "expected a decimal number, got text"),
        (Decimal, True, "expected a decimal number, got true"),
        (timedelta, "5s", "expected a number of seconds, got text"),
        (timedelta, 1e300, "expected a number of seconds, got 1e+300"),
        (timedelta, float("nan"), "expected a number of seconds, got nan"),
        (datetime, "yesterday", "expected a date and time, got text"),
        (Path, "", "expected a path, got text"),
        (Path, "a\0b", "expected a path, got text"),
        (bytes, "not base64!", "expected base64 text, got text"),
        (Colour, "green", "expected one of 'red', 'blue', got 'green'"),
        (Level, True, "expected one of 1, got true"),
        (Literal["a"], 5, "expected one of 'a', got 5"),
        (list[str], "abc", "expected a list, got text"),
        (frozenset[str], {"a": 1}, "expected a list, got a table"),
        (tuple[int, str], [1], "expected 2 values, got 1"),
        (dict[str, int], [1], "expected a table, got a list"),
        (Limits, [], "expected a table, got a list"),
        (int | str, 1.5, "expected a whole number or text, got 1.5"),
        (int | None, "x", "expected a whole number, got text"),
        (Path | None, 5, "expected a path, got 5"),
        (str, None, "expected text, got nothing"),
    ],
)
def test_nothing_is_bent_to_fit(type_: Any, value: Any, problem: str) -> None:
    assert problems(value, type_) == [f"plugin.x: {problem}"]


def test_every_problem_is_told_with_its_path() -> None:
    value = {
        "nam": "x",
        "ratio": "1",
        "tags": "abc",
        "limits": {"per_minut": 5},
        "more": [{"per_minute": 5}, {"per_minute": 0}, 5],
        "by_name": {"k": {"per_minute": "2"}},
        "either": {"per_minute": "z"},
        "point": {"z": 1},
    }

    assert set(problems(value)) == {
        "plugin.x.name: missing",
        "plugin.x.nam: unknown key; did you mean 'name'?",
        "plugin.x.ratio: expected a number, got text",
        "plugin.x.tags: expected a list, got text",
        "plugin.x.limits.per_minut: unknown key; did you mean 'per_minute'?",
        "plugin.x.more[1].per_minute: must be >= 1: 0",
        "plugin.x.more[2]: expected a table, got 5",
        "plugin.x.by_name.k.per_minute: expected a whole number, got text",
        "plugin.x.either.per_minute: expected a whole number, got text",
        "plugin.x.point.x: missing",
        "plugin.x.point.z: unknown key",
    }


def test_an_unlike_unknown_key_gets_the_list_of_known_ones() -> None:
    assert problems({"zzz": 1}, Limits) == ["plugin.x.zzz: unknown key; known are per_minute"]


def test_texts_that_were_set_are_not_repeated() -> None:
    assert "hunter2" not in str(problems({"name": "x", "ratio": "hunter2", "on": "hunter2"}))


def test_without_a_name_the_path_begins_with_the_field() -> None:
    with pytest.raises(ConfigError, match=r"^name: missing$"):
        structure({}, Everything, "")


def test_to_json_gives_what_json_can_hold() -> None:
    value = Everything(
        "n",
        tags=frozenset({"b", "a"}),
        colour=Colour.BLUE,
        path=Path("a/b"),
        price=Decimal("1.50"),
        wait=timedelta(minutes=1),
        data=b"hi",
        point=Point(1, 2),
        by_name={"k": Limits(2)},
    )

    made = to_json(value)

    assert json.loads(json.dumps(made)) == made
    assert made["tags"] == ["a", "b"]
    assert made["price"] == "1.50"
    assert made["wait"] == 60
    assert made["data"] == "aGk="
    assert made["point"] == {"x": 1, "y": 2}
    assert to_json({1: UUID(int=1), "d": date(2024, 1, 31)}) == {
        "1": "00000000-0000-0000-0000-000000000001",
        "d": "2024-01-31",
    }
    with pytest.raises(TypeError, match="object has no form in JSON"):
        to_json([object()])


everything = st.builds(
    Everything,
    name=st.text(),
    ratio=st.floats(allow_nan=False),
    tags=st.frozensets(st.text(max_size=3)),
    limits=st.builds(Limits, per_minute=st.integers(1, 99)),
    more=st.tuples(st.builds(Limits)),
    by_name=st.dictionaries(st.text(max_size=3), st.builds(Limits), max_size=2),
    colour=st.sampled_from(Colour) | st.none(),
    price=st.decimals(allow_nan=False, allow_infinity=False),
    wait=st.integers(-1000, 1000).map(lambda n: timedelta(milliseconds=n)),
    spec=st.text() | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    either=st.none() | st.integers() | st.builds(Limits),
    data=st.binary(),
    point=st.none() | st.builds(Point, x=st.integers(), y=st.integers()),
)


@given(everything)
def test_a_value_survives_the_way_to_json_and_back(value: Everything) -> None:
    text = json.dumps(to_json(value))

    assert structure(json.loads(text), Everything, "x") == value
    assert make_converter().unstructure(value) == to_json(value)


def test_a_converter_of_ones_own_takes_more_hooks() -> None:
    converter = make_converter()
    converter.register_structure_hook(complex, lambda value, _: complex(value))

    assert converter.structure("1j", complex) == 1j
