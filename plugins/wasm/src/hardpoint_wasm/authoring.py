"""Start, build, test and try tools of your own: `hardpoint wasm new`, `build`, `test`, `run`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from hardpoint import HardpointError, JobContext, ToolOutput
from hardpoint.errors import ConfigError
from hardpoint_wasm import sources
from hardpoint_wasm.examples import Result, read_examples, run_example
from hardpoint_wasm.install import granted, inspect, make_runtime, make_tools
from hardpoint_wasm.names import check_name
from hardpoint_wasm.settings import WasmConfig
from hardpoint_wasm.store import Store
from hardpoint_wasm.tool import WasmTool
from hardpoint_wasm.toolchains import BUILDERS

_EXAMPLES: Mapping[str, Any] = {
    "greets": {"params": {"who": "Ada"}, "expect": {"greeting": "Hello Ada."}},
    "says what is wrong": {"params": {}, "expect_error": "who"},
}
_WAT_EXAMPLES: Mapping[str, Any] = {
    "says it back": {"params": {"text": "x"}, "expect": {"you_sent": {"text": "x"}}},
}


def create(name: str, language: str, parent: Path | None = None) -> Path:
    """Make a folder with a tool that builds and passes its test.

    Raises:
        HardpointError: The folder exists, or the name cannot be a tool's.
    """
    check_name(name)
    folder = (parent or Path.cwd()) / name
    if folder.exists():
        raise HardpointError(f"{folder} exists already", hint="choose another name")
    templates = resources.files("hardpoint_wasm") / "templates"
    (folder / "wit").mkdir(parents=True)
    for part in (templates / language, templates / "wit"):
        into = folder / "wit" if part.name == "wit" else folder
        for file in part.iterdir():
            text = file.read_text(encoding="utf-8")
            slug = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
            into.joinpath(file.name.removesuffix(".in")).write_text(
                text.replace("@NAME@", name).replace("@SLUG@", slug), encoding="utf-8"
            )
    capabilities = {"description": "Greet a person.", "version": "0.1.0", "wit_version": "0.3.0"}
    if language == "wat":
        capabilities["description"] = "Say back what it was given."
    examples = _WAT_EXAMPLES if language == "wat" else _EXAMPLES
    _write_json(folder / f"{name}{sources.SIDECAR}", capabilities)
    _write_json(folder / "tests.json", [{"name": key} | value for key, value in examples.items()])
    (folder / ".gitignore").write_text("build/\nnode_modules/\n", encoding="utf-8")
    return folder


def build(folder: str | Path) -> Path:
    """Build the tool of a folder into `build/NAME.wasm`, with its capabilities file beside it.

    Raises:
        HardpointError: The source does not build, or its toolchain is missing.
    """
    folder = Path(folder).resolve()
    name, sidecar = _project(folder)
    found = [key for key, (file, _) in BUILDERS.items() if (folder / file).exists()]
    if len(found) != 1:
        files = ", ".join(file for file, _ in BUILDERS.values())
        raise ConfigError(f"{folder} must hold exactly one of {files}")
    target = folder / "build" / f"{name}.wasm"
    target.parent.mkdir(exist_ok=True)
    BUILDERS[found[0]][1](folder, target)
    target.with_name(sidecar.name).write_bytes(sidecar.read_bytes())
    return target


async def check(folder: str | Path, config: WasmConfig | None = None) -> Sequence[Result]:
    """Run the examples of a built tool.

    Raises:
        ConfigError: It was not built, or `tests.json` cannot be read.
    """
    folder = Path(folder).resolve()
    examples = read_examples(folder)
    async with _Opened(folder / "build", config or WasmConfig(), everything=True) as tools:
        return [await run_example(tools, example) for example in examples]


async def run_once(
    source: str, params: dict[str, Any], config: WasmConfig, *, tool: str | None = None
) -> ToolOutput:
    """Run a module once, with no permission at all."""
    async with _Opened(source, config, everything=False) as tools:
        if tool is None and len(tools) > 1:
            raise HardpointError(f"{source} has several tools", hint=f"--tool {next(iter(tools))}")
        chosen = tools.get(tool or next(iter(tools)))
        if chosen is None:
            raise HardpointError(f"{source} has no tool {tool!r}; it has {', '.join(tools)}")
        return await chosen.execute(params, JobContext(user_id="nobody"))


class _Opened:
    """The tools of one source, for the length of a block."""

    def __init__(self, source: str | Path, config: WasmConfig, *, everything: bool) -> None:
        self._source, self._config, self._everything = str(source), config, everything
        self._runtime = make_runtime(config)

    async def __aenter__(self) -> Mapping[str, WasmTool]:
        [found, *others] = await sources.find(self._source)
        if others:
            raise ConfigError(f"{self._source} holds {1 + len(others)} modules; name one file")
        record = await inspect(found, self._config, self._runtime)
        if self._everything:
            record = granted(record, record.missing)
        store = _InMemory(found.wasm)
        return make_tools(record, store, self._config, self._runtime)

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self._runtime.close)


class _InMemory(Store):
    """A store of one module that is kept nowhere."""

    def __init__(self, wasm: bytes) -> None:
        super().__init__(Path())
        self._wasm = wasm

    def read(self, record: Any) -> bytes:
        return self._wasm


def _project(folder: Path) -> tuple[str, Path]:
    found = sorted(folder.glob(f"*{sources.SIDECAR}"))
    if len(found) != 1:
        raise ConfigError(
            f"{folder} must hold one NAME{sources.SIDECAR} file, which names the tool",
            hint="start one with: hardpoint wasm new NAME",
        )
    name = found[0].name.removesuffix(sources.SIDECAR)
    return check_name(name), found[0]


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


__all__ = ["Result", "build", "check", "create", "run_once"]
