"""Build tools from source with toolchains that come from package registries.

Each language has one function from a project folder to a module. A missing toolchain is an error
that says how to install it; nothing is downloaded here.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hardpoint.errors import ConfigError, HardpointError

WORLD = "sandboxed-tool"
_ZIG_PIP = "pip install 'hardpoint-wasm[build-native]'"
_TIMEOUT = 900


def build_wat(folder: Path, target: Path) -> None:
    from wasmtime import WasmtimeError, wat2wasm

    source = folder / "tool.wat"
    try:
        target.write_bytes(wat2wasm(source.read_text(encoding="utf-8")))
    except WasmtimeError as error:
        raise HardpointError(f"{source}: {str(error).strip()}") from error


def build_python(folder: Path, target: Path) -> None:
    program = _program("componentize-py", "pip install 'hardpoint-wasm[build-python]'")
    paths = ["-p", "."]
    if (folder / "deps").is_dir():
        paths += ["-p", "deps"]
    _run([program, "-q", "-d", "wit", "-w", WORLD, "componentize", *paths, "app",
          "-o", str(target)], folder)  # fmt: skip


def build_js(folder: Path, target: Path) -> None:
    hint = "npm install componentize-qjs (in the tool's folder, or in one above)"
    program = next(
        (
            str(found)
            for parent in (folder, *folder.parents)
            if (found := parent / "node_modules/.bin/componentize-qjs").exists()
        ),
        None,
    ) or _program("componentize-qjs", hint)
    _run([program, "--wit", "wit", "--js", "tool.js", "--world", WORLD, "--sync",
          "-o", str(target)], folder)  # fmt: skip


def build_c(folder: Path, target: Path) -> None:
    core = target.with_suffix(".core.wasm")
    _run([*_zig(), "cc", "-target", "wasm32-freestanding", "-Os", "-nostdlib",
          "-Wl,--no-entry", "-Wl,-s", "-Wl,-z,stack-size=65536", "tool.c",
          "-o", str(core)], folder)  # fmt: skip
    make_component(folder, core, target)


def build_rust(folder: Path, target: Path) -> None:
    core = target.with_suffix(".core.wasm")
    _run([_rustc(), "--edition", "2021", "--target", "wasm32-unknown-unknown",
          "--crate-type", "cdylib", "-O", "-C", "panic=abort", "-C", "strip=symbols", "tool.rs",
          "-o", str(core)], folder)  # fmt: skip
    make_component(folder, core, target)


def build_zig(folder: Path, target: Path) -> None:
    core = target.with_suffix(".core.wasm")
    _run([*_zig(), "build-exe", "tool.zig", "-target", "wasm32-freestanding", "-fno-entry",
          "-rdynamic", "-O", "ReleaseSmall", f"-femit-bin={core}"], folder)  # fmt: skip
    make_component(folder, core, target)


BUILDERS: Mapping[str, tuple[str, Callable[[Path, Path], None]]] = {
    "wat": ("tool.wat", build_wat),
    "python": ("app.py", build_python),
    "js": ("tool.js", build_js),
    "c": ("tool.c", build_c),
    "rust": ("tool.rs", build_rust),
    "zig": ("tool.zig", build_zig),
}
"""By language: the file that shows the language, and how it is built."""


def make_component(folder: Path, core: Path, target: Path) -> None:
    """Turn a core module with the world's exports into a component."""
    tools = _program("wasm-tools", _ZIG_PIP)
    embedded = core.with_suffix(".embedded.wasm")
    try:
        _run([tools, "component", "embed", "wit", "-w", WORLD, str(core), "-o", str(embedded)],
             folder)  # fmt: skip
        _run([tools, "component", "new", str(embedded), "-o", str(target)], folder)
    finally:
        for file in (core, embedded):
            file.unlink(missing_ok=True)


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(
        list(command),
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_TIMEOUT,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-3000:]
        raise HardpointError(f"{Path(command[0]).name} failed:\n{said}")


def _program(name: str, install: str) -> str:
    """A program beside this Python, or on the path."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ConfigError(f"{name} is not installed", hint=install)
    return found


def _zig() -> list[str]:
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang"]
    return [_program("zig", _ZIG_PIP)]


def _rustc() -> str:
    """A Rust compiler that has the target: often one of several on the path."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/bin"]
    candidates = [os.environ.get("RUSTC", ""), *(str(Path(f, "rustc")) for f in folders if f)]
    for candidate in filter(os.path.exists, candidates):
        asked = subprocess.run(
            [candidate, "--print", "sysroot"], capture_output=True, text=True, check=False
        )
        target = Path(asked.stdout.strip(), "lib/rustlib/wasm32-unknown-unknown")
        if asked.returncode == 0 and target.is_dir():
            return candidate
    raise ConfigError(
        "no Rust compiler with the target wasm32-unknown-unknown is installed",
        hint="rustup target add wasm32-unknown-unknown, or on Debian:"
        " apt-get install rustc libstd-rust-dev-wasm32 lld",
    )
