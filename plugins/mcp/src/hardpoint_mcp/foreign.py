"""The servers that other programs are configured with. Their files are read, and only read.

A place is a file and the way to its servers; an entry that cannot be used is told and costs itself.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import attrs

from hardpoint.errors import ConfigError
from hardpoint_mcp.config import ServerConfig, check_server_name


@attrs.frozen
class Found:
    """One server in somebody's file."""

    source: str
    """The program: `claude-desktop`, `cursor` and so on."""
    path: Path
    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    """What our own table for it would hold."""
    notes: tuple[str, ...] = ()
    """What could not be taken over."""
    problem: str | None = None
    """Why it cannot be used at all."""

    @property
    def qualified(self) -> str:
        return f"{self.source}:{self.name}"

    def config(self) -> ServerConfig:
        return ServerConfig(**self.settings)


@attrs.frozen
class Place:
    """Where a program keeps its servers."""

    source: str
    path: Path
    read: Callable[[Any, Path], Iterable[tuple[str, Any]]]
    """The entries in the parsed file."""


# the places ------------------------------------------------------------------------------------


def places(folder: Path, home: Path | None = None, platform: str = sys.platform) -> list[Place]:
    """Every place for a project folder, the more specific before the more general."""
    home = home or Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    apps = {
        "darwin": home / "Library" / "Application Support",
        "win32": Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming"),
    }.get(platform, config)
    return [
        Place("claude-code", folder / ".mcp.json", _servers_at("mcpServers")),
        *_upwards("cursor", folder, ".cursor/mcp.json", _servers_at("mcpServers")),
        Place("vscode", folder / ".vscode" / "mcp.json", _vscode),
        Place("gemini", folder / ".gemini" / "settings.json", _servers_at("mcpServers")),
        Place("mcp-json", folder / "mcp.json", _any_spelling),
        Place("claude-desktop", apps / "Claude" / "claude_desktop_config.json",
              _servers_at("mcpServers")),
        Place("claude-code", home / ".claude.json", lambda data, path: _claude(data, folder)),
        Place("cursor", home / ".cursor" / "mcp.json", _servers_at("mcpServers")),
        Place("vscode", apps / "Code" / "User" / "mcp.json", _vscode),
        Place("gemini", home / ".gemini" / "settings.json", _servers_at("mcpServers")),
        Place("copilot", home / ".copilot" / "mcp-config.json", _servers_at("mcpServers")),
        Place("codex", home / ".codex" / "config.toml", _servers_at("mcp_servers")),
        Place("goose", config / "goose" / "config.yaml", _goose),
        Place("windsurf", home / ".codeium" / "windsurf" / "mcp_config.json",
              _servers_at("mcpServers")),
        Place("lm-studio", home / ".lmstudio" / "mcp.json", _servers_at("mcpServers")),
    ]  # fmt: skip


def _upwards(source: str, folder: Path, name: str, read: Any) -> Iterator[Place]:
    for parent in (folder, *folder.parents):
        yield Place(source, parent / name, read)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _servers_at(key: str) -> Callable[[Any, Path], Iterable[tuple[str, Any]]]:
    return lambda data, path: _mapping(_mapping(data).get(key)).items()


def _any_spelling(data: Any, path: Path) -> Iterable[tuple[str, Any]]:
    data = _mapping(data)
    return _mapping(data.get("mcpServers", data.get("servers"))).items()


def _claude(data: Any, folder: Path) -> Iterable[tuple[str, Any]]:
    """The global servers, and those of this project, which win."""
    data = _mapping(data)
    project = _mapping(_mapping(data.get("projects")).get(str(folder)))
    merged = {**_mapping(data.get("mcpServers")), **_mapping(project.get("mcpServers"))}
    return merged.items()


def _vscode(data: Any, path: Path) -> Iterable[tuple[str, Any]]:
    data = _mapping(data)
    inputs = {
        str(one.get("id")): bool(one.get("password"))
        for one in data.get("inputs") or ()
        if isinstance(one, Mapping)
    }
    folder = path.parent.parent
    for name, entry in _mapping(data.get("servers")).items():
        yield name, _replace(entry, lambda text: _vscode_text(text, inputs, folder))


_VSCODE: Final = re.compile(r"\$\{(input|env):([^}]+)\}|\$\{(workspaceFolder)\}")


def _vscode_text(text: str, inputs: Mapping[str, bool], folder: Path) -> str:
    def one(match: re.Match[str]) -> str:
        kind, name, workspace = match.groups()
        if workspace:
            return str(folder)
        if kind == "env":
            return f"${{{name}}}"
        if inputs.get(name):
            return f"secret:{name}"
        return "${" + re.sub(r"\W", "_", name).upper() + "}"

    return _VSCODE.sub(one, text)


def _replace(node: Any, change: Callable[[str], str]) -> Any:
    if isinstance(node, str):
        return change(node)
    if isinstance(node, Mapping):
        return {key: _replace(value, change) for key, value in node.items()}
    if isinstance(node, list):
        return [_replace(value, change) for value in node]
    return node


def _goose(data: Any, path: Path) -> Iterable[tuple[str, Any]]:
    for name, entry in _mapping(_mapping(data).get("extensions")).items():
        kind = _mapping(entry).get("type")
        if kind in ("stdio", "sse", "streamable_http"):
            yield name, entry


# reading ---------------------------------------------------------------------------------------


def discover(
    folder: Path | None = None, home: Path | None = None, platform: str = sys.platform
) -> list[Found]:
    """Every server that any program knows, in a stable order."""
    found: list[Found] = []
    seen: set[tuple[str, str, Path]] = set()
    for place in places((folder or Path.cwd()).resolve(), home, platform):
        for one in read(place):
            key = (one.source, one.name, one.path)
            if key not in seen:
                seen.add(key)
                found.append(one)
    return found


def read(place: Place) -> Iterator[Found]:
    """The servers of one place; nothing where there is no file."""
    try:
        text = place.path.read_text("utf-8-sig")
    except (OSError, UnicodeError) as error:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            yield Found(place.source, place.path, "", problem=str(error))
        return
    try:
        data = parse(text, place.path)
        entries = list(place.read(data, place.path))
    except ValueError as error:
        yield Found(place.source, place.path, "", problem=f"cannot be read: {error}")
        return
    for name, entry in entries:
        yield translate(place, str(name), entry)


def read_file(path: Path, source: str = "file") -> list[Found]:
    """The servers of a file in any of the known forms."""

    def anything(data: Any, path: Path) -> Iterable[tuple[str, Any]]:
        data = _mapping(data)
        for key, how in (
            ("servers", _vscode),
            ("mcpServers", _servers_at("mcpServers")),
            ("mcp_servers", _servers_at("mcp_servers")),
            ("extensions", _goose),
        ):
            if key in data:
                return how(data, path)
        return ()

    if not path.exists():
        raise ConfigError(f"there is no file {str(path)!r}")
    return list(read(Place(source, path, anything)))


def parse(text: str, path: Path) -> Any:
    """JSON (with comments), TOML or YAML, by the file's name.

    Raises:
        ValueError: It is none of them.
    """
    if path.suffix == ".toml":
        return tomllib.loads(text)
    if path.suffix in (".yaml", ".yml"):
        yaml: Any = import_module("yaml")

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(" ".join(str(error).split())) from error
    if not text.strip():
        return {}
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(without_comments(text))


_JSONC: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


def without_comments(text: str) -> str:
    """JSON as editors write it, without comments and without commas before a closing bracket."""
    stripped = _JSONC.sub(lambda m: m[0] if m[0].startswith('"') else "", text)
    return _JSONC.sub(lambda m: m[0] if m[0].startswith('"') else "", stripped)


# translating -----------------------------------------------------------------------------------

_STDIO: Final = frozenset(("stdio", "local"))
_SSE: Final = frozenset(("sse",))
_HTTP: Final = frozenset(("http", "streamable-http", "streamable_http", "streamablehttp", "remote"))
_KNOWN: Final = frozenset(
    "command cmd args env envs environment cwd type transport url httpUrl serverUrl uri headers"
    " http_headers disabled enabled description timeout tool_timeout_sec startup_timeout_sec"
    " startup_timeout_ms includeTools excludeTools enabled_tools disabled_tools"
    " bearer_token_env_var env_http_headers name display_name bundled available_tools tools".split()
)


def translate(place: Place, name: str, entry: Any) -> Found:
    """One foreign entry in our words."""
    base = Found(place.source, place.path, name)
    if not isinstance(entry, Mapping):
        return attrs.evolve(base, problem="it is not a table")
    settings: dict[str, Any] = {}
    notes: list[str] = []
    try:
        check_server_name(name)
        _connection(entry, settings)
        _headers(entry, settings)
        _options(entry, settings, notes)
        ServerConfig(**settings)
    except (TypeError, ValueError) as error:
        return attrs.evolve(base, problem=str(error))
    left = sorted(set(entry) - _KNOWN - {"envFile"})
    if left:
        notes.append(f"not taken over: {', '.join(left)}")
    return attrs.evolve(base, settings=settings, notes=tuple(notes))


def _connection(entry: Mapping[str, Any], settings: dict[str, Any]) -> None:
    kind = str(entry.get("type") or entry.get("transport") or "").lower()
    url = next((entry[k] for k in ("url", "httpUrl", "serverUrl", "uri") if entry.get(k)), None)
    command = entry.get("command") or entry.get("cmd")
    if isinstance(command, list) and command:
        settings["args"] = [str(word) for word in command[1:]]
        command = command[0]
    if url is not None and (command is None or kind in _HTTP | _SSE):
        settings["url"] = str(url)
        if kind in _SSE:
            settings["transport"] = "sse"
        elif kind in _HTTP or "httpUrl" in entry:
            settings["transport"] = "http"
        return
    if command is None:
        raise ValueError("it has neither a command nor an address")
    if kind and kind not in _STDIO:
        raise ValueError(f"its type {kind!r} does not go with a command")
    settings["command"] = str(command)
    args = entry.get("args")
    if isinstance(args, list):
        settings["args"] = [*settings.get("args", []), *(str(word) for word in args)]
    env = entry.get("env") or entry.get("envs") or entry.get("environment")
    if isinstance(env, Mapping):
        settings["env"] = {str(k): str(v) for k, v in env.items() if v is not None}
    if entry.get("cwd"):
        settings["cwd"] = str(entry["cwd"])


def _headers(entry: Mapping[str, Any], settings: dict[str, Any]) -> None:
    if "url" not in settings:
        return
    given = {**_mapping(entry.get("http_headers")), **_mapping(entry.get("headers"))}
    headers = {str(k): str(v) for k, v in given.items()}
    for header, variable in _mapping(entry.get("env_http_headers")).items():
        headers[str(header)] = f"${{{variable}}}"
    if entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{entry['bearer_token_env_var']}}}"
    if headers:
        settings["headers"] = headers


def _options(entry: Mapping[str, Any], settings: dict[str, Any], notes: list[str]) -> None:
    if entry.get("disabled") is True or entry.get("enabled") is False:
        settings["enabled"] = False
    if isinstance(entry.get("description"), str):
        settings["description"] = entry["description"]
    for ours, theirs in (
        ("include", ("includeTools", "enabled_tools", "available_tools", "tools")),
        ("exclude", ("excludeTools", "disabled_tools")),
    ):
        for key in theirs:
            if isinstance(entry.get(key), list) and entry[key]:
                settings[ours] = [str(name) for name in entry[key]]
    seconds = entry.get("tool_timeout_sec", entry.get("timeout"))
    if isinstance(seconds, int | float) and seconds > 0 and not isinstance(seconds, bool):
        # Nobody waits a quarter of an hour for a tool: such numbers are milliseconds.
        settings["timeout"] = seconds / 1000 if seconds >= 1000 else float(seconds)
    startup = entry.get("startup_timeout_sec")
    if startup is None and isinstance(entry.get("startup_timeout_ms"), int | float):
        startup = entry["startup_timeout_ms"] / 1000
    if isinstance(startup, int | float) and startup > 0:
        settings["startup_timeout"] = float(startup)
    if entry.get("envFile"):
        notes.append("the variables in its envFile are not taken over; name them in env")
    if entry.get("trust") is True:
        notes.append("its trust is not taken over; set trusted = true yourself if you mean it")


# choosing --------------------------------------------------------------------------------------


def choose(found: Sequence[Found], name: str) -> Found:
    """The server of a name, or of `source:name` where several programs have it.

    Raises:
        ConfigError: There is none, or more than one.
    """
    matches = [one for one in found if name in (one.qualified, one.name) and one.name]
    usable = [one for one in matches if one.problem is None]
    if not matches:
        import difflib

        near = difflib.get_close_matches(name, [one.name for one in found if one.name], n=3)
        raise ConfigError(
            f"no program has a server {name!r}" + (f"; there is {', '.join(near)}" if near else ""),
            hint="see `hardpoint mcp discover`",
        )
    if not usable:
        raise ConfigError(f"{matches[0].qualified} cannot be used: {matches[0].problem}")
    different = {json.dumps(one.settings, sort_keys=True) for one in usable}
    if len(different) > 1:
        choices = ", ".join(dict.fromkeys(one.qualified for one in usable))
        where = ", ".join(str(one.path) for one in usable)
        raise ConfigError(
            f"several servers are named {name!r}, and they differ ({where})",
            hint=f"say which: {choices}; or give a file: --file PATH",
        )
    return usable[0]
