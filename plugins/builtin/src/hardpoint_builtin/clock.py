"""`time`: what time it is, and reading, converting, writing and comparing times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from hardpoint import InvalidParameters, JobContext, Tool, ToolOutput
from hardpoint_builtin.instants import out_of_range, read_moment, unix_microseconds
from hardpoint_builtin.refusals import refuse
from hardpoint_builtin.time_format import DEFAULT, format_moment
from hardpoint_builtin.zones import find_zone, format_offset, to_instant, zone_name

_MOMENT = (
    "ISO 8601 such as 2024-02-29T12:00:00Z, unix time in seconds (in milliseconds from 1e11 on), "
    "or `now`"
)
_ZONE = "an IANA name such as Europe/Paris, or an offset such as +05:45"


class TimeTool(Tool):
    """What time it is, and reading, converting, writing and comparing times."""

    name = "time"
    description = (
        "Get the current time, or parse, convert, format and compare times. Operations: now, "
        "parse, convert (to another zone), format (with % codes), diff (timestamp2 minus input)."
    )

    def parameters_schema(self) -> dict[str, Any]:
        moment = {"type": ["string", "number"]}
        zone = {"type": "string"}
        text = {"type": "string", "maxLength": 1000}
        return {
            "type": "object",
            "properties": {
                "operation": {
                    "type": "string",
                    "enum": [*_OPERATIONS],
                    "description": "What to do; `now` when nothing is given.",
                },
                "input": {**moment, "description": f"The time: {_MOMENT}."},
                "timestamp": {**moment, "description": "Another name for `input`."},
                "timestamp2": {**moment, "description": "diff: the second time."},
                "timezone": {
                    **zone,
                    "description": f"Zone of a time without an offset, and of the result: {_ZONE}.",
                },
                "from_timezone": {**zone, "description": "Zone of a time without an offset."},
                "to_timezone": {**zone, "description": "convert: the zone wanted."},
                "format_string": {
                    **text,
                    "description": f"format: % codes such as {DEFAULT}, or iso8601, unix, human.",
                },
                "format": {**text, "description": "Another name for `format_string`."},
            },
            "required": [],
            "additionalProperties": False,
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        request = _Request(params, ctx)
        default = None if request.given("input", "timestamp") is not None else "now"
        name = params.get("operation") or default
        operation = _OPERATIONS.get(name) if isinstance(name, str) else None
        if operation is None:
            raise refuse(
                "operation",
                "invalid_operation",
                f"unknown operation {name!r}; use {', '.join(_OPERATIONS)}",
                expected=f"one of {', '.join(_OPERATIONS)}",
            )
        try:
            return ToolOutput.success(operation(request))
        except OverflowError:
            raise out_of_range("input") from None

    def effects(self, params: Mapping[str, Any]) -> frozenset[Any]:
        return frozenset()

    def requires_sanitization(self) -> bool:
        return False


class _Request:
    """The arguments of one call, each under all its names."""

    def __init__(self, params: Mapping[str, Any], context: JobContext) -> None:
        self._params = params
        self._context = context

    def now(self) -> datetime:
        services = self._context.handle.services if self._context.handle else None
        seconds = services.clock.now() if services else time.time()
        return datetime.fromtimestamp(seconds, UTC)

    def given(self, *names: str) -> Any:
        """The argument under the first of its names that is filled in."""
        values = [self._params[name] for name in names if self._params.get(name) not in (None, "")]
        if any(value != values[0] for value in values):
            raise refuse(
                names[-1],
                "invalid_input",
                f"{' and '.join(names)} are two names of one argument and differ; give one of them",
                expected=f"one of {' and '.join(names)}",
                received="both, with different values",
            )
        return values[0] if values else None

    def zone(self, *names: str) -> tzinfo | None:
        """The zone under the first of these names, else the user's own."""
        for name in names:
            value = self._params.get(name)
            if isinstance(value, str) and value.strip():
                return find_zone(value, name)
        metadata = self._context.metadata
        for value in (
            self._context.user_timezone, metadata.get("user_timezone"), metadata.get("timezone")
        ):  # fmt: skip
            if isinstance(value, str) and value.strip():
                return find_zone(value, "timezone")
        return None

    def moment(
        self, *names: str, zones: tuple[str, ...] = ("timezone", "from_timezone")
    ) -> datetime:
        """A time, with a zone in any case."""
        value = self.given(*names)
        if value is None:
            raise _missing(names[0])
        zone = self.zone(*zones)  # also where it is not needed: a wrong name is never ignored
        moment, settled = read_moment(value, names[0], self.now)
        if settled:
            moment.astimezone(UTC)  # a time that is not in the calendar there fails here
            return moment
        if zone is None:
            raise refuse(
                names[0],
                "needs_timezone",
                f"{value!r} has no offset, so it needs a zone: give timezone (or from_timezone) as "
                f"{_ZONE}, or write the offset into the time",
                expected="a time with an offset, or a timezone",
                received="a local time",
            )
        return to_instant(moment, zone, names[0])

    def format(self) -> str | None:
        text = self.given("format_string", "format")
        return None if text is None else str(text)


# operations --------------------------------------------------------------------------------------


def _now(request: _Request) -> dict[str, Any]:
    moment = request.now()
    zone = request.zone("timezone", "to_timezone")
    result = {"iso": moment.isoformat(), **_instant(moment)}
    local = moment.astimezone(zone or UTC)
    if zone is not None:
        result["local_iso"] = local.isoformat()
        result["utc_offset"] = format_offset(local.utcoffset() or local - local)
    # `timestamp`, `utc` and `formatted` are what some documentation calls these.
    return result | {
        "timezone": zone_name(zone or UTC),
        "timestamp": result["iso"],
        "utc": result["utc_iso"],
        "formatted": format_moment(local, request.format() or DEFAULT),
    }


def _parse(request: _Request) -> dict[str, Any]:
    moment = request.moment("input", "timestamp")
    return {"iso": moment.astimezone(UTC).isoformat(), **_instant(moment)}


def _convert(request: _Request) -> dict[str, Any]:
    moment = request.moment("input", "timestamp", zones=("from_timezone", "timezone"))
    zone = request.zone("to_timezone", "timezone")
    if zone is None:
        raise refuse(
            "to_timezone",
            "needs_timezone",
            f"convert needs to_timezone: {_ZONE}",
            expected="a time zone",
            received="nothing",
        )
    local = moment.astimezone(zone)
    return {
        "input": request.given("input", "timestamp"),
        "output": local.isoformat(),
        "timezone": zone_name(zone),
        "utc_offset": format_offset(local.utcoffset() or local - local),
        **_instant(moment),
    }


def _format(request: _Request) -> dict[str, Any]:
    moment = request.moment("input", "timestamp", zones=("from_timezone", "timezone"))
    zone = request.zone("timezone", "to_timezone")
    local = moment if zone is None else moment.astimezone(zone)
    return {
        "formatted": format_moment(local, request.format() or DEFAULT),
        "timezone": zone_name(local.tzinfo),
        **_instant(moment),
    }


def _diff(request: _Request) -> dict[str, Any]:
    first = request.moment("input", "timestamp")
    second = request.moment("timestamp2")
    microseconds = unix_microseconds(second) - unix_microseconds(first)
    units = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
    return {unit: _divide(microseconds, size * 1_000_000) for unit, size in units.items()}


def _instant(moment: datetime) -> dict[str, Any]:
    microseconds = unix_microseconds(moment)
    return {
        "utc_iso": moment.astimezone(UTC).isoformat(),
        "unix": microseconds // 1_000_000,
        "unix_millis": microseconds // 1000,
    }


def _divide(number: int, by: int) -> int | float:
    return number // by if number % by == 0 else number / by


def _missing(parameter: str) -> InvalidParameters:
    return refuse(
        parameter,
        "missing_input",
        f"missing '{parameter}' parameter: give {_MOMENT}",
        expected="a time",
        received="nothing",
    )


_OPERATIONS: dict[str, Callable[[_Request], dict[str, Any]]] = {
    "now": _now,
    "parse": _parse,
    "convert": _convert,
    "format": _format,
    "diff": _diff,
}
