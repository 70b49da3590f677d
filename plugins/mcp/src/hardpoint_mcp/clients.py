"""Point other programs at the gateway, and undo it. Each change shows what it does."""

from __future__ import annotations

import difflib
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from hardpoint import write_atomically
from hardpoint.errors import ConfigError
from hardpoint_mcp.edit import with_table, without_table
from hardpoint_mcp.foreign import parse

ENTRY: Final = "hardpoint"
_BACKUP: Final = ".before-hardpoint"


@attrs.frozen
class ClientProgram:
    """Where a program reads its servers from, and in which words."""

    path: Path
    table: tuple[str, ...] = ("mcpServers",)
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    form: str = "json"


def programs(folder: Path, home: Path | None = None, platform: str = sys.platform) -> Any:
    """The programs by name."""
    from hardpoint_mcp.foreign import places

    where: dict[str, Path] = {}
    for place in places(folder, home, platform):
        # The most general place is the last; a project's file is for the project.
        where[place.source] = place.path
    stdio = {"type": "stdio"}
    return {
        "claude-desktop": ClientProgram(where["claude-desktop"]),
        "claude-code": ClientProgram(where["claude-code"], extra=stdio),
        "claude-code-project": ClientProgram(folder / ".mcp.json", extra=stdio),
        "cursor": ClientProgram(where["cursor"]),
        "vscode": ClientProgram(where["vscode"], ("servers",), stdio),
        "vscode-project": ClientProgram(folder / ".vscode" / "mcp.json", ("servers",), stdio),
        "gemini": ClientProgram(where["gemini"]),
        "copilot": ClientProgram(where["copilot"], extra={"type": "local", "tools": ["*"]}),
        "codex": ClientProgram(where["codex"], ("mcp_servers",), form="toml"),
        "windsurf": ClientProgram(where["windsurf"]),
        "lm-studio": ClientProgram(where["lm-studio"]),
    }


@attrs.frozen
class Change:
    """What would be written."""

    path: Path
    before: str
    after: str

    @property
    def diff(self) -> Sequence[str]:
        lines = (self.before.splitlines(), self.after.splitlines())
        return list(difflib.unified_diff(*lines, str(self.path), str(self.path), lineterm=""))

    def write(self) -> Path | None:
        """Write it; where the former file was kept."""
        backup = None
        if self.path.exists():
            backup = self.path.with_name(self.path.name + _BACKUP)
            if not backup.exists():
                shutil.copy2(self.path, backup)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, self.after)
        return backup


def gateway_command(config_file: str | None = None) -> tuple[str, list[str]]:
    """How another program starts the gateway: by a path, since its PATH may be another one."""
    found = shutil.which("hardpoint")
    command, args = (found, []) if found else (sys.executable, ["-m", "hardpoint"])
    if config_file is not None:
        args += ["--config", str(Path(config_file).resolve())]
    return command, [*args, "serve"]


def install(program: ClientProgram, command: str, args: Sequence[str]) -> Change:
    """The change that points a program at the gateway.

    Raises:
        ConfigError: Its file cannot be read.
    """
    before = _text(program)
    entry = {**program.extra, "command": command, "args": list(args)}
    if program.form == "toml":
        return Change(program.path, before, with_table(before, (*program.table, ENTRY), entry))
    data = _data(program, before)
    inner: Any = data
    for name in program.table:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{program.path}: {name} is not an object; mend the file first")
    inner[ENTRY] = entry
    return Change(program.path, before, _as_json(data))


def uninstall(program: ClientProgram) -> Change:
    """The change that takes the gateway out again; everything else stays."""
    before = _text(program)
    if program.form == "toml":
        return Change(program.path, before, without_table(before, (*program.table, ENTRY)))
    data = _data(program, before)
    inner: Any = data
    for name in program.table:
        inner = inner.get(name) if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or ENTRY not in inner:
        return Change(program.path, before, before)
    del inner[ENTRY]
    return Change(program.path, before, _as_json(data))


def _text(program: ClientProgram) -> str:
    try:
        return program.path.read_text("utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{program.path}: {error}") from error


def _data(program: ClientProgram, text: str) -> dict[str, Any]:
    try:
        data = parse(text, program.path)
    except ValueError as error:
        raise ConfigError(f"{program.path}: {error}; mend the file first") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{program.path} does not hold an object; mend the file first")
    return data


def _as_json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
