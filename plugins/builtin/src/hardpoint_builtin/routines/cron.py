"""Cron schedules: `minute hour day month weekday`, optionally with seconds before them.

Sunday is 0 or 7 in every form. When day and weekday are both restricted, either is enough, as cron
has it. A local time that the clocks skip fires when they have moved on; one that they show twice
fires once.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import attrs

YEARS: Final = 30
"""How far to look for the next time: 29 February on a given weekday comes every 28 years."""

_ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_DAYS: Final = "sun mon tue wed thu fri sat".split()
_FIELDS: Final[Sequence[tuple[str, int, int, dict[str, int]]]] = (
    ("second", 0, 59, {}),
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("weekday", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)


@attrs.frozen
class Schedule:
    """The times that fit, field by field."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    any_day: bool
    any_weekday: bool

    def next_after(self, moment: float, zone: tzinfo = UTC) -> float | None:
        """The first time after a moment, in unix seconds; None when there is none for decades."""
        after = datetime.fromtimestamp(moment, UTC)
        # A little back: where clocks were just set back, an earlier wall time lies after `after`.
        start = after.astimezone(zone).replace(tzinfo=None, microsecond=0) - timedelta(hours=3)
        for local in self._local_times(start):
            fires = local.replace(tzinfo=zone).astimezone(UTC)
            if fires > after:
                return fires.timestamp()
        return None

    def _local_times(self, start: datetime) -> Iterator[datetime]:
        """Wall-clock times from `start` on, in order."""
        day = start.replace(hour=0, minute=0, second=0)
        last = start.year + YEARS
        while day.year <= last:
            if day.month not in self.months:
                day = _next_month(day)
                continue
            if self._fits_day(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        for second in self.seconds:
                            local = day.replace(hour=hour, minute=minute, second=second)
                            if local >= start:
                                yield local
            day += timedelta(days=1)

    def _fits_day(self, day: datetime) -> bool:
        fits = day.day in self.days
        fits_weekday = (day.weekday() + 1) % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return fits and fits_weekday
        return fits or fits_weekday


def _next_month(day: datetime) -> datetime:
    length = calendar.monthrange(day.year, day.month)[1]
    return day.replace(day=1) + timedelta(days=length)


def parse_cron(text: str) -> Schedule:
    """Read a schedule.

    Raises:
        ValueError: It is none; the message says what is wrong and shows one that is right.
    """
    fields = _ALIASES.get(text.strip().lower(), text).split()
    if len(fields) == 5:
        fields = ["0", *fields]
    if len(fields) != 6:
        raise ValueError(
            f"{text!r} has {len(fields)} fields; write 'minute hour day month weekday' like"
            " '0 9 * * mon-fri', or six fields beginning with seconds"
        )
    values = [_field(part, *field) for part, field in zip(fields, _FIELDS, strict=True)]
    schedule = Schedule(
        seconds=tuple(sorted(values[0])),
        minutes=tuple(sorted(values[1])),
        hours=tuple(sorted(values[2])),
        days=frozenset(values[3]),
        months=frozenset(values[4]),
        weekdays=frozenset(number % 7 for number in values[5]),
        any_day=fields[3] in ("*", "?"),
        any_weekday=fields[5] in ("*", "?"),
    )
    if schedule.next_after(0.0) is None:
        raise ValueError(f"{text!r} never comes: no month that it names has such a day")
    return schedule


def _field(text: str, name: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        every = _number(step, name, 1, high, {}) if slash else 1
        if span in ("*", "?"):
            first, last = low, high
        elif "-" in span:
            begin, _, end = span.partition("-")
            first, last = (_number(each, name, low, high, names) for each in (begin, end))
            if name == "weekday" and last < first:
                last += 7  # fri-mon
        else:
            first = _number(span, name, low, high, names)
            last = high if slash else first
        if last < first:
            raise ValueError(f"{part!r} runs backwards in the field {name!r}")
        found.update(range(first, last + 1, every))
    return found


def _number(text: str, name: str, low: int, high: int, names: dict[str, int]) -> int:
    word = text.lower()[:3]
    if word in names and text.isalpha():
        return names[word]
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        known = f" or {', '.join(names)}" if names else ""
        raise ValueError(f"{text!r} is no {name}: {low} to {high}{known}")
    return int(text)
