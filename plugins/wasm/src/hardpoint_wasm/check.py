"""What `hardpoint doctor` tries: a guest that answers, one that never ends, the added tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import attrs

from hardpoint.errors import HardpointError, ToolTimeout
from hardpoint.interfaces import Check, CheckResult
from hardpoint_wasm.settings import WasmConfig
from hardpoint_wasm.toolset import WasmToolset, toolset_of

# A command that ends at once with 0 output, and one that never ends.
_GUEST = """(module (memory (export "memory") 1) (func (export "_start") %s))"""


class WasmCheck(Check):
    """Real guests in the real engine.

    Args:
        config: The plugin's settings; the toolset that was registered with them is used.
    """

    def __init__(self, config: WasmConfig) -> None:
        self._config = config

    def _toolset(self) -> WasmToolset:
        return toolset_of(self._config)

    async def run(self) -> Sequence[CheckResult]:
        results = []
        for name, probe in (
            ("wasm: a guest runs", self._runs),
            ("wasm: an endless guest is stopped", self._stops),
            ("wasm: added tools are unchanged", self._unchanged),
        ):
            try:
                results.append(attrs.evolve(await probe(), name=name))
            except HardpointError as error:
                results.append(CheckResult(name, "failed", error.message, error.hint))
        return results

    async def _runs(self) -> CheckResult:
        await self._call("")
        return CheckResult("", "ok", "a module was compiled in a limited process and ran")

    async def _stops(self) -> CheckResult:
        try:
            await self._call("(loop $x (br $x))")
        except ToolTimeout:
            return CheckResult("", "ok", "stopped at its time-out")
        return CheckResult("", "failed", "an endless loop ended by itself")

    async def _unchanged(self) -> CheckResult:
        store = self._toolset().store
        records = await asyncio.to_thread(
            lambda: [store.checked(record) for record in store.records()]
        )
        bad = [record for record in records if record.status == "quarantined"]
        if bad:
            names = ", ".join(f"{record.name} ({record.reason})" for record in bad)
            return CheckResult("", "failed", f"quarantined: {names}", "hardpoint wasm list")
        return CheckResult("", "ok", f"{len(records)} modules have the digest they were added with")

    async def _call(self, body: str) -> None:
        from wasmtime import wat2wasm

        from hardpoint_wasm.command import CommandRequest
        from hardpoint_wasm.execution import Execution

        runtime = self._toolset().runtime
        limits = attrs.evolve(runtime.limits, timeout=1.0)
        wasm = bytes(wat2wasm(_GUEST % body))
        module = await asyncio.to_thread(runtime.open, wasm, limits)
        await module.run(Execution(limits), CommandRequest(b"{}"), "the probe")
