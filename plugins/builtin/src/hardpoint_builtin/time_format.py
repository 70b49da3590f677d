"""Write a moment in a format given with `%` codes. English names, the same on every system."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from hardpoint_builtin.instants import unix_microseconds
from hardpoint_builtin.refusals import refuse
from hardpoint_builtin.zones import format_offset

DEFAULT = "%Y-%m-%d %H:%M:%S %Z"
NAMED: dict[str, Callable[[datetime], str]] = {
    "iso8601": lambda moment: moment.isoformat(),
    "unix": lambda moment: str(unix_microseconds(moment) // 1_000_000),
    "human": lambda moment: format_moment(moment, "%A, %B %-d, %Y at %-I:%M %p %Z"),
}
"""Formats that have a name in place of codes."""

_CODE = re.compile(r"%([-_]?)(\.[369]?f|[369]f|:?[A-Za-z%])|%", re.DOTALL)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def format_moment(moment: datetime, text: str) -> str:
    """The moment in a format, by its local time.

    Raises:
        InvalidParameters: The format has a code that does not exist.
    """
    if text in NAMED:
        return NAMED[text](moment)
    return _CODE.sub(lambda match: _expand(moment, match), text)


def _expand(moment: datetime, match: re.Match[str]) -> str:
    flag, code = match[1], match[2]
    if code not in _CODES:
        raise refuse(
            "format_string",
            "invalid_format",
            f"unknown format code {match[0]!r}; there are %{' %'.join(_CODES)}",
            expected="codes such as %Y-%m-%d %H:%M:%S",
            received=repr(match[0]),
        )
    written = _CODES[code](moment)
    if flag and written.strip().isdigit():
        short = written.lstrip("0 ") or "0"
        return short if flag == "-" else short.rjust(len(written))
    return written


def _offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta()


def _twelve(moment: datetime) -> int:
    return moment.hour % 12 or 12


def _week(moment: datetime, first_day: int) -> int:
    """Weeks of the year that have begun, each on Sunday (0) or Monday (1)."""
    day_of_year = moment.timetuple().tm_yday
    since_start_of_week = (moment.weekday() + 1 - first_day) % 7
    return (day_of_year + 6 - since_start_of_week) // 7


def _fraction(digits: int) -> Callable[[datetime], str]:
    return lambda moment: f"{moment.microsecond:06d}000"[:digits]


def _dotted(digits: int) -> Callable[[datetime], str]:
    return lambda moment: "." + _fraction(digits)(moment)


def _short_fraction(moment: datetime) -> str:
    micro = moment.microsecond
    return "" if not micro else f".{micro // 1000:03d}" if micro % 1000 == 0 else f".{micro:06d}"


_CODES: dict[str, Callable[[datetime], str]] = {
    "Y": lambda m: f"{m.year:04d}",
    "m": lambda m: f"{m.month:02d}",
    "d": lambda m: f"{m.day:02d}",
    "H": lambda m: f"{m.hour:02d}",
    "M": lambda m: f"{m.minute:02d}",
    "S": lambda m: f"{m.second:02d}",
    "y": lambda m: f"{m.year % 100:02d}",
    "j": lambda m: f"{m.timetuple().tm_yday:03d}",
    "I": lambda m: f"{_twelve(m):02d}",
    "p": lambda m: "AM" if m.hour < 12 else "PM",
    "P": lambda m: "am" if m.hour < 12 else "pm",
    "A": lambda m: _DAYS[m.weekday()],
    "a": lambda m: _DAYS[m.weekday()][:3],
    "B": lambda m: _MONTHS[m.month - 1],
    "b": lambda m: _MONTHS[m.month - 1][:3],
    "h": lambda m: _MONTHS[m.month - 1][:3],
    "u": lambda m: str(m.isoweekday()),
    "w": lambda m: str(m.isoweekday() % 7),
    "G": lambda m: f"{m.isocalendar().year:04d}",
    "g": lambda m: f"{m.isocalendar().year % 100:02d}",
    "V": lambda m: f"{m.isocalendar().week:02d}",
    "U": lambda m: f"{_week(m, 0):02d}",
    "W": lambda m: f"{_week(m, 1):02d}",
    "C": lambda m: f"{m.year // 100:02d}",
    "e": lambda m: f"{m.day:2d}",
    "k": lambda m: f"{m.hour:2d}",
    "l": lambda m: f"{_twelve(m):2d}",
    "z": lambda m: format_offset(_offset(m), ""),
    ":z": lambda m: format_offset(_offset(m)),
    "Z": lambda m: m.tzname() or format_offset(_offset(m)),
    "s": lambda m: str(unix_microseconds(m) // 1_000_000),
    "f": _fraction(6),
    "3f": _fraction(3),
    "6f": _fraction(6),
    "9f": _fraction(9),
    ".f": _short_fraction,
    ".3f": _dotted(3),
    ".6f": _dotted(6),
    ".9f": _dotted(9),
    "F": lambda m: format_moment(m, "%Y-%m-%d"),
    "T": lambda m: format_moment(m, "%H:%M:%S"),
    "X": lambda m: format_moment(m, "%H:%M:%S"),
    "R": lambda m: format_moment(m, "%H:%M"),
    "r": lambda m: format_moment(m, "%I:%M:%S %p"),
    "D": lambda m: format_moment(m, "%m/%d/%y"),
    "x": lambda m: format_moment(m, "%m/%d/%y"),
    "c": lambda m: format_moment(m, "%a %b %e %H:%M:%S %Y"),
    "n": lambda m: "\n",
    "t": lambda m: "\t",
    "%": lambda m: "%",
}
