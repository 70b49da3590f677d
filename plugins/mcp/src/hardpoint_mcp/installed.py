"""The servers that an installer brought: a folder each, with a record and, for packages, programs.

They stand beside those of the configuration, which keep their names. What is installed here was
approved by a person with its hashes; what it may be told is nothing of this machine.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from hardpoint import structure
from hardpoint.errors import ConfigError, ExternalService, HardpointError, NotAuthorized
from hardpoint.interfaces import CatalogueEntry
from hardpoint_mcp.cache import write_private
from hardpoint_mcp.config import ServerConfig, check_server_name
from hardpoint_mcp.packages import MAX_WHEEL, find_program, make_environment, wheel_name

logger = logging.getLogger(__name__)

RECORD: Final = "record.json"
Status = Literal["installed", "active", "quarantined"]


@attrs.frozen
class InstalledServer:
    """One server as it was installed."""

    name: str
    fingerprint: str
    """Of the catalogue entry."""
    config: ServerConfig
    status: Status = "installed"
    reason: str = ""
    tools_sha256: str | None = None
    """What its list of tools must hash to when it is activated."""
    digest: str = ""
    """The hash of its package."""
    environment: str | None = None
    """The folder of its programs, below its own."""


class InstalledServers:
    """The folder of installed servers."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def all(self) -> Mapping[str, InstalledServer]:
        """Every record that can be read, by name."""
        found: dict[str, InstalledServer] = {}
        if self._folder is None or not self._folder.is_dir():
            return found
        for path in sorted(self._folder.glob(f"*/{RECORD}")):
            try:
                record = structure(json.loads(path.read_bytes()), InstalledServer, str(path))
            except (OSError, ValueError, HardpointError) as error:
                logger.warning("%s is damaged and left out: %s", path, error)
                continue
            if record.name == path.parent.name:
                found[record.name] = record
        return found

    def active(self) -> Mapping[str, ServerConfig]:
        """The settings of those whose tools are offered."""
        return {n: record.config for n, record in self.all().items() if record.status == "active"}

    def get(self, name: str) -> InstalledServer | None:
        return self.all().get(name)

    def put(self, record: InstalledServer) -> None:
        made = attrs.asdict(record, filter=lambda _, value: value is not None)
        write_private(self._place(record.name) / RECORD, json.dumps(made, indent=1))

    def remove(self, name: str) -> None:
        shutil.rmtree(self._place(name))

    async def fetch(self, entry: CatalogueEntry, http: Any) -> InstalledServer:
        """Bring what an entry names, checked against its hashes, and its record; not kept yet.

        Raises:
            NotAuthorized: A hash differs, or there is none.
            ConfigError: The entry asks for something that no catalogue may.
        """
        told = entry.extra
        tools = told.get("tools_sha256")
        settings: dict[str, Any] = {"description": entry.description}
        _refuse_references(entry)
        if told.get("url"):
            if tools is None:
                raise NotAuthorized(
                    f"the catalogue entry {entry.name!r} names no tools_sha256",
                    hint=f"an operator can add it: hardpoint mcp add {entry.name} --url ADDRESS",
                )
            settings["url"] = told["url"]
            return self._record(entry, settings, None, tools)
        if not entry.source or not entry.sha256:
            raise NotAuthorized(
                f"the catalogue entry {entry.name!r} names no package with its sha256",
                hint=f"an operator can add it: hardpoint mcp add {entry.name} -- COMMAND",
            )
        folder = self._place(entry.name)
        environment = f"env-{entry.fingerprint[:16]}"
        wheel = folder / wheel_name(entry.source)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            wheel.write_bytes(await _wheel(entry, http))
            requirements: Sequence[str] = told.get("requirements", ())
            programs = await make_environment(
                folder / environment, wheel, entry.sha256, requirements
            )
            program = find_program(programs, told.get("command"), wheel.name)
        except BaseException:
            shutil.rmtree(folder / environment, ignore_errors=True)
            raise
        finally:
            for file in (wheel, wheel.with_suffix(".txt")):
                file.unlink(missing_ok=True)
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        settings |= {"command": str(program)}
        settings |= {key: told[key] for key in ("args", "env") if key in told}
        return self._record(entry, settings, environment, tools)

    def discard_environments(self, name: str, keep: str | None) -> None:
        """Delete the programs of earlier versions."""
        for path in self._place(name).glob("env-*"):
            if path.name != keep:
                shutil.rmtree(path, ignore_errors=True)

    def _record(
        self,
        entry: CatalogueEntry,
        settings: Mapping[str, Any],
        environment: str | None,
        tools: str | None,
    ) -> InstalledServer:
        try:
            config = ServerConfig(**settings)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the catalogue entry {entry.name!r}: {error}") from error
        if tools is not None:
            tools = tools.lower().removeprefix("sha256:")
        return InstalledServer(
            entry.name,
            entry.fingerprint,
            config,
            tools_sha256=tools,
            digest=entry.sha256 or "",
            environment=environment,
        )

    def _place(self, name: str) -> Path:
        if self._folder is None:
            raise ConfigError("there is no data folder to install servers into")
        try:
            check_server_name(name)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        return self._folder / name


def _refuse_references(entry: CatalogueEntry) -> None:
    """A catalogue's settings are taken as they stand: no secret and no variable of this machine."""
    texts = [*entry.extra.get("args", ()), *entry.extra.get("env", {}).values()]
    texts.append(str(entry.extra.get("url", "")))
    for text in texts:
        if "${" in text or "secret:" in text:
            raise ConfigError(
                f"the catalogue entry {entry.name!r} refers to {text!r}; an installed server is"
                " given no secrets and variables",
                hint="an operator configures such a server, with `hardpoint mcp add`",
            )


async def _wheel(entry: CatalogueEntry, http: Any) -> bytes:
    import hashlib

    if entry.source.startswith("https://"):
        async with http as client:
            answer = await client.request(
                "GET", entry.source, follow=True, max_bytes=MAX_WHEEL, timeout=120.0
            )
        if answer.status != 200 or answer.truncated:
            raise ExternalService(
                f"{entry.source} "
                + (f"has more than {MAX_WHEEL} bytes" if answer.truncated
                   else f"answered with status {answer.status}")
            )  # fmt: skip
        data: bytes = answer.body
    else:
        try:
            data = Path(entry.source).read_bytes()
        except OSError as error:
            raise ConfigError(f"{entry.source}: {error.strerror}") from error
    found = hashlib.sha256(data).hexdigest()
    if found != entry.sha256:
        raise NotAuthorized(
            f"{entry.source} is not what the catalogue names: its SHA-256 is {found}",
            hint="do not use it before its author has explained the difference",
        )
    return data
