"""Make engines: which WebAssembly features a tool may use and how its code is compiled."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from wasmtime import Engine


@attrs.frozen
class EngineSettings:
    """What is baked into compiled code; another value means another compilation."""

    fuel: bool = False
    stack: int = 512 * 1024

    def fingerprint(self) -> str:
        """Everything that compiled code depends on besides the module."""
        return json.dumps(
            [
                attrs.astuple(self),
                importlib.metadata.version("wasmtime"),
                platform.machine(),
                platform.system(),
            ]
        )


def make_engine(settings: EngineSettings) -> Engine:
    """An engine of its own, whose epoch stops what runs in it and nothing else."""
    from wasmtime import Config, Engine

    config = Config()
    config.epoch_interruption = True
    config.consume_fuel = settings.fuel
    config.max_wasm_stack = settings.stack
    # Tools have one thread and 32-bit memories: whatever else the engine offers only adds surface.
    config.wasm_threads = False
    config.shared_memory = False
    config.wasm_memory64 = False
    config.wasm_multi_memory = True  # adapters of componentized languages use a second memory
    return Engine(config)
