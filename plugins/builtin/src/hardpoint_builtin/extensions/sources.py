"""The configured catalogues: files read when asked, addresses fetched and remembered.

What was fetched last is kept in the store, so that an install finds what a search has shown, and
nothing is fetched before anybody was asked. A pinned catalogue counts only with its hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from hardpoint.errors import ConfigError, ExternalService, HardpointError, NotAuthorized
from hardpoint.interfaces import CatalogueEntry
from hardpoint_builtin.config import CatalogueSource
from hardpoint_builtin.extensions.catalogue import Catalogue, parse

MAX_BYTES: Final = 4 * 1024 * 1024
FRESH_SECONDS: Final = 300.0
_MIGRATIONS: Final = (
    """CREATE TABLE catalogues_fetched (
        location TEXT NOT NULL PRIMARY KEY, fetched REAL NOT NULL, content BLOB NOT NULL
    )""",
)


@attrs.frozen
class Found:
    """What the catalogues say together."""

    entries: Sequence[CatalogueEntry] = ()
    problems: Sequence[str] = ()
    searched_online: bool = False


def configured(services: Any) -> Sequence[CatalogueSource]:
    """The catalogues of `[plugin.builtin] catalogues`."""
    table = services.config.plugin.get("builtin", {})
    return [
        CatalogueSource(given) if isinstance(given, str) else CatalogueSource(**given)
        for given in table.get("catalogues", ())
    ]


def known(services: Any) -> Found:
    """The entries of all catalogues as far as this machine has them; asks no network."""
    return _together(_read(services, source) for source in configured(services))


async def refresh(services: Any) -> Found:
    """The entries of all catalogues; those of addresses are fetched when they are not fresh."""
    import asyncio

    remote = [source for source in configured(services) if source.is_remote]
    results = await asyncio.gather(
        *(_fetch(services, source) for source in remote), return_exceptions=True
    )
    problems = []
    for result in results:
        if isinstance(result, HardpointError):
            problems.append(result.message)
        elif isinstance(result, BaseException):
            raise result
    found = await asyncio.to_thread(known, services)
    # What could not be fetched now is still there from before, or was said to be missing.
    said = [text for text in found.problems if not problems or "was not fetched yet" not in text]
    return Found(found.entries, (*problems, *said), searched_online=bool(remote))


def _together(parts: Iterator[Catalogue]) -> Found:
    entries: dict[tuple[str, str], CatalogueEntry] = {}
    problems: list[str] = []
    for part in parts:
        problems += part.problems
        for entry in part.entries:
            # The first catalogue that has a name wins, as its order says.
            entries.setdefault((entry.kind, entry.name), entry)
    return Found(tuple(entries.values()), tuple(problems))


def _read(services: Any, source: CatalogueSource) -> Catalogue:
    try:
        content = _remembered(services, source) if source.is_remote else _file(source.location)
        _check(content, source)
        place = source.location if source.is_remote else str(_path(source.location))
        return parse(content, place)
    except HardpointError as error:
        return Catalogue(problems=(error.message,))


def _path(location: str) -> Path:
    return Path(location).expanduser()


def _file(location: str) -> bytes:
    try:
        with _path(location).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"the catalogue {location}: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise ConfigError(f"the catalogue {location} has more than {MAX_BYTES} bytes")
    return content


def _remembered(services: Any, source: CatalogueSource) -> bytes:
    rows = _tables(services).query(
        "SELECT content FROM catalogues_fetched WHERE location = ?", (source.location,)
    )
    if not rows:
        raise ConfigError(f"the catalogue {source.location} was not fetched yet; search first")
    return bytes(rows[0]["content"])


async def _fetch(services: Any, source: CatalogueSource) -> None:
    tables = _tables(services)
    rows = await tables.run(
        tables.query,
        "SELECT fetched FROM catalogues_fetched WHERE location = ?",
        (source.location,),
    )
    now = services.clock.now()
    if rows and 0 <= now - rows[0]["fetched"] < FRESH_SECONDS:
        return
    async with services.http() as client:
        answer = await client.request("GET", source.location, follow=True, max_bytes=MAX_BYTES)
    if answer.status != 200:
        raise ExternalService(f"{source.location} answered with status {answer.status}")
    if answer.truncated:
        raise ExternalService(f"{source.location} gives more than {MAX_BYTES} bytes")
    _check(answer.body, source)
    parse(answer.body, source.location)  # what is no catalogue does not replace one that is
    await tables.run(
        tables.execute,
        "INSERT INTO catalogues_fetched (location, fetched, content) VALUES (?, ?, ?)"
        " ON CONFLICT (location) DO UPDATE"
        " SET fetched = excluded.fetched, content = excluded.content",
        (source.location, now, answer.body),
    )


def _check(content: bytes, source: CatalogueSource) -> None:
    found = hashlib.sha256(content).hexdigest()
    if source.sha256 is not None and found != source.sha256:
        raise NotAuthorized(
            f"the catalogue {source.location} is not the one that [plugin.builtin] pins:"
            f" its SHA-256 is {found}"
        )


def _tables(services: Any) -> Any:
    return services.store("catalogues", _MIGRATIONS)


def matches(found: Found, name: str, kind: str | None = None) -> Sequence[CatalogueEntry]:
    """The entries of a name."""
    return [e for e in found.entries if e.name == name and kind in (None, e.kind)]


def rank(entries: Sequence[CatalogueEntry], query: str) -> Sequence[CatalogueEntry]:
    """The entries that fit a query, the best first; all of them for an empty one."""
    wanted = query.casefold().split()
    scored = [(_score(entry, wanted), entry) for entry in entries]
    fitting = [pair for pair in scored if pair[0] > 0 or not wanted]
    return [entry for _, entry in sorted(fitting, key=lambda pair: (-pair[0], pair[1].name))]


def _score(entry: CatalogueEntry, wanted: Sequence[str]) -> int:
    name = entry.name.casefold()
    if name in ("-".join(wanted), "_".join(wanted)):
        return 1000
    told: Mapping[str, Any] = entry.extra
    keywords = {str(word).casefold() for word in told.get("keywords", ())}
    description = entry.description.casefold()
    score = 0
    for word in wanted:
        score += 50 * (word in name) + 20 * (word in keywords) + 5 * (word in description)
    return score
