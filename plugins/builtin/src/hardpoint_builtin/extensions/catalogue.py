"""Read one catalogue: an index, in JSON or TOML, of what can be installed. All of it is data.

Whoever writes a catalogue is a stranger. Names and addresses have one strict form, what a reader
cannot see is taken out of texts, and an entry that is wrong costs only itself. Where catalogues
come from is decided in `sources`, what installing means by the installer of each kind.
"""

from __future__ import annotations

import functools
import json
import tomllib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

import attrs

from hardpoint import compile_document
from hardpoint.errors import ConfigError, HardpointError
from hardpoint.interfaces import CatalogueEntry
from hardpoint.net import parse_url

MAX_ENTRIES: Final = 10_000
PIP_PLUGIN: Final = "pip_plugin"
"""The kind that is trusted code: the tools name it, only a person installs it."""

_TEXT: Final = {"type": "string", "maxLength": 2000}
_WORD: Final = {"type": "string", "maxLength": 200}
_COMMON: Final[Mapping[str, Any]] = {
    "name": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z"},
    "kind": {"type": "string", "pattern": r"^[a-z][a-z_]{0,40}\Z"},
    "description": {**_TEXT, "default": ""},
    "version": {"type": "string", "pattern": r"^[A-Za-z0-9.+!_-]{0,64}\Z", "default": ""},
    "homepage": _TEXT,
    "keywords": {"type": "array", "items": _WORD, "maxItems": 30},
}
_SHA256: Final = {"type": "string", "pattern": r"^(sha256:)?[0-9a-fA-F]{64}\Z"}
_SOURCE: Final = {"type": "string", "minLength": 1, "maxLength": 2000}
_ARTIFACT: Final = {"source": _SOURCE, "sha256": _SHA256}
_KINDS: Final[Mapping[str, tuple[Mapping[str, Any], Sequence[str]]]] = {
    "wasm_tool": (_ARTIFACT, ("source", "sha256")),
    "mcp_server": (
        {
            **_ARTIFACT,
            "url": {"type": "string", "maxLength": 2000},
            "tools_sha256": _SHA256,
            "requirements": {"type": "array", "items": _TEXT, "maxItems": 500},
            "command": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"},
            "args": {"type": "array", "items": _TEXT, "maxItems": 100},
            "env": {"type": "object", "additionalProperties": _TEXT},
        },
        (),
    ),
    PIP_PLUGIN: (
        {"package": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z"}},
        ("package",),
    ),
}
"""What an entry of each kind says beside the common things, and what it must say."""

_INDEX: Final = {
    "type": "object",
    "properties": {
        "version": {"const": 1},
        "name": _WORD,
        "entries": {"type": "array", "maxItems": MAX_ENTRIES},
    },
    "required": ["version", "entries"],
    "additionalProperties": False,
}


@attrs.frozen
class Catalogue:
    """The entries that can be used, and what was wrong with the others."""

    entries: Sequence[CatalogueEntry] = ()
    problems: Sequence[str] = ()


def parse(content: bytes, location: str) -> Catalogue:
    """Read a catalogue.

    Args:
        content: The document.
        location: Its address or path; relative sources are meant from there.

    Raises:
        ConfigError: It is no catalogue at all.
    """
    index = _index()(_load(content, location), location)
    entries: dict[tuple[str, str], CatalogueEntry] = {}
    problems: list[str] = []
    for number, raw in enumerate(index["entries"]):
        try:
            entry = _entry(raw, location, f"{location}: entries.{number}")
        except HardpointError as error:
            problems.append(error.message)
            continue
        key = (entry.kind, entry.name)
        if key in entries:
            problems.append(f"{location}: a second {entry.kind} {entry.name!r} is left out")
        else:
            entries[key] = entry
    return Catalogue(tuple(entries.values()), tuple(problems))


def _load(content: bytes, location: str) -> Any:
    try:
        text = content.decode("utf-8-sig")
        if location.partition("?")[0].endswith(".toml"):
            return tomllib.loads(text)
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{location} is not a catalogue: {error}") from error


def _entry(raw: Any, location: str, where: str) -> CatalogueEntry:
    kind = raw.get("kind") if isinstance(raw, dict) else None
    read: dict[str, Any] = _check(kind if isinstance(kind, str) else "")(raw, where)
    keywords = [visible(word) for word in read.pop("keywords", ())]
    known = {key: read.pop(key, "") for key in ("name", "kind", "version", "description")}
    sha256 = read.pop("sha256", None)
    source = read.pop("source", "")
    if "homepage" in read:
        read["homepage"] = visible(read["homepage"])
    if keywords:
        read["keywords"] = keywords
    known["description"] = visible(known["description"])
    return CatalogueEntry(
        **known,
        source=_resolve(source, location, where) if source else "",
        sha256=None if sha256 is None else sha256.lower().removeprefix("sha256:"),
        extra=read,
        catalogue=location,
    )


def _resolve(source: str, location: str, where: str) -> str:
    """The source as an https address or, from a catalogue on this machine, a path.

    Raises:
        HardpointError: A catalogue from the network names something else than an https address.
    """
    if not location.startswith("https://") and "://" not in source:
        return str(Path(location).parent / Path(source).expanduser())
    address = urljoin(location, source) if location.startswith("https://") else source
    if not address.startswith("https://"):
        raise ConfigError(f"{where}.source: {source!r} is not an https address")
    parse_url(address)
    return address


def visible(text: str) -> str:
    """Text on one line without what a reader cannot see."""
    kept = (" " if c.isspace() else c for c in text)
    cleaned = "".join(c for c in kept if c == " " or unicodedata.category(c)[0] != "C")
    return " ".join(cleaned.split())


@functools.cache
def _index() -> Callable[[Any, str], Any]:
    return compile_document(_INDEX)


@functools.lru_cache(maxsize=8)
def _check(kind: str) -> Callable[[Any, str], Any]:
    # Kinds of other plugins carry what they like: their installers read it.
    own, required = _KINDS.get(kind, (_ARTIFACT, ()))
    schema = {
        "type": "object",
        "properties": {**_COMMON, **own},
        "required": ["name", "kind", *required],
        "additionalProperties": kind not in _KINDS and kind != "",
    }
    return compile_document(schema)
