"""The `[plugin.wasm]` table. The core checks it against these classes and names unknown keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
from attrs.validators import ge, gt, optional

import hardpoint
from hardpoint.errors import ConfigError
from hardpoint_wasm.limits import MIB, Limits

EngineName = Literal["wasmtime", "wasmer"]
NOT_ON_WASMER = ("fuel", "stack", "table_elements")
"""Limits that wasmer cannot hold."""


@attrs.frozen(kw_only=True)
class ToolSettings:
    """`[plugin.wasm.tools.NAME]`: limits of one tool where they differ from the plugin's."""

    memory: int | None = None
    timeout: float | None = None
    fuel: int | None = None
    stack: int | None = None
    table_elements: int | None = None
    host_calls: int | None = None
    logs: int | None = None
    log_bytes: int | None = None
    http_requests: int | None = None
    tool_invocations: int | None = None
    output_bytes: int | None = None
    stderr_bytes: int | None = None
    engine: EngineName | None = None
    env: Mapping[str, str] = attrs.field(factory=dict)
    """Environment of the guest. Not for secrets: the guest can read and show them."""


@attrs.frozen(kw_only=True)
class WasmConfig:
    """`[plugin.wasm]`."""

    folder: Path | None = None
    """Where added tools are kept; default: `wasm/tools` in the data folder."""
    discover: tuple[Path, ...] = ()
    """Folders whose modules are tools as they stand, under everything their files ask for."""
    catalogues: tuple[Path, ...] = ()
    """JSON files that list what can be installed: `{name, description, source, sha256}`."""
    cache_dir: Path | None = None
    """Where compiled code is kept; default: `wasm` in the cache folder."""
    concurrency: int = attrs.field(default=4, validator=ge(1))
    """How many calls of one module run at one time."""
    compile_timeout: float = attrs.field(default=120.0, validator=gt(0))
    compile_memory: int = attrs.field(default=2 << 30, validator=ge(64 * MIB))
    max_module_bytes: int = attrs.field(default=64 * MIB, validator=ge(1))
    engine: EngineName = "wasmtime"
    memory: int = Limits().memory
    timeout: float = Limits().timeout
    fuel: int | None = attrs.field(default=None, validator=optional(ge(1)))
    stack: int = Limits().stack
    host_calls: int = Limits().host_calls
    output_bytes: int = Limits().output_bytes
    tools: Mapping[str, ToolSettings] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for tool in (None, *self.tools):
            try:
                self.limits(tool)
            except (ValueError, TypeError) as error:
                raise ConfigError(f"{_where(tool)}: {error.args[0]}") from error
            self._check_engine(tool)

    def _check_engine(self, tool: str | None) -> None:
        if self.engine_of(tool) != "wasmer":
            return
        limits, defaults = self.limits(tool), Limits()
        problems = [
            f"{_where(tool)}: the engine wasmer cannot enforce {name}"
            for name in NOT_ON_WASMER
            if getattr(limits, name) != getattr(defaults, name)
        ]
        if problems:
            raise ConfigError(problems, hint='leave it out, or use engine = "wasmtime"')

    def limits(self, tool: str | None = None) -> Limits:
        """The limits of one tool: its own, then the plugin's, then the defaults."""
        names = [field.name for field in attrs.fields(Limits)]
        chosen: dict[str, Any] = {n: getattr(self, n) for n in names if hasattr(self, n)}
        own = self.tools.get(tool) if tool else None
        if own is not None:
            chosen |= {n: v for n in names if (v := getattr(own, n)) is not None}
        return Limits(**chosen)

    def engine_of(self, tool: str | None) -> EngineName:
        own = self.tools.get(tool) if tool else None
        return (own.engine if own else None) or self.engine

    def env_of(self, tool: str) -> Mapping[str, str]:
        own = self.tools.get(tool)
        return own.env if own else {}


def config_of(state: Any) -> WasmConfig:
    """The table of the configuration that a command runs with."""
    table = dict(state.load_config().plugin.get("wasm", {}))
    return hardpoint.structure(table, WasmConfig, "plugin.wasm")


def _where(tool: str | None) -> str:
    return f"plugin.wasm.tools.{tool}" if tool else "plugin.wasm"
