"""The process in which wasmer-sdk runs one module. Its parent kills it; it only has to answer."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

_MAX_REQUEST = 64 << 20


def main(module: str, data_limit: int) -> None:
    """Load the module and answer requests until the parent goes."""
    import resource

    for limit, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, data_limit)):
        resource.setrlimit(limit, (value, value))
    # Requests and answers travel on copies; what the library prints goes nowhere.
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    asyncio.run(_serve(Path(module), requests, answers))


async def _serve(module: Path, requests: Any, answers: Any) -> None:
    from wasmer_sdk import Wasmer

    from hardpoint_wasm.wasmer import receive, send

    wasmer = Wasmer(cache_root=str(module.parent / "cache"))
    package = await wasmer.packages.load(module.read_bytes())
    while True:
        try:
            request = receive(requests, _MAX_REQUEST)
        except EOFError:
            break
        send(answers, await _run(wasmer, package, request))
    sys.stdout.flush()
    os._exit(0)  # closing the library can hang on what still runs in it


async def _run(wasmer: Any, package: Any, request: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"code": 0, "stdout": "", "stderr": "", "full": False, "error": ""}
    most = request["stdout_bytes"] + 1
    try:
        async with await wasmer.sandboxes.create(packages=[package], env=request["env"]) as sandbox:
            outcome = await sandbox.command(package).run(
                stdin=bytes.fromhex(request["stdin"]), output_bytes=most, check=False
            )
    # The library's errors have no common class that is public.
    except Exception as error:
        return answer | {"error": f"{type(error).__name__}: {error}"}
    stdout, stderr = outcome.stdout.bytes, outcome.stderr.bytes
    if outcome.reason.value != "exited":
        answer["error"] = f"{outcome.reason.value} {stderr[-200:].decode('utf-8', 'replace')}"
    return answer | {
        "code": outcome.exit_code or 0,
        "stdout": stdout[: request["stdout_bytes"]].hex(),
        "stderr": stderr[-request["stderr_bytes"] :].hex(),
        "full": len(stdout) >= most or outcome.stdout.truncated,
    }
