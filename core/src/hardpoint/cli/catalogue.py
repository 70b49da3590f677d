"""What listings print, kept in a cache: for listing only, never for a call.

The cache belongs to one set of installed distributions, source files, configuration files,
variables and switches.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator

from hardpoint._version import VERSION
from hardpoint.cli.state import State
from hardpoint.folders import folder

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


def listed(state: State, provider: str | None = None) -> list[dict[str, Any]]:
    """The visible tools, short or in a provider's shape."""

    def make() -> list[dict[str, Any]]:
        runtime = state.runtime(in_memory=True)
        if provider is not None:
            definitions: list[dict[str, Any]] = runtime.definitions(provider)
            return definitions
        return [
            {
                "name": definition.name,
                "description": definition.description,
                "domain": definition.domain,
                "owner": definition.owner,
            }
            for definition in runtime.visible()
        ]

    return cached(state, provider or "short", make)


def tool_rows(listed: list[dict[str, Any]]) -> list[list[str]]:
    """The rows of `tools list`."""
    return [
        [t["name"], t["domain"], t["owner"] or "", first_sentence(t["description"])] for t in listed
    ]


def plugin_rows(records: list[dict[str, Any]]) -> list[list[str]]:
    """The rows of `plugins list`."""
    rows = []
    for record in records:
        source = f"{record['distribution'] or '?'} {record['version'] or ''}".strip()
        about = record["reason"] or tools_in_words(len(record["tools"]))
        rows.append([record["name"], record["status"], source, about])
    return rows


def first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]


def first_sentence(text: str) -> str:
    """What fits into a listing; `tools info` shows the whole."""
    line = first_line(text)
    end = line.find(". ")
    return line if end < 0 else line[: end + 1]


def tools_in_words(count: int) -> str:
    return "1 tool" if count == 1 else f"{count} tools"


def kept(state: State, shape: str) -> list[dict[str, Any]] | None:
    """A listing from the cache, where everything that it was made of is the same."""
    found: list[dict[str, Any]] | None = _read(_place(), _key(state)).get(shape)
    return found


def cached(
    state: State,
    shape: str,
    make: Callable[[], list[dict[str, Any]]],
    *,
    keep: Callable[[list[dict[str, Any]]], bool] = bool,
) -> list[dict[str, Any]]:
    """A listing from the cache while everything that it was made of is the same, else made anew.

    Args:
        state: The run.
        shape: The name of the listing.
        make: Makes it.
        keep: Whether what was made may be kept.
    """
    path, key = _place(), _key(state)
    known = _read(path, key)
    found: list[dict[str, Any]] | None = known.get(shape)
    if found is None:
        found = make()
        if keep(found):
            _write(path, key, known | {shape: found})
    return found


def _place() -> Path:
    return folder("cache") / "catalogue.json"


def _read(path: Any, key: str) -> dict[str, Any]:
    try:
        kept = json.loads(path.read_text("utf-8"))
        if kept["key"] != key or any(_stamp(file) != stamp for file, stamp in kept["files"]):
            return {}
        shapes: dict[str, Any] = kept["shapes"]
    except (KeyError, OSError, TypeError, ValueError):
        return {}
    return shapes


def _write(path: Any, key: str, shapes: dict[str, Any]) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    kept = {"key": key, "files": list(_source_files()), "shapes": shapes}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh.write_text(json.dumps(kept), "utf-8")
        fresh.replace(path)
    except OSError:
        pass  # without a cache the next listing is only slower


def _source_files() -> Iterator[tuple[str, object]]:
    """The files of every imported module that is not Python's own: an edited plugin is noticed."""
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and name.partition(".")[0] not in sys.stdlib_module_names:
            yield file, _stamp(file)


def _key(state: State) -> str:
    digest = hashlib.sha256()
    facts: list[object] = [VERSION, sys.version, os.getcwd()]
    facts += [state.config_file, state.plugin_switches]
    facts += sorted(item for item in os.environ.items() if item[0].startswith("HARDPOINT_"))
    facts += _stamps(state)
    digest.update(repr(facts).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _stamps(state: State) -> Iterator[tuple[str, object]]:
    """Size and time of everything that a listing depends on."""
    for place in sys.path:
        yield place, _stamp(place or ".")
        try:
            names = sorted(os.listdir(place or "."))
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                yield name, _stamp(os.path.join(place, name, "entry_points.txt"))
    files = [
        folder("config") / "config.toml",
        "/etc/hardpoint/config.toml",
        state.config_file or "",
    ]
    here = os.getcwd()
    while True:
        files += [
            os.path.join(here, ".hardpoint", "config.toml"),
            os.path.join(here, "pyproject.toml"),
        ]
        parent = os.path.dirname(here)
        if parent == here:
            break
        here = parent
    for file in files:
        yield str(file), _stamp(str(file))
    # What plugins keep there (modules, catalogues of servers) decides which tools they have.
    for place, folders, names in os.walk(folder("data")):
        folders.sort()
        for name in sorted(names):
            if not name.startswith("state.db"):
                yield name, _stamp(os.path.join(place, name))


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_mtime_ns, found.st_size, found.st_ino]
