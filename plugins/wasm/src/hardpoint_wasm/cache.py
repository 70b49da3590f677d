"""Keep compiled modules on disk and hand out only what is provably ours and unchanged.

A compiled module is machine code: whoever can write it runs as us. The folder is private to the
user, each file's name carries the digest of its content, and the digest is checked on an open
descriptor, from which the engine then loads. What does not check out is deleted and compiled again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardpoint.errors import SandboxError
from hardpoint_wasm.capture import path_of
from hardpoint_wasm.compiler import Compiler, Kind
from hardpoint_wasm.engine import EngineSettings

logger = logging.getLogger(__name__)


class CodeFile:
    """Compiled code on an open, verified descriptor. `path` stays the same file until `close`."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self.size = size

    @property
    def path(self) -> str:
        return path_of(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


class CodeCache:
    """Compiled modules by digest of module and engine settings."""

    def __init__(self, folder: Path, compiler: Compiler | None = None) -> None:
        self.folder = folder
        self.compiler = compiler or Compiler()

    def load(self, wasm: bytes, settings: EngineSettings, kind: Kind) -> CodeFile:
        """The compiled module, from disk when it is there and unchanged.

        Raises:
            SandboxError: The module is invalid or too large, or compiling exceeds its limits.
        """
        allowed = self.compiler.limits.module_bytes
        if len(wasm) > allowed:
            raise SandboxError(f"the module has {len(wasm)} bytes; at most {allowed} are loaded")
        key = _digest(settings.fingerprint().encode(), kind.encode(), wasm)[:32]
        with _private(self.folder) as folder:
            for name in sorted(os.listdir(folder)):
                if name.startswith(f"{key}-") and name.endswith(".cwasm"):
                    found = self._open(folder, name)
                    if found is not None:
                        return found
            return self._compile(folder, key, wasm, settings, kind)

    def forget(self, file: CodeFile) -> None:
        """Delete code that the engine refused, so that the next load compiles anew."""
        inode = os.stat(file.path).st_ino
        with _private(self.folder) as folder:
            for name in os.listdir(folder):
                if os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino == inode:
                    os.unlink(name, dir_fd=folder)
        file.close()

    def _open(self, folder: int, name: str) -> CodeFile | None:
        expected = name.removesuffix(".cwasm").rpartition("-")[2]
        descriptor = -1
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            status = os.fstat(descriptor)
            private = status.st_uid == os.geteuid() and not status.st_mode & 0o022
            if stat.S_ISREG(status.st_mode) and private:
                with open(descriptor, "rb", closefd=False) as content:
                    if hashlib.file_digest(content, "blake2b").hexdigest()[:64] == expected:
                        return CodeFile(descriptor, status.st_size)
        except OSError as error:
            logger.warning("compiled module %s cannot be read: %s", name, error)
        if descriptor >= 0:
            os.close(descriptor)
        logger.warning("compiled module %s was changed or is not ours; compiling it again", name)
        os.unlink(name, dir_fd=folder)
        return None

    def _compile(
        self, folder: int, key: str, wasm: bytes, settings: EngineSettings, kind: Kind
    ) -> CodeFile:
        with tempfile.TemporaryDirectory(prefix="compile-", dir=self.folder) as work:
            source, target = Path(work, "in.wasm"), Path(work, "out.cwasm")
            source.write_bytes(wasm)
            self.compiler.compile(source, target, settings.fuel, settings.stack, kind)
            with target.open("rb") as content:
                digest = hashlib.file_digest(content, "blake2b").hexdigest()[:64]
            name = f"{key}-{digest}.cwasm"
            os.replace(target, self.folder / name)
        found = self._open(folder, name)
        if found is None:
            raise SandboxError(f"the module cache {self.folder} changes while it is used")
        return found


@contextmanager
def _private(path: Path) -> Iterator[int]:
    """A descriptor of a folder that only this user can write; made when missing."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise SandboxError(
                f"the module cache {path} belongs to another user",
                hint="set cache_dir in [plugin.wasm] to a folder of your own",
            )
        if status.st_mode & 0o077:
            os.fchmod(descriptor, 0o700)
        yield descriptor
    finally:
        os.close(descriptor)


def _digest(*pieces: bytes) -> str:
    digest = hashlib.blake2b()
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    return digest.hexdigest()
