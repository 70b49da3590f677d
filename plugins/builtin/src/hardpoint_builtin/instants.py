"""Read a moment in time from what a model writes: ISO 8601, RFC 2822, or unix time.

Decides what a text or number means; never guesses a zone. A number is unix time: seconds below
1e11 in absolute value, milliseconds from there on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hardpoint import InvalidParameters
from hardpoint_builtin.refusals import refuse

MAX_LENGTH = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS_FROM = Decimal(10) ** 11
_MICROSECOND = timedelta(microseconds=1)

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)

_DATE = r"""(?P<year>\d{4})(?:
      -(?P<month>\d\d)-(?P<day>\d\d) | (?P<month2>\d\d)(?P<day2>\d\d)(?=T)
    | -W(?P<week>\d\d)-(?P<weekday>\d) | W(?P<week2>\d\d)(?P<weekday2>\d)
    | -(?P<ordinal>\d{3})
)"""
_TIME = r"""(?P<hour>\d\d)(?:
      :(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,18}))?)?
    | (?P<minute2>\d\d)(?:(?P<second2>\d\d)(?:[.,](?P<fraction2>\d{1,18}))?)?
)"""
_ZONE = r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)"
_ISO = re.compile(
    rf"{_DATE}(?:[T\ ]{_TIME}(?:\ ?{_ZONE})?)?", re.VERBOSE | re.ASCII | re.IGNORECASE
)

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_RFC_2822 = re.compile(
    rf"""(?:(?P<weekday>{"|".join(_DAYS)}),\ )?(?P<day>\d{{1,2}})\ (?P<month>{"|".join(_MONTHS)})
    \ (?P<year>\d{{4}})\ (?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?
    \ (?P<zone>[+-]\d{{4}}|GMT|UTC?)""",
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)  # fmt: skip


def read_moment(value: Any, parameter: str, now: Callable[[], datetime]) -> tuple[datetime, bool]:
    """The moment, and whether it is settled; if not, it is a local time that still needs a zone.

    Raises:
        InvalidParameters: The value is no date, time or unix time.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _invalid(parameter, value)
    if isinstance(value, int | float):
        return _from_unix(Decimal(repr(value)), parameter, value), True
    text = value.strip(" \t\r\n")
    if len(text) > MAX_LENGTH:
        raise _invalid(parameter, value)
    if text.casefold() == "now":
        return now(), True
    if _NUMBER.fullmatch(text):
        return _from_unix(Decimal(text), parameter, value), True
    for pattern, build in ((_ISO, _from_iso), (_RFC_2822, _from_rfc_2822)):
        if match := pattern.fullmatch(text):
            try:
                moment = build(match)
            except OverflowError:
                raise out_of_range(parameter) from None
            except ValueError as error:
                raise _invalid(parameter, value, str(error)) from None
            return moment, moment.tzinfo is not None
    raise _invalid(parameter, value)


def unix_microseconds(moment: datetime) -> int:
    """Whole microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def out_of_range(parameter: str) -> InvalidParameters:
    return refuse(
        parameter,
        "out_of_range",
        "the time lies outside the years 1 to 9999",
        expected="a time between the years 1 and 9999",
        received="a time outside",
    )


def _from_unix(number: Decimal, parameter: str, value: Any) -> datetime:
    if not number.is_finite():
        raise _invalid(parameter, value)
    # Before any arithmetic: 1e999 would become a number of a thousand digits.
    if number and number.adjusted() > 15:
        raise out_of_range(parameter)
    scale = 1000 if abs(number) >= _MILLISECONDS_FROM else 1_000_000
    try:
        return _EPOCH + timedelta(microseconds=int(number * scale))
    except OverflowError:
        raise out_of_range(parameter) from None


def _from_iso(match: re.Match[str]) -> datetime:
    def number(*names: str) -> int:
        return int(next((match[name] for name in names if match[name] is not None), 0))

    year = int(match["year"])
    if year == 0:
        raise OverflowError
    if match["week"] or match["week2"]:
        day = date.fromisocalendar(year, number("week", "week2"), number("weekday", "weekday2"))
    elif match["ordinal"]:
        day = date(year, 1, 1) + timedelta(days=number("ordinal") - 1)
        if day.year != year:
            raise ValueError(f"the year {year} has no day {match['ordinal']}")
    else:
        day = date(year, number("month", "month2"), number("day", "day2"))
    fraction = (match["fraction"] or match["fraction2"] or "").ljust(6, "0")[:6]
    hour, next_day = number("hour"), timedelta()
    minute, second = number("minute", "minute2"), number("second", "second2")
    if (hour, minute, second, int(fraction)) == (24, 0, 0, 0):  # ISO 8601 for the end of the day
        hour, next_day = 0, timedelta(days=1)
    moment = datetime(day.year, day.month, day.day, hour, minute, second, int(fraction)) + next_day
    return moment.replace(tzinfo=_zone(match["zone"]))


def _from_rfc_2822(match: re.Match[str]) -> datetime:
    month = _MONTHS.index(match["month"].lower()) + 1
    moment = datetime(
        int(match["year"]),
        month,
        int(match["day"]),
        int(match["hour"]),
        int(match["minute"]),
        int(match["second"] or 0),
        tzinfo=_zone(match["zone"]),
    )
    if match["weekday"] and _DAYS[moment.weekday()] != match["weekday"].lower():
        raise ValueError("the day of the week does not fit the date")
    return moment


def _zone(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text.upper() in ("Z", "GMT", "UT", "UTC"):
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"there is no offset {text}")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


def _invalid(parameter: str, value: Any, reason: str = "") -> InvalidParameters:
    shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:80]}…"
    why = f" ({reason})" if reason else ""
    return refuse(
        parameter,
        "invalid_input",
        f"{shown} is not a time{why}; write ISO 8601 such as 2024-02-29T12:00:00Z, or unix time",
        expected="ISO 8601 or unix time",
        received=shown,
    )
