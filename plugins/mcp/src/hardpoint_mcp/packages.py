"""Put one server's package into an environment of its own: wheels with known hashes, nothing else.

Every distribution is named with version and hash, dependencies included, and only wheels are taken:
installing them runs none of their code.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from hardpoint.errors import ConfigError, ExecutionFailed

MAX_WHEEL: Final = 100 * 1024 * 1024
_WHEEL: Final = re.compile(r"[A-Za-z0-9_.]+-[A-Za-z0-9_.+!]+(-[A-Za-z0-9_.]+){3,4}\.whl")
_REQUIREMENT: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.+!_-]+( +--hash=sha256:[0-9a-f]{64})+"
)
_TAIL: Final = 1500


def wheel_name(source: str) -> str:
    """The file name of a wheel's address or path.

    Raises:
        ConfigError: It is no wheel.
    """
    path = unquote(urlsplit(source).path) if "://" in source else source
    name = path.replace("\\", "/").rpartition("/")[2]
    if not _WHEEL.fullmatch(name):
        raise ConfigError(f"{source!r} is not a wheel; a server's package is one .whl file")
    return name


def check_requirements(lines: Sequence[str]) -> None:
    """Raises:
    ConfigError: A line is not `name==version --hash=sha256:…`.
    """
    for line in lines:
        if not _REQUIREMENT.fullmatch(line):
            raise ConfigError(
                f"requirement {line!r} is not pinned", hint="write NAME==VERSION --hash=sha256:HASH"
            )


async def make_environment(
    folder: Path, wheel: Path, sha256: str, requirements: Sequence[str]
) -> Path:
    """An environment with a wheel and exactly these requirements; its folder of programs.

    Raises:
        ConfigError: A requirement is not pinned.
        ExecutionFailed: It could not be made; the message holds what was said.
    """
    check_requirements(requirements)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    lines = [f"{wheel.as_uri()} --hash=sha256:{sha256}", *requirements]
    pinned = wheel.with_suffix(".txt")
    pinned.write_text("\n".join(lines) + "\n", encoding="utf-8")
    await _run([sys.executable, "-I", "-m", "venv", str(folder)])
    python = str(programs / Path("python").with_suffix(".exe" if os.name == "nt" else ""))
    quietly = ["--quiet", "--disable-pip-version-check", "--no-input"]
    strictly = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-compile"]
    await _run([python, "-I", "-m", "pip", "install", *quietly, *strictly, "-r", str(pinned)])
    return programs


def find_program(programs: Path, name: str | None, package: str) -> Path:
    """A program of an environment; the only one when none is named.

    Raises:
        ConfigError: There is none of this name.
    """
    there = {p.stem if os.name == "nt" else p.name: p for p in programs.iterdir()}
    own = {n: p for n, p in there.items() if not re.match(r"(?i)python|pip|activate", n)}
    wanted = name or package.partition("-")[0].replace("_", "-")
    if name is None and len(own) == 1:
        return next(iter(own.values()))
    if wanted not in own:
        known = ", ".join(sorted(own)) or "none"
        raise ConfigError(f"the package has no program {wanted!r}; it has {known}")
    return own[wanted]


async def _run(command: Sequence[str]) -> None:
    # Our own settings and secrets are nothing for other programs.
    env = {name: v for name, v in os.environ.items() if not name.startswith("HARDPOINT_")}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=env | {"HARDPOINT_INSIDE_CALL": "1"},
        start_new_session=True,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, AttributeError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        text = said.decode("utf-8", "replace").strip()[-_TAIL:]
        raise ExecutionFailed(f"{' '.join(command[2:4])} failed: {text or process.returncode}")
