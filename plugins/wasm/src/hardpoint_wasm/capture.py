"""Standard streams of a guest: input from bytes, output to a place with a fixed size.

Output goes to an anonymous file that is sealed at its size, so a guest that writes without end gets
an error at the cap and the host holds no more than that. The engine's own callbacks are not used:
they run on an engine thread and take the interpreter down at exit. Where there are no sealed files,
a pipe and a reader that hangs up do the same.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from wasmtime import Store

_SEALABLE = hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")
# A write past the end of a sealed file is refused whole, up to a page of the kernel's choice.
_MARGIN = 2 << 20


def path_of(descriptor: int) -> str:
    """A path under which this process can open its own descriptor once more."""
    return f"/proc/self/fd/{descriptor}" if _SEALABLE else f"/dev/fd/{descriptor}"


class Capture(Protocol):
    """Where a guest writes. Use: give `path` to the engine, `opened()`, run, `read()`."""

    path: str

    def opened(self) -> None: ...

    def read(self) -> tuple[bytes, bool]:
        """What was written, and whether it was more than the cap. Once, when the guest is gone."""
        ...

    def close(self) -> None: ...


def capture(cap: int) -> Capture:
    return _Sealed(cap) if _SEALABLE else _Pipe(cap)


class Streams:
    """The standard streams of one execution. Everything else of WASI stays closed.

    Args:
        stdout_bytes: How much of standard output is kept; 0 throws it away.
        stderr_bytes: How much of standard error is kept.
    """

    def __init__(self, stdout_bytes: int, stderr_bytes: int) -> None:
        self._errors = capture(stderr_bytes)
        self._output = capture(stdout_bytes) if stdout_bytes else None

    def attach(self, store: Store, request: Any) -> None:
        """Give a store its WASI: these streams, and the request's input and environment."""
        from wasmtime import WasiConfig

        wasi = WasiConfig()
        wasi.argv = ["tool"]
        wasi.env = request.env
        wasi.stderr_file = self._errors.path
        if self._output is not None:
            wasi.stdout_file = self._output.path
        given = None if request.stdin is None else Input(request.stdin)
        if given is not None:
            wasi.stdin_file = given.path
            given.close()  # the engine has opened it by now
        store.set_wasi(wasi)
        self._errors.opened()
        if self._output is not None:
            self._output.opened()

    def stderr(self) -> bytes:
        return self._errors.read()[0]

    def stdout(self) -> tuple[bytes, bool]:
        """What was written, and whether it was more than the cap."""
        return (b"", False) if self._output is None else self._output.read()

    def close(self) -> None:
        for part in (self._errors, self._output):
            if part is not None:
                part.close()


class Input:
    """Bytes for a guest to read."""

    def __init__(self, data: bytes) -> None:
        if _SEALABLE:
            self._descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC)
        else:
            import tempfile

            self._descriptor, name = tempfile.mkstemp()
            os.unlink(name)
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self.path = path_of(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class _Sealed:
    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._descriptor = os.memfd_create("out", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.path = path_of(self._descriptor)

    def opened(self) -> None:
        import fcntl

        # The engine truncates what it opens: the size is given and sealed afterwards.
        os.ftruncate(self._descriptor, self._cap + _MARGIN)
        fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)

    def read(self) -> tuple[bytes, bool]:
        # Holes of the file are what was never written. A text has no NUL at its end.
        end = os.lseek(self._descriptor, 0, os.SEEK_HOLE)
        data = os.pread(self._descriptor, end, 0).rstrip(b"\0") if end else b""
        return data[: self._cap], len(data) > self._cap

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _Pipe:
    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._reader, self._writer = os.pipe()
        self.path = path_of(self._writer)
        self._data, self._full = bytearray(), False
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def opened(self) -> None:
        # With the guest's end alone left open, the end of the guest is the end of the stream.
        self.close()

    def read(self) -> tuple[bytes, bool]:
        self._thread.join()
        return bytes(self._data), self._full

    def close(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def _drain(self) -> None:
        try:
            while piece := os.read(self._reader, 65536):
                self._data += piece[: self._cap - len(self._data)]
                if len(self._data) >= self._cap:
                    self._full = True
                    return
        finally:
            os.close(self._reader)
