"""WebAssembly calls: a fresh instance each time, by language, beside extism in the same run.

`python tests/bench/bench_wasm.py`. Builds what is missing (the first time takes a minute).
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "plugins" / "wasm" / "tests"))

CALLS = 300
PARAMS = {"op": "echo", "text": "hello"}


async def main() -> None:
    import wasmtime
    from wasm_guests import builds, other, wat

    from hardpoint import JobContext
    from hardpoint_wasm import WasmRuntime, WasmTool

    context = JobContext(user_id="bench")
    guests: dict[str, bytes] = {
        "wat": bytes(wasmtime.wat2wasm(wat.tool())),
        "command": bytes(wasmtime.wat2wasm(other.ECHO)),
    }
    for language in ("c", "rust", "zig", "js", "python"):
        if builds.missing(language) is None:
            guests[language] = builds.guest(language)

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        runtime = WasmRuntime(Path(folder))
        for name, wasm in guests.items():
            compiled = await timed(lambda: WasmTool.load(wasm, name, runtime=runtime))  # noqa: B023
            other_runtime = WasmRuntime(Path(folder))
            cached = await timed(
                lambda: WasmTool.load(wasm, name, runtime=other_runtime)  # noqa: B023
            )
            tool = await WasmTool.load(wasm, name, runtime=runtime)
            best, median = await many(lambda: tool.execute(PARAMS, context))  # noqa: B023
            rows.append((name, len(wasm), compiled, cached, best, median))
            other_runtime.close()
        runtime.close()
        rows += await extism_rows(Path(folder))

    print(f"{'guest':24}{'bytes':>10}{'install':>10}{'load':>10}{'call min':>10}{'median':>10}  ms")
    for name, size, compiled, cached, best, median in rows:
        print(
            f"{name:24}{size:>10}{compiled * 1e3:>10.1f}{cached * 1e3:>10.2f}"
            f"{best * 1e3:>10.3f}{median * 1e3:>10.3f}"
        )
    print("\nmemory of an idle tool, KiB:")
    for name, wasm in guests.items():
        print(f"  {name:10} {idle_memory(wasm):>8}")


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def many(work: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    for _ in range(20):
        await work()
    spent = sorted([await timed(work) for _ in range(CALLS)])
    return spent[0], spent[len(spent) // 2]


# extism ----------------------------------------------------------------------------------------

# The same echo for extism's own interface, with its kernel's functions and no library.
EXTISM = """
typedef unsigned long long u64;
#define KERNEL(name) __attribute__((import_module("extism:host/env"), import_name(name)))
KERNEL("input_length") u64 input_length(void);
KERNEL("input_load_u8") unsigned char input_u8(u64 at);
KERNEL("alloc") u64 take(u64 bytes);
KERNEL("store_u8") void store_u8(u64 at, unsigned char value);
KERNEL("output_set") void output_set(u64 at, u64 bytes);
static u64 put(u64 at, const char *text) {
  while (*text) store_u8(at++, (unsigned char)*text++);
  return at;
}
__attribute__((export_name("execute"))) int execute(void) {
  u64 bytes = input_length(), start = take(bytes + 9), at = put(start, "{\\"echo\\":");
  for (u64 i = 0; i < bytes; i++) store_u8(at++, input_u8(i));
  output_set(start, put(at, "}") - start);
  return 0;
}
"""


async def extism_rows(folder: Path) -> list[tuple[str, int, float, float, float, float]]:
    try:
        import extism
        from extism.extism import CompiledPlugin
    except ImportError:
        print("extism is not installed: pip install extism")
        return []
    source, target = folder / "echo.c", folder / "echo.wasm"
    source.write_text(EXTISM)
    subprocess.run(
        [sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-freestanding", "-Os",
         "-nostdlib", "-Wl,--no-entry", "-Wl,-s", str(source), "-o", str(target)],
        check=True,
    )  # fmt: skip
    wasm, given = target.read_bytes(), json.dumps(PARAMS).encode()
    manifest = {"wasm": [{"data": wasm}]}

    async def install() -> None:
        extism.Plugin(manifest)

    compiled = await timed(install)
    shared = CompiledPlugin(manifest, functions=[])

    async def fresh() -> None:
        assert bytes(extism.Plugin(shared).call("execute", given)).startswith(b'{"echo"')

    best, median = await many(fresh)
    live = extism.Plugin(shared)

    async def again() -> None:
        live.call("execute", given)

    live_best, live_median = await many(again)
    return [
        ("extism, fresh instance", len(wasm), compiled, compiled, best, median),
        ("extism, one instance", len(wasm), compiled, compiled, live_best, live_median),
    ]


# memory ----------------------------------------------------------------------------------------


def idle_memory(wasm: bytes) -> int:
    """What one loaded tool that was called and waits adds to a process, in KiB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "guest.wasm")
        path.write_bytes(wasm)
        program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r});"
        program += f"from bench_wasm import measure_idle; measure_idle({str(path)!r})"
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
    return int(done.stdout)


def measure_idle(path: str) -> None:
    import wasmtime
    from wasm_guests import wat

    from hardpoint import JobContext
    from hardpoint_wasm import WasmRuntime, WasmTool

    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            runtime = WasmRuntime(Path(folder))
            context, tools = JobContext(user_id="bench"), []
            warm = await WasmTool.load(
                bytes(wasmtime.wat2wasm(wat.tool())), "warm", runtime=runtime
            )
            await warm.execute(PARAMS, context)
            wasm = Path(path).read_bytes()
            await WasmTool.load(wasm, "first", runtime=runtime)
            runtime.close()
            runtime = WasmRuntime(Path(folder))
            before = resident()
            for number in range(4):
                # Another limit makes another module, so that nothing is shared but the code.
                limits = attrs.evolve(runtime.limits, output_bytes=1_000_000 + number)
                tool = await WasmTool.load(wasm, f"tool{number}", runtime=runtime, limits=limits)
                await tool.execute(PARAMS, context)
                tools.append(tool)
            gc.collect()
            print((resident() - before) // 4)
            runtime.close()

    import attrs

    asyncio.run(run())


def resident() -> int:
    status = Path("/proc/self/statm").read_text().split()
    return int(status[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


if __name__ == "__main__":
    asyncio.run(main())
