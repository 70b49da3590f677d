"""Where modules come from: files, folders, bundles and https addresses. Nothing here trusts them.

A source gives a module and its capabilities file as bytes. What they may do and whether they are
kept is decided by a person, in `cli`, or by the installer, which grants nothing.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from hardpoint.errors import ConfigError, ExternalService, NotAuthorized
from hardpoint_wasm.capabilities import MAX_FILE, Capabilities
from hardpoint_wasm.names import check_name

SIDECAR = ".capabilities.json"
_BUNDLES = (".tar.gz", ".tgz")


@attrs.frozen
class Found:
    """A module and what it asks for."""

    name: str
    wasm: bytes = attrs.field(repr=False)
    asked: Mapping[str, Any]
    """The content of the capabilities file; empty without one."""
    source: str

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities.from_json(self.asked)


async def find(
    source: str, *, name: str | None = None, sha256: str | None = None, http: Any = None,
    max_bytes: int = 64 << 20,
) -> list[Found]:  # fmt: skip
    """The modules of a file, a folder, a `.tar.gz` bundle or an https address.

    Args:
        source: A path, or an address of a module or a bundle.
        name: The tool's name, instead of the file's.
        sha256: What the fetched or read file must hash to.
        http: A guarded client; made when an address needs one.
        max_bytes: The largest module.

    Raises:
        NotAuthorized: The hash differs.
        ConfigError: There is no module, or its capabilities file cannot be followed.
        ExternalService: The address gives nothing.
    """
    if source.startswith(("https://", "http://")):
        return await _from_address(source, name, sha256, http, max_bytes)
    path = Path(source).expanduser()
    if path.is_dir():
        paths = sorted(p for p in path.glob("*.wasm") if not p.name.startswith("."))
        paths = paths or sorted((path / "build").glob("*.wasm"))
        if not paths:
            raise ConfigError(f"there is no .wasm file in {path}", hint="hardpoint wasm build")
        if name and len(paths) > 1:
            raise ConfigError(f"{path} holds {len(paths)} modules; one name does not fit them")
        return [from_file(p, name, sha256, max_bytes) for p in paths]
    if not path.exists():
        raise ConfigError(f"there is no file {path}")
    if path.name.endswith(_BUNDLES):
        return [_from_bundle(_read(path, max_bytes), name, sha256, str(path), max_bytes)]
    return [from_file(path, name, sha256, max_bytes)]


def from_file(
    path: Path, name: str | None = None, sha256: str | None = None, max_bytes: int = 64 << 20
) -> Found:
    """A module and the capabilities file beside it."""
    stem = path.name.removesuffix(".wasm")
    sidecar = path.with_name(stem + SIDECAR)
    wasm = _read(path, max_bytes)
    _check_hash(wasm, sha256, path.name)
    text = _read(sidecar, MAX_FILE) if sidecar.exists() else None
    return _found(name or stem, wasm, text, str(path.resolve()))


def _from_bundle(
    data: bytes, name: str | None, sha256: str | None, source: str, max_bytes: int
) -> Found:
    """IronClaw's bundles: a `.tar.gz` of one module and its capabilities file."""
    _check_hash(data, sha256, source)
    modules: dict[str, bytes] = {}
    sidecars: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as bundle:
            for count, member in enumerate(bundle):
                if count >= 100:
                    raise ConfigError("the bundle holds more than 100 files")
                file = Path(member.name).name
                kind = modules if file.endswith(".wasm") else sidecars
                wanted = file.endswith((".wasm", SIDECAR)) and member.isfile()
                if not wanted:
                    continue
                if member.size > max_bytes:
                    raise ConfigError(f"{file} in the bundle has more than {max_bytes} bytes")
                content = bundle.extractfile(member)
                assert content is not None, "a regular file has content"
                kind[file] = content.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ConfigError(f"the bundle cannot be read: {error}") from error
    if len(modules) != 1 or len(sidecars) > 1:
        raise ConfigError("a bundle holds one .wasm file and its capabilities file")
    [(file, wasm)] = modules.items()
    text = next(iter(sidecars.values()), None)
    return _found(name or file.removesuffix(".wasm"), wasm, text, source)


async def _from_address(
    url: str, name: str | None, sha256: str | None, http: Any, max_bytes: int
) -> list[Found]:
    from hardpoint.net import PinnedClient

    async with http or PinnedClient() as client:
        data = await _fetch(client, url, max_bytes)
        file = urlsplit(url).path.rpartition("/")[2]
        if file.endswith(_BUNDLES):
            return [_from_bundle(data, name, sha256, url, max_bytes)]
        _check_hash(data, sha256, url)
        text = None
        if file.endswith(".wasm"):
            beside = url.replace(".wasm", SIDECAR, 1) if url.count(".wasm") == 1 else None
            text = await _fetch(client, beside, MAX_FILE, missing=True) if beside else None
    return [_found(name or file.removesuffix(".wasm"), data, text or None, url)]


async def _fetch(client: Any, url: str, max_bytes: int, *, missing: bool = False) -> bytes:
    answer = await client.request("GET", url, follow=True, max_bytes=max_bytes, timeout=120.0)
    if answer.status == 404 and missing:
        return b""
    if answer.status != 200:
        raise ExternalService(f"{url} answered with status {answer.status}")
    if answer.truncated:
        raise ExternalService(f"{url} gives more than {max_bytes} bytes")
    body: bytes = answer.body
    return body


def _found(name: str, wasm: bytes, text: bytes | None, source: str) -> Found:
    import json

    check_name(name)
    # Read strictly first: what is kept is what was understood.
    Capabilities.from_json(text or b"{}")
    return Found(name, wasm, json.loads(text or b"{}"), source)


def _check_hash(data: bytes, sha256: str | None, what: str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if sha256 and found != sha256.lower().removeprefix("sha256:"):
        raise NotAuthorized(
            f"{what} is not what was expected: its SHA-256 is {found}",
            hint="do not use it before its author has explained the difference",
        )


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if len(data) > max_bytes:
        raise ConfigError(f"{path} has more than {max_bytes} bytes")
    return data
