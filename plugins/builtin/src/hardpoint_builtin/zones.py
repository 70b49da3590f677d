"""Time zones by IANA name, and what a local time means in one.

A zone is a name from the IANA list or an offset such as `+05:45`; never a file path. A local time
that a change of clocks skips or repeats is an error.
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from hardpoint import InvalidParameters
from hardpoint_builtin.refusals import refuse

_OFFSET = re.compile(r"([+-])(\d{2}):?([0-5]\d)", re.ASCII)
_EXAMPLES = ("America/New_York", "Europe/London", "Asia/Tokyo", "UTC")

# Abbreviations name several zones at once, so they are only ever suggestions.
_ABBREVIATIONS = {
    "AEDT": "Australia/Sydney", "AEST": "Australia/Sydney", "AKST": "America/Anchorage",
    "BRT": "America/Sao_Paulo", "BST": "Europe/London", "CDT": "America/Chicago",
    "CEST": "Europe/Berlin", "CST": "America/Chicago", "EDT": "America/New_York",
    "EEST": "Europe/Athens", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "KST": "Asia/Seoul",
    "MDT": "America/Denver", "MSK": "Europe/Moscow", "NZST": "Pacific/Auckland",
    "PDT": "America/Los_Angeles", "PST": "America/Los_Angeles", "PT": "America/Los_Angeles",
    "ET": "America/New_York", "CT": "America/Chicago", "MT": "America/Denver",
    "SGT": "Asia/Singapore", "WEST": "Europe/Lisbon",
}  # fmt: skip


def find_zone(name: str, parameter: str) -> tzinfo:
    """The zone of this name; letter case does not matter.

    Raises:
        InvalidParameters: There is no such zone; the message suggests near ones.
    """
    wanted = name.strip()
    if wanted in ("Z", "z"):
        return UTC
    if match := _OFFSET.fullmatch(wanted):
        sign, hours, minutes = match.groups()
        if int(hours) < 24:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            return timezone(-offset if sign == "-" else offset)
    known = _names().get(wanted.casefold())
    if known is not None:
        from zoneinfo import ZoneInfo

        return ZoneInfo(known)
    raise _unknown(wanted, parameter)


def to_instant(local: datetime, zone: tzinfo, parameter: str) -> datetime:
    """The moment at which clocks in the zone show this time.

    Raises:
        InvalidParameters: They never do, or they do twice.
    """
    first, second = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    before, after = first.utcoffset(), second.utcoffset()
    if before == after or before is None or after is None:
        return first
    shown = local.isoformat(" ")
    if before < after:
        raise refuse(
            parameter,
            "nonexistent_time",
            f"{shown} does not exist in {zone}: the clocks skip it when they go forward from "
            f"{format_offset(before)} to {format_offset(after)}; use another time, or write the "
            "offset into it",
            expected="a local time that exists",
            received="a skipped time",
        )
    choices = " or ".join(f"{shown}{format_offset(offset)}" for offset in (before, after))
    raise refuse(
        parameter,
        "ambiguous_time",
        f"{shown} is ambiguous in {zone}: the clocks show it twice; write {choices}",
        expected="a local time that happens once",
        received="a repeated time",
    )


def format_offset(offset: timedelta, separator: str = ":") -> str:
    """`+05:45`; with seconds only where there are some."""
    sign, rest = ("-", -offset) if offset < timedelta() else ("+", offset)
    minutes, seconds = divmod(rest.seconds, 60)
    tail = f"{separator}{seconds:02d}" if seconds else ""
    return f"{sign}{minutes // 60:02d}{separator}{minutes % 60:02d}{tail}"


def zone_name(zone: tzinfo | None) -> str:
    """How the zone is called in results."""
    return str(getattr(zone, "key", zone))


@functools.cache
def _names() -> dict[str, str]:
    """IANA names by their letter-case-free spelling."""
    from importlib import resources

    text = resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8")
    return {name.casefold(): name for name in text.split()}


def _unknown(name: str, parameter: str) -> InvalidParameters:
    near = _near_names(name) if len(name) <= 100 else []
    shown = name if len(name) <= 60 else f"{name[:60]}…"
    advice = (
        f"did you mean {' or '.join(near)}?"
        if near
        else (f"use an IANA name such as {', '.join(_EXAMPLES)}")
    )
    return refuse(
        parameter,
        "unknown_timezone",
        f"unknown timezone {shown!r}; {advice}",
        expected="an IANA time zone name",
        received=repr(shown),
    )


def _near_names(name: str) -> list[str]:
    from difflib import get_close_matches

    if zone := _ABBREVIATIONS.get(name.upper()):
        return [zone]
    wanted = re.sub(r"[\s_-]+", "_", name.strip()).casefold()
    names = _names()
    if wanted in names:
        return [names[wanted]]
    cities: dict[str, list[str]] = {}
    for folded, full in names.items():
        cities.setdefault(folded.rpartition("/")[2], []).append(full)
    # A region in front sorts current names before their old spellings.
    by_city = sorted(cities.get(wanted.rpartition("/")[2], []), key=lambda each: "/" not in each)
    close = [names[each] for each in get_close_matches(wanted, names, n=3, cutoff=0.75)]
    if not close and not by_city:
        for city in get_close_matches(wanted.rpartition("/")[2], cities, n=2, cutoff=0.8):
            close += cities[city]
    return list(dict.fromkeys([*by_city, *close]))[:3]
