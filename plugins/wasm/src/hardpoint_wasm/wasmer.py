"""Run WASI commands on wasmer-sdk, each in a process of its own that can be killed.

wasmer-sdk cannot stop a guest or limit its memory, so the process is the sandbox: it is killed at
the time-out, its data segment is limited, and it is thrown away after a call that did not end well.
Limits that cannot be enforced there are refused in the configuration. It is an extra, never needed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import IO, Any

from hardpoint.errors import DomainUnavailable, SandboxError, ToolError
from hardpoint_wasm.command import CommandRequest
from hardpoint_wasm.execution import Execution, Stopped, shared_watchdog
from hardpoint_wasm.limits import MIB, Limits
from hardpoint_wasm.module import Module, Shape, encoding
from hardpoint_wasm.names import digest
from hardpoint_wasm.traps import explain
from hardpoint_wasm.workers import Worker

_BASE = 320 * MIB
"""Data that the process needs for itself; the guest's memory comes on top."""


def open_module(wasm: bytes, limits: Limits, *, concurrency: int = 4) -> Module:
    """A command on wasmer.

    Raises:
        DomainUnavailable: wasmer-sdk is not installed, or this is no system for it.
        SandboxError: The module is no command.
    """
    if importlib.util.find_spec("wasmer_sdk") is None:
        raise DomainUnavailable(
            "wasmer-sdk is not installed", hint="pip install 'hardpoint-wasm[wasmer]'"
        )
    if os.name != "posix":
        raise DomainUnavailable("the engine wasmer needs a system whose processes can be limited")
    if encoding(wasm) != "module":
        raise SandboxError(
            "the engine wasmer runs WASI commands; this is a component",
            hint='use engine = "wasmtime"',
        )
    folder = tempfile.TemporaryDirectory(prefix="hardpoint-wasmer-")
    path = Path(folder.name, "module.wasm")
    path.write_bytes(wasm)
    return Module(
        Shape("command", (), ()),
        digest(wasm),
        limits,
        lambda: _Process(path, limits),
        concurrency,
        folder.cleanup,
    )


class _Process(Worker):
    """One process with the module loaded; started when first needed, and again after a kill."""

    def __init__(self, module: Path, limits: Limits) -> None:
        super().__init__()
        self._module, self._limits = module, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: Any = None

    def run(self, execution: Execution, request: CommandRequest, tool: str = "the tool") -> Any:
        self._execution = execution
        try:
            process = self._start()
            with execution.interruptible(process.kill):
                shared_watchdog().watch(execution)
                answer = self._exchange(process, request)
            if execution.reason is not None:
                raise Stopped(execution.reason)
            if answer is None:
                raise SandboxError(
                    f"{tool} was killed: it crashed, or used more than {self._limits.memory} bytes"
                )
            execution.stderr = bytes.fromhex(answer["stderr"])
            if answer["error"]:
                self.discard()
                raise SandboxError(f"{tool} was stopped by the sandbox: {answer['error'][:200]}")
            return answer["code"], bytes.fromhex(answer["stdout"]), answer["full"]
        except ToolError:
            raise
        except (Exception, Stopped) as error:
            raise explain(error, execution, tool) from error
        finally:
            shared_watchdog().release(execution)
            self._execution = None
            if execution.reason is not None:
                self.discard()

    def close(self) -> None:
        super().close()
        self.discard()

    def discard(self) -> None:
        """Kill the process with whatever still runs in it."""
        if self._process is not None:
            self._finalizer()
            self._process = None

    def _exchange(
        self, process: subprocess.Popen[bytes], request: CommandRequest
    ) -> dict[str, Any] | None:
        assert process.stdin is not None
        assert process.stdout is not None
        message = {
            "stdin": request.stdin.hex(),
            "env": dict(request.env),
            "stdout_bytes": self._limits.output_bytes,
            "stderr_bytes": self._limits.stderr_bytes,
        }
        try:
            send(process.stdin, message)
            # Hexadecimal doubles what the caps allow.
            most = 2 * (self._limits.output_bytes + self._limits.stderr_bytes) + 65536
            return receive(process.stdout, most)
        except (BrokenPipeError, EOFError, ValueError):
            self.discard()
            return None

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            if self._process.poll() is None:
                return self._process
            self.discard()
        program = (
            f"import sys; sys.path[:] = {[p for p in sys.path if p]!r}; "
            "from hardpoint_wasm.wasmer_child import main; main(sys.argv[1], int(sys.argv[2]))"
        )
        kept = ("PATH", "TMPDIR")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", program, str(self._module),
             str(_BASE + self._limits.memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._module.parent,
            env={name: os.environ[name] for name in kept if name in os.environ},
            start_new_session=True,
        )  # fmt: skip
        self._finalizer = weakref.finalize(self, _end, self._process)
        return self._process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # what was not sent is not needed any more


# the pipe ---------------------------------------------------------------------------------------


def send(pipe: IO[bytes], message: dict[str, Any]) -> None:
    """One message: its length in four bytes, then JSON."""
    data = json.dumps(message).encode()
    pipe.write(struct.pack("<I", len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes], most: int) -> dict[str, Any]:
    """The next message.

    Raises:
        EOFError: The other side is gone.
        ValueError: The message is longer than it may be, or no object.
    """
    head = pipe.read(4)
    if len(head) < 4:
        raise EOFError
    [length] = struct.unpack("<I", head)
    if length > most:
        raise ValueError("message too long")
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    message = json.loads(data)
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message
