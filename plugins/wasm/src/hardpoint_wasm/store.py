"""The tools that were added: each module with its record of digest, grant and interface.

A record is written when a person adds a tool and is what counts from then on: a module whose bytes
differ from the pinned digest is quarantined, and a capabilities file that changes later changes
nothing. How a tool is fetched and what a person is asked is decided in `sources` and `cli`.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

from hardpoint.errors import ConfigError, HardpointError, SandboxError
from hardpoint_wasm.capabilities import Capabilities
from hardpoint_wasm.describe import Interface
from hardpoint_wasm.limits import MIB
from hardpoint_wasm.names import check_name, digest

logger = logging.getLogger(__name__)

Status = Literal["active", "installed", "quarantined"]
"""`installed`: kept by an installer, and no tool before it is activated."""
_MAX_RECORD = 2 * MIB


@attrs.frozen
class Record:
    """One added module."""

    name: str
    digest: str
    """`sha256:…` of the module."""
    kind: str
    """`world`, `command` or `functions`."""
    source: str = ""
    """Where it came from: a path or an address."""
    path: str | None = None
    """Where the module is, when it is not kept here: a discovered file."""
    stat: tuple[int, int] | None = None
    """Size and modification time of the module when it was last found unchanged."""
    asked: Mapping[str, Any] = attrs.field(factory=dict)
    """The capabilities file as it was."""
    granted: tuple[str, ...] = ()
    """The permissions that a person granted of those."""
    interfaces: Mapping[str, Interface] = attrs.field(factory=dict)
    """The tools in it, by tool name."""
    status: Status = "active"
    reason: str = ""
    """Why it is quarantined."""

    @property
    def capabilities(self) -> Capabilities:
        """What the tool may do."""
        return Capabilities.from_json(self.asked).only(frozenset(self.granted))

    @property
    def missing(self) -> tuple[str, ...]:
        """What it asks for and was not granted."""
        asked = Capabilities.from_json(self.asked).permissions
        return tuple(permission for permission in asked if permission not in self.granted)


class Store:
    """The folder of added tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def records(self) -> Sequence[Record]:
        """Every record that can be read, by name. A damaged one is logged and left out.

        Raises:
            ConfigError: Others could change what is in the folder.
        """
        if not self.folder.is_dir():
            return ()
        _refuse_shared(self.folder)
        found = []
        for name in sorted(entry.name for entry in self.folder.iterdir()):
            if not name.endswith(".json") or name.startswith("."):
                continue
            try:
                record = self._read(name.removesuffix(".json"))
            except ConfigError as error:
                logger.error("%s", error)
                continue
            if record is not None:
                found.append(record)
        return tuple(found)

    def get(self, name: str) -> Record:
        """The record of one tool.

        Raises:
            HardpointError: There is none.
        """
        record = self._read(name) if check_name(name) else None
        if record is None:
            known = ", ".join(record.name for record in self.records()) or "none"
            raise HardpointError(
                f"no WebAssembly tool {name!r} was added; there are: {known}",
                hint="add one with: hardpoint wasm add FILE",
            )
        return record

    def add(self, record: Record, wasm: bytes | None = None) -> None:
        """Keep a record, and its module unless that stays where it is."""
        check_name(record.name)
        if wasm is not None:
            self._write(f"{record.name}.wasm", wasm)
        text = json.dumps(attrs.asdict(record), ensure_ascii=False, indent=1)
        self._write(f"{record.name}.json", text.encode())

    def remove(self, name: str) -> None:
        """Forget a tool and delete its module."""
        self.get(name)
        for suffix in (".json", ".wasm"):
            (self.folder / f"{name}{suffix}").unlink(missing_ok=True)

    def module_path(self, record: Record) -> Path:
        return Path(record.path) if record.path else self.folder / f"{record.name}.wasm"

    def read(self, record: Record) -> bytes:
        """The module of a record, byte for byte as it was added.

        Raises:
            SandboxError: It changed; the tool is quarantined from now on.
        """
        if record.status == "quarantined":
            raise SandboxError(
                f"{record.name} is quarantined: {record.reason}", hint=_again(record)
            )
        path = self.module_path(record)
        try:
            wasm = path.read_bytes()
        except OSError as error:
            raise self.quarantine(record, f"its module cannot be read: {error.strerror}") from error
        if digest(wasm) != record.digest:
            raise self.quarantine(record, "its module is not the one that was added")
        return wasm

    def checked(self, record: Record) -> Record:
        """The record, quarantined when its module changed. Hashes only what looks touched."""
        if record.status == "quarantined":
            return record
        try:
            status = self.module_path(record).stat()
            if record.stat == (status.st_size, status.st_mtime_ns):
                return record
            self.read(record)
        except OSError as error:
            self.quarantine(record, f"its module cannot be read: {error.strerror}")
            return self.get(record.name)
        except SandboxError:
            return self.get(record.name)
        seen = attrs.evolve(record, stat=(status.st_size, status.st_mtime_ns))
        self.add(seen)
        return seen

    def quarantine(self, record: Record, reason: str) -> SandboxError:
        """Stop using a tool until somebody adds it again; returns the error that says so."""
        self.add(attrs.evolve(record, status="quarantined", reason=reason))
        return SandboxError(f"{record.name} is quarantined: {reason}", hint=_again(record))

    def _read(self, name: str) -> Record | None:
        path = self.folder / f"{name}.json"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        with open(descriptor, "rb") as file:
            text = file.read(_MAX_RECORD + 1)
        try:
            record: Record = _structure()(json.loads(text), Record)
        # cattrs raises whatever its hooks do; a record is ours, so any failure means damage.
        except Exception as error:
            raise ConfigError(
                f"{path} is damaged: {error!r}", hint="remove it and add the tool again"
            ) from error
        if record.name != name:
            raise ConfigError(f"{path} is the record of {record.name!r}")
        return record

    def _write(self, name: str, data: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # NamedTemporaryFile makes files that only their owner can read.
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".new-", delete=False) as file:
            file.write(data)
        os.replace(file.name, self.folder / name)


def _refuse_shared(folder: Path) -> None:
    """A module is pinned by a record beside it, so nobody else may write here."""
    status = folder.stat()
    if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
        raise ConfigError(
            f"others could change the WebAssembly tools in {folder}", hint=f"chmod 700 {folder}"
        )


def _again(record: Record) -> str:
    return f"look at it, then: hardpoint wasm add {record.path or record.source or record.name}"


@functools.cache
def _structure() -> Callable[[Any, type[Record]], Record]:
    import cattrs

    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=False)
    for plain in (str, int, float, bool):
        converter.register_structure_hook(plain, _exactly)
    return converter.structure


def _exactly(value: Any, type_: type[Any]) -> Any:
    if type(value) is not type_:
        raise TypeError(f"expected {type_.__name__}, found {value!r:.80}")
    return value
