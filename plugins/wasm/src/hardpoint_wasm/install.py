"""Keep a found module as a tool: open it, ask it to describe itself, write its record."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

import attrs

from hardpoint.errors import HardpointError
from hardpoint_wasm.describe import describe
from hardpoint_wasm.runtime import WasmRuntime, folder
from hardpoint_wasm.settings import WasmConfig
from hardpoint_wasm.sources import Found
from hardpoint_wasm.store import Record, Store
from hardpoint_wasm.tool import WasmTool

if TYPE_CHECKING:
    from hardpoint_wasm.logins import Renew


def make_store(config: WasmConfig) -> Store:
    return Store(config.folder or folder("data") / "tools")


def make_runtime(config: WasmConfig) -> WasmRuntime:
    return WasmRuntime(
        config.cache_dir,
        limits=config.limits(),
        concurrency=config.concurrency,
        compile_timeout=config.compile_timeout,
        compile_memory=config.compile_memory,
        max_module_bytes=config.max_module_bytes,
    )


async def inspect(found: Found, config: WasmConfig, runtime: WasmRuntime) -> Record:
    """The record that a module would get, with nothing granted.

    Raises:
        ToolError: It is no tool, or does not survive being described.
    """
    module = await asyncio.to_thread(runtime.open, found.wasm, config.limits(found.name))
    interfaces = await describe(module, found.name, found.capabilities)
    return Record(
        found.name,
        module.digest,
        module.shape.kind,
        found.source,
        asked=found.asked,
        interfaces=interfaces,
    )


def granted(record: Record, permissions: Collection[str]) -> Record:
    """The record with exactly these permissions.

    Raises:
        HardpointError: One of them is not asked for.
    """
    asked = (*record.granted, *record.missing)
    unknown = sorted(set(permissions) - set(asked))
    if unknown:
        known = ", ".join(repr(permission) for permission in asked) or "nothing"
        raise HardpointError(f"{record.name} does not ask for {unknown[0]!r}; it asks for {known}")
    return attrs.evolve(record, granted=tuple(p for p in asked if p in permissions))


def make_tools(
    record: Record,
    store: Store,
    config: WasmConfig,
    runtime: WasmRuntime,
    renew: Renew | None = None,
) -> dict[str, WasmTool]:
    """The tools of a record, by name. Opens nothing: that happens at the first call."""
    limits, engine = config.limits(record.name), config.engine_of(record.name)
    return {
        name: WasmTool(
            name,
            interface,
            lambda: runtime.open(store.read(record), limits, engine),
            capabilities=lambda: record.capabilities,
            runtime=runtime,
            limits=limits,
            env=config.env_of(record.name),
            renew=renew,
        )
        for name, interface in record.interfaces.items()
    }
