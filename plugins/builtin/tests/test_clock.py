"""The `time` tool."""

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint import InvalidParameters, JobContext
from hardpoint_builtin.clock import TimeTool
from hardpoint_builtin.instants import read_moment, unix_microseconds
from hardpoint_builtin.time_format import format_moment
from hardpoint_builtin.zones import find_zone, to_instant


async def run(operation=None, context=None, **params):
    if operation is not None:
        params["operation"] = operation
    return (await TimeTool().execute(params, context or JobContext(user_id="ana"))).result


async def code_of(operation=None, context=None, **params):
    with pytest.raises(InvalidParameters) as caught:
        await run(operation, context, **params)
    return caught.value.issues[0].code


def at(seconds):
    """A context inside a call whose clock stands still."""
    services = SimpleNamespace(clock=SimpleNamespace(now=lambda: seconds))
    handle = SimpleNamespace(services=services, origin="library")
    return JobContext(user_id="ana").bound(handle)


# now ---------------------------------------------------------------------------------------------


async def test_now_reads_the_clock_of_the_runtime():
    assert await run("now", at(1_700_000_000.25)) == {
        "iso": "2023-11-14T22:13:20.250000+00:00",
        "utc_iso": "2023-11-14T22:13:20.250000+00:00",
        "unix": 1_700_000_000,
        "unix_millis": 1_700_000_000_250,
        "timezone": "UTC",
        "timestamp": "2023-11-14T22:13:20.250000+00:00",
        "utc": "2023-11-14T22:13:20.250000+00:00",
        "formatted": "2023-11-14 22:13:20 UTC",
    }


async def test_nothing_at_all_means_now():
    assert (await run(context=at(0)))["unix"] == 0
    assert (await run(context=at(0), format="human"))["formatted"] == (
        "Thursday, January 1, 1970 at 12:00 AM UTC"
    )


async def test_an_input_without_an_operation_is_not_guessed_at():
    assert await code_of(input="2024-01-01T00:00:00Z") == "invalid_operation"


async def test_now_in_a_zone_adds_the_local_time():
    result = await run("now", at(0), timezone="Asia/Kathmandu")

    assert result["local_iso"] == "1970-01-01T05:30:00+05:30"
    assert result["timezone"] == "Asia/Kathmandu"


# zones -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "context",
    [
        JobContext(user_id="ana", user_timezone="Europe/Paris"),
        JobContext(user_id="ana", metadata={"user_timezone": "Europe/Paris"}),
        JobContext(user_id="ana", metadata={"timezone": "Europe/Paris"}),
    ],
)
async def test_the_users_own_zone_is_used_where_none_is_given(context):
    result = await run("parse", context, input="2024-01-15T12:00:00")
    assert result["iso"] == "2024-01-15T11:00:00+00:00"

    other = await run("parse", context, input="2024-01-15T12:00:00", timezone="Asia/Tokyo")
    assert other["iso"] == "2024-01-15T03:00:00+00:00"


@pytest.mark.parametrize(
    ("wrong", "suggestion"),
    [
        ("America/New York", "America/New_York"),
        ("new york", "America/New_York"),
        ("Tokyo", "Asia/Tokyo"),
        ("Asia/Tokio", "Asia/Tokyo"),
        ("Europe/Kyivv", "Europe/Kyiv"),
        ("Amercia/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
        ("PST", "America/Los_Angeles"),
        ("Sydny", "Australia/Sydney"),
    ],
)
def test_an_unknown_zone_suggests_near_ones(wrong, suggestion):
    with pytest.raises(InvalidParameters, match=suggestion):
        find_zone(wrong, "timezone")


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/localtime", "Europe", "UTC\0", "localtime", "posixrules",
     "right/UTC", "zone.tab", "+24:00", "+5", "x" * 10_000, "\ud800"],
)  # fmt: skip
def test_only_names_are_zones(name):
    with pytest.raises(InvalidParameters) as caught:
        find_zone(name, "timezone")
    assert caught.value.issues[0].code == "unknown_timezone"


@pytest.mark.parametrize("name", ["europe/paris", " Europe/Paris ", "EUROPE/PARIS"])
def test_letter_case_and_blanks_around_a_zone_do_not_matter(name):
    assert find_zone(name, "timezone") == ZoneInfo("Europe/Paris")


@pytest.mark.parametrize(
    ("local", "zone", "code"),
    [
        ("2024-03-10 02:00:00", "America/New_York", "nonexistent_time"),
        ("2011-12-30 12:00:00", "Pacific/Apia", "nonexistent_time"),
        ("2024-11-03 01:59:59", "America/New_York", "ambiguous_time"),
    ],
)
def test_skipped_and_repeated_times_are_errors(local, zone, code):
    with pytest.raises(InvalidParameters) as caught:
        to_instant(datetime.fromisoformat(local), ZoneInfo(zone), "input")
    assert caught.value.issues[0].code == code


@given(st.datetimes(datetime(1950, 1, 1), datetime(2037, 1, 1)), st.sampled_from(
    ["America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu", "UTC"]
))  # fmt: skip
def test_an_unambiguous_local_time_comes_back_from_its_instant(local, name):
    zone = ZoneInfo(name)
    try:
        instant = to_instant(local, zone, "input")
    except InvalidParameters:
        return
    assert instant.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == local


async def test_a_wrong_zone_is_an_error_even_where_it_is_not_needed():
    params = {"input": "2024-01-15T12:00:00Z", "timezone": "Europe/Atlantis"}

    assert await code_of("parse", **params) == "unknown_timezone"


# reading -----------------------------------------------------------------------------------------


@given(st.datetimes(timezones=st.just(UTC)))
def test_iso_text_is_read_as_it_was_written(moment):
    for text in (
        moment.isoformat(),
        moment.isoformat(" "),
        moment.isoformat().replace("+00:00", "Z"),
    ):
        assert read_moment(text, "input", lambda: moment) == (moment, True)


@given(st.integers(-62_135_596_800, 99_999_999_999), st.integers(0, 999_999))
def test_unix_time_as_text_keeps_every_microsecond(seconds, micro):
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    if seconds >= 0:
        moment += timedelta(microseconds=micro)
        assert read_moment(f"{seconds}.{micro:06d}", "input", lambda: moment)[0] == moment
    assert unix_microseconds(moment) // 1_000_000 == seconds


@given(st.text() | st.floats() | st.integers() | st.booleans() | st.lists(st.integers()))
def test_anything_is_a_time_or_an_orderly_error(value):
    try:
        read_moment(value, "input", lambda: datetime(2024, 1, 1, tzinfo=UTC))
    except InvalidParameters as error:
        assert error.issues[0].code in {"invalid_input", "out_of_range"}


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("20240229T123456Z", "2024-02-29T12:34:56+00:00"),
        ("2024-W09-4T12:00:00Z", "2024-02-29T12:00:00+00:00"),
        ("2024-060T12:00:00Z", "2024-02-29T12:00:00+00:00"),
        ("2024-01-01T24:00:00Z", "2024-01-02T00:00:00+00:00"),
        ("2024-02-29T12:34:56.123456789Z", "2024-02-29T12:34:56.123456+00:00"),
        ("Thu, 29 Feb 2024 12:34:56 GMT", "2024-02-29T12:34:56+00:00"),
        ("29 feb 2024 12:34 -0500", "2024-02-29T12:34:00-05:00"),
        ("2024-02-29 12:34:56 +05:30", "2024-02-29T12:34:56+05:30"),
        ("2024-02-29T12:34:56-0030", "2024-02-29T12:34:56-00:30"),
        ("1.7e9", "2023-11-14T22:13:20+00:00"),
        ("now", "2000-01-01T00:00:00+00:00"),
    ],
)
def test_many_spellings_are_read(text, iso):
    moment, settled = read_moment(text, "input", lambda: datetime(2000, 1, 1, tzinfo=UTC))

    assert (moment.isoformat(), settled) == (iso, True)


@pytest.mark.parametrize(
    "text",
    ["2023-02-29", "2025-366", "2023-366T00:00Z", "2024-1-1", "2024-01-01T1:00Z", "24-01-01",
     "Fri, 29 Feb 2024 12:34:56 GMT", "2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00+05:60",
     "2024-01-01T24:00:01Z", "2024-01-01T00:00:00Z Z", "tomorrow", "1e", "nan", "inf", "0x10",
     "2024-01-01\n2024", "١٢", "--1", "1,5"],
)  # fmt: skip
def test_what_is_no_time_is_refused(text):
    with pytest.raises(InvalidParameters) as caught:
        read_moment(text, "input", lambda: datetime(2000, 1, 1, tzinfo=UTC))
    assert caught.value.issues[0].code == "invalid_input"


@pytest.mark.parametrize(
    "value", [1e300, -1e300, 10**400, "1e999", "-9e15", "9999-12-31T24:00:00Z"]
)
def test_times_outside_the_calendar_are_refused(value):
    with pytest.raises(InvalidParameters):
        read_moment(value, "input", lambda: datetime(2000, 1, 1, tzinfo=UTC))


async def test_two_names_of_one_argument_may_not_differ():
    assert await code_of("parse", input=1, timestamp=2) == "invalid_input"
    assert (await run("parse", input=1, timestamp=1))["unix"] == 1


# writing -----------------------------------------------------------------------------------------


@given(st.datetimes(datetime(1000, 1, 1)))
def test_codes_mean_what_they_mean_to_strftime(moment):
    for code in "YmdHMSyjIpAaBbuwGVFTUWDRe%":
        assert format_moment(moment, f"%{code}") == moment.strftime(f"%{code}")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("%z", "-0230"),
        ("%:z", "-02:30"),
        ("%-d/%-m %-I%P", "4/7 5am"),
        ("%f %3f %.f %.3f", "060000 060 .060 .060"),
        ("100%%", "100%"),
        ("plain – text", "plain – text"),
        ("iso8601", "2024-07-04T05:08:09.060000-02:30"),
        ("unix", "1720078689"),
        ("%s", "1720078689"),
        ("%_d|%e", " 4| 4"),
    ],
)
def test_a_format_is_written_like_this(text, written):
    zone = timezone(-timedelta(hours=2, minutes=30))
    assert format_moment(datetime(2024, 7, 4, 5, 8, 9, 60_000, zone), text) == written


@pytest.mark.parametrize("text", ["%Q", "%", "50%", "%é", "%-", "%\n"])
async def test_an_unknown_code_is_refused(text):
    assert await code_of("format", input=0, format_string=text) == "invalid_format"


async def test_convert_says_both_zones():
    result = await run("convert", input="2026-03-08T07:30:00Z", to_timezone="America/New_York")

    assert result["output"] == "2026-03-08T03:30:00-04:00"
    assert result["utc_iso"] == "2026-03-08T07:30:00+00:00"
    assert result["timezone"] == "America/New_York"
    assert await code_of("convert", input=0) == "needs_timezone"


async def test_differences_are_exact():
    result = await run("diff", input="2024-01-01T00:00:00Z", timestamp2="2024-01-02T12:00:00Z")

    assert result == {"seconds": 129_600, "minutes": 2160, "hours": 36, "days": 1.5}
    assert await code_of("diff", input=0) == "missing_input"
