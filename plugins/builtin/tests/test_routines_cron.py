"""Cron schedules against the calendar."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hardpoint_builtin.routines.cron import parse_cron


def next_times(schedule, start, count=3, zone="UTC"):
    moment = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)).timestamp()
    found = []
    for _ in range(count):
        moment = parse_cron(schedule).next_after(moment, ZoneInfo(zone))
        found.append(datetime.fromtimestamp(moment, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S"))
    return found


@pytest.mark.parametrize(
    ("schedule", "start", "expected"),
    [
        ("*/15 * * * *", "2026-03-01 10:07", ["2026-03-01 10:15:00", "2026-03-01 10:30:00"]),
        ("0 9 * * mon-fri", "2026-03-06 09:00", ["2026-03-09 09:00:00", "2026-03-10 09:00:00"]),
        ("0 9 * * 1-5", "2026-03-06 09:00", ["2026-03-09 09:00:00", "2026-03-10 09:00:00"]),
        ("0 0 * * 0", "2026-03-01 00:00", ["2026-03-08 00:00:00", "2026-03-15 00:00:00"]),
        ("0 0 * * 7", "2026-03-01 00:00", ["2026-03-08 00:00:00", "2026-03-15 00:00:00"]),
        ("30 0 9 * * MON", "2026-03-02 08:00", ["2026-03-02 09:00:30", "2026-03-09 09:00:30"]),
        ("0 0 29 2 *", "2026-03-01 00:00", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        ("0 12 31 * *", "2026-04-01 00:00", ["2026-05-31 12:00:00", "2026-07-31 12:00:00"]),
        ("0 12 13 * fri", "2026-03-01 00:00", ["2026-03-06 12:00:00", "2026-03-13 12:00:00"]),
        ("0 0 1 jan,jul *", "2026-03-01 00:00", ["2026-07-01 00:00:00", "2027-01-01 00:00:00"]),
        ("0 22-2/2 * * *", None, None),
        ("0 8-18/5 * * *", "2026-03-01 09:00", ["2026-03-01 13:00:00", "2026-03-01 18:00:00"]),
        ("0 0 * * fri-mon", "2026-03-03 00:00", ["2026-03-06 00:00:00", "2026-03-07 00:00:00"]),
        ("5/20 * * * *", "2026-03-01 10:06", ["2026-03-01 10:25:00", "2026-03-01 10:45:00"]),
        ("@daily", "2026-03-01 10:00", ["2026-03-02 00:00:00", "2026-03-03 00:00:00"]),
        ("0 0 ? * ?", "2026-03-01 10:00", ["2026-03-02 00:00:00", "2026-03-03 00:00:00"]),
    ],
)
def test_the_next_times(schedule, start, expected):
    if expected is None:
        with pytest.raises(ValueError, match="backwards"):
            parse_cron(schedule)
        return
    assert next_times(schedule, start, 2) == expected


@pytest.mark.parametrize(
    ("schedule", "start", "expected"),
    [
        # Clocks are set forward at 02:00: half past two does not exist and comes an hour later.
        ("30 2 * * *", "2026-03-07 12:00", ["2026-03-08 03:30:00", "2026-03-09 02:30:00"]),
        # Clocks are set back at 02:00: half past one is shown twice and fires once.
        ("30 1 * * *", "2026-10-31 12:00", ["2026-11-01 01:30:00", "2026-11-02 01:30:00"]),
    ],
)
def test_changes_of_clocks_neither_skip_nor_repeat_a_day(schedule, start, expected):
    assert next_times(schedule, start, 2, "America/New_York") == expected


@pytest.mark.parametrize(
    "schedule",
    ["", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *",
     "* * * 13 *", "* * * * 8", "*/0 * * * *", "a * * * *", "1- * * * *", "-1 * * * *", ", * * * *",
     "1,,2 * * * *", "* * * * mond ay", "* * 30 2 *", "* * 31 4,6 *", "１ * * * *", "1.5 * * * *",
     "@never", "0 0 * * mon#1", "0 0 L * *", "*" * 1000],
)  # fmt: skip
def test_what_is_no_schedule_is_refused_with_a_reason(schedule):
    with pytest.raises(ValueError):
        parse_cron(schedule)


NUMBERS = st.tuples(
    st.sampled_from(["*", "*/7", "13", "5-9", "0,30"]),
    st.sampled_from(["*", "*/5", "0", "8-10", "23"]),
    st.sampled_from(["*", "1", "31", "10-12"]),
    st.sampled_from(["*", "2", "jan-mar", "12"]),
    st.sampled_from(["*", "sun", "1-5", "0,6"]),
)


@given(NUMBERS, st.integers(1_600_000_000, 1_900_000_000))
@settings(deadline=None, max_examples=50)
def test_the_next_time_fits_and_none_before_it_does(fields, start):
    assume(fields[2:4] != ("31", "2") or fields[4] != "*")
    schedule = parse_cron(" ".join(fields))

    found = schedule.next_after(start)

    assert found > start

    def fits(moment):
        at = datetime.fromtimestamp(moment, UTC)
        day, weekday = at.day in schedule.days, at.isoweekday() % 7 in schedule.weekdays
        both = schedule.any_day or schedule.any_weekday
        return (
            at.minute in schedule.minutes
            and at.hour in schedule.hours
            and at.month in schedule.months
            and ((day and weekday) if both else (day or weekday))
        )

    assert fits(found)
    step = timedelta(minutes=1).total_seconds()
    first = start - start % 60 + 60
    last = min(found, first + 3000 * step)
    assert not any(fits(first + n * step) for n in range(int((last - first) // step)))


@given(st.text(max_size=40))
def test_any_text_is_a_schedule_or_refused(text):
    try:
        parse_cron(text).next_after(0)
    except ValueError as error:
        assert str(error)
