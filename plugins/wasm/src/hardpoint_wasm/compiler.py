"""Compile modules in a process with limits: what compiling takes is for the author to choose.

The parent (`Compiler`) keeps one helper process; the helper forks a child for each module, so a
child that is killed takes nothing with it and starting one costs milliseconds. What is compiled is
written to a file that the parent names; `cache` decides where and trusts it later.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import IO, Any, Literal

import attrs

from hardpoint.errors import SandboxError

Kind = Literal["component", "module"]
_IDLE = 20.0
"""Seconds after which a helper without work ends."""


@attrs.frozen
class CompileLimits:
    """What compiling one module may use."""

    seconds: float = 120.0
    memory: int = 2 << 30
    module_bytes: int = 64 << 20


class Compiler:
    """Compiles modules one at a time in a helper process that is started when first needed."""

    def __init__(self, limits: CompileLimits | None = None) -> None:
        self.limits = limits or CompileLimits()
        self._lock = threading.Lock()
        self._helper: subprocess.Popen[bytes] | None = None
        self._finalizer: Any = None

    def compile(self, source: Path, target: Path, fuel: bool, stack: int, kind: Kind) -> None:
        """Compile `source` and write the machine code to `target`.

        Raises:
            SandboxError: It is no valid module, or compiling takes more than the limits allow.
        """
        request = {
            "source": str(source),
            "target": str(target),
            "fuel": fuel,
            "stack": stack,
            "kind": kind,
            "seconds": self.limits.seconds,
            "memory": self.limits.memory,
        }
        with self._lock:
            answer = self._ask(request)
        if "error" in answer:
            raise SandboxError(answer["error"], hint=answer.get("hint"))

    def close(self) -> None:
        """End the helper; the next compilation starts another."""
        with self._lock:
            self._end()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        line = json.dumps(request).encode() + b"\n"
        # An idle helper leaves by itself, perhaps at this very moment: then another one is asked.
        answer = self._exchange(line) or self._exchange(line)
        if not answer:
            return {"error": "the compiler process stopped; the module was not loaded"}
        parsed: dict[str, Any] = json.loads(answer)
        return parsed

    def _exchange(self, line: bytes) -> bytes:
        helper = self._start()
        assert helper.stdin is not None
        assert helper.stdout is not None
        answer = b""
        try:
            helper.stdin.write(line)
            helper.stdin.flush()
            # The helper enforces the limit; the margin is for a helper that is itself stuck.
            if select.select([helper.stdout], [], [], self.limits.seconds + 10)[0]:
                answer = helper.stdout.readline()
        except BrokenPipeError:
            pass
        if not answer:
            self._end()
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        if self._helper is not None:
            if self._helper.poll() is None:
                return self._helper
            self._end()
        # Our own search path, so that the helper finds the same wasmtime however it is installed.
        program = (
            f"import sys; sys.path[:] = {[p for p in sys.path if p]!r}; "
            "from hardpoint_wasm.compiler import serve; serve()"
        )
        kept = ("PATH", "HOME", "TMPDIR", "SYSTEMROOT")
        self._helper = subprocess.Popen(
            [sys.executable, "-I", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in kept if name in os.environ},
            start_new_session=True,
        )
        self._finalizer = weakref.finalize(self, _end, self._helper)
        return self._helper

    def _end(self) -> None:
        if self._helper is not None:
            self._finalizer()
            self._helper = None


def _end(helper: subprocess.Popen[bytes]) -> None:
    helper.kill()
    helper.wait()
    for pipe in (helper.stdin, helper.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


# in the helper process -------------------------------------------------------------------------


def serve(requests: IO[bytes] | None = None, answers: IO[bytes] | None = None) -> None:
    """Answer one request a line until the parent closes the pipe or asks nothing for a while."""
    import wasmtime.component  # noqa: F401 - loaded once, before any child is forked

    requests, answers = requests or sys.stdin.buffer, answers or sys.stdout.buffer
    while select.select([requests], [], [], _IDLE)[0]:
        line = requests.readline()
        if not line:
            return
        answer = _supervise(json.loads(line))
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _supervise(request: dict[str, Any]) -> dict[str, Any]:
    if not hasattr(os, "fork"):
        return _compile(request)
    inward, outward = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(inward)
        try:
            _limit(request)
            answer = _compile(request)
            os.write(outward, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(outward)
    try:
        return _await(child, inward, request["seconds"])
    finally:
        os.close(inward)


def _await(child: int, pipe: int, seconds: float) -> dict[str, Any]:
    deadline, answer = time.monotonic() + seconds, b""
    while True:
        left = deadline - time.monotonic()
        ready = select.select([pipe], [], [], max(left, 0))[0]
        if not ready:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return {
                "error": f"compiling the module took longer than {seconds:g} s",
                "hint": "raise compile_timeout in [plugin.wasm] if you trust the module",
            }
        piece = os.read(pipe, 65536)
        if not piece:
            break
        answer += piece
    _, status = os.waitpid(child, 0)
    if answer:
        parsed: dict[str, Any] = json.loads(answer)
        return parsed
    return {
        "error": f"compiling the module broke off (status {status}), most likely out of memory",
        "hint": "raise compile_memory in [plugin.wasm] if you trust the module",
    }


def _limit(request: dict[str, Any]) -> None:
    import resource

    seconds = int(request["seconds"]) * 2 + 1
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_DATA, request["memory"]),
    ):
        resource.setrlimit(limit, (value, value))


def _compile(request: dict[str, Any]) -> dict[str, Any]:
    from wasmtime import Module, WasmtimeError
    from wasmtime.component import Component

    from hardpoint_wasm.engine import EngineSettings, make_engine

    engine = make_engine(EngineSettings(request["fuel"], request["stack"]))
    make = Component if request["kind"] == "component" else Module
    try:
        code = make(engine, Path(request["source"]).read_bytes()).serialize()
    except WasmtimeError as error:
        return {"error": f"not a valid WebAssembly {request['kind']}: {_last_cause(str(error))}"}
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(request["target"], flags, 0o600), "wb") as file:
        file.write(code)
    return {"ok": True}


def _last_cause(text: str) -> str:
    cause = text.rsplit("Caused by:", 1)[-1].strip()
    return " ".join(cause.split())[:300]
