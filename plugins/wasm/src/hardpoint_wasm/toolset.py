"""The added and discovered modules as one toolset. Listing runs no guest and loads no engine."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs

from hardpoint import Tool, ToolDefinition, Toolset
from hardpoint.errors import HardpointError
from hardpoint_wasm import sources
from hardpoint_wasm.describe import Interface, advertised
from hardpoint_wasm.install import inspect, make_runtime, make_store, make_tools
from hardpoint_wasm.names import tool_name
from hardpoint_wasm.settings import WasmConfig
from hardpoint_wasm.store import Record
from hardpoint_wasm.tool import WasmTool, read_files

if TYPE_CHECKING:
    from hardpoint_wasm.logins import Logins

logger = logging.getLogger(__name__)


# The hooks of one plugin are called apart, with one and the same config.
_live: weakref.WeakSet[WasmToolset] = weakref.WeakSet()


def toolset_of(config: WasmConfig) -> WasmToolset:
    """The toolset that was registered with this very config; outside a runtime, one of its own."""
    for toolset in _live:
        if toolset.config is config:
            return toolset
    return WasmToolset(config, lambda toolset, definitions: None)


class WasmToolset(Toolset):
    """Every active WebAssembly tool of one configuration.

    Args:
        config: The `[plugin.wasm]` table.
        replace: Tells the registry that the definitions changed.
    """

    name = "wasm"

    def __init__(
        self, config: WasmConfig, replace: Callable[[Toolset, Sequence[ToolDefinition]], None]
    ) -> None:
        self.config = config
        self.store = make_store(config)
        self.runtime = make_runtime(config)
        self.logins: Logins | None = None
        """The logins of the tools, once a runtime has started."""
        self._replace = replace
        self._tools: dict[str, WasmTool] = {}
        self._unseen: dict[str, Path] = {}
        self._closed = False
        self.reload()
        _live.add(self)

    def definitions(self) -> Sequence[ToolDefinition]:
        return [tool.definition() for tool in self._tools.values()]

    def get_tool(self, name: str) -> Tool:
        return self._tools[name]

    def reload(self) -> None:
        """Read the records and folders again."""
        self._tools, self._unseen = {}, {}
        records = {record.name: record for record in self.store.records()}
        for path in self._discovered():
            record = records.get(tool_name(path))
            if record is None:
                self._unseen[tool_name(path)] = path
            elif record.path != str(path):
                logger.warning("%s: %r was added already; this file is ignored", path, record.name)
        for record in records.values():
            self._take(self._checked(record))
        for name, path in self._unseen.items():
            self._take_unseen(name, path)

    async def renew(self, name: str, user_id: str, *, refused: bool = False) -> bool:
        """Renew the login behind a secret, where it is time."""
        if self.logins is None:
            return False
        return await self.logins.fresh(name, user_id, refused=refused)

    def update(self) -> None:
        """Read everything again and tell the registry."""
        self.reload()
        self._replace(self, self.definitions())

    async def __aenter__(self) -> Self:
        """Look into modules that were found for the first time: describe and pin them."""
        if self._closed:
            self._closed = False
            self.update()
        for path in list(self._unseen.values()):
            try:
                await self._pin(path)
            except HardpointError as error:
                logger.warning("%s is not a tool: %s", path, error)
        if self._unseen:
            self.update()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self._closed = True
        await asyncio.to_thread(self.runtime.close)

    def _discovered(self) -> list[Path]:
        found: list[Path] = []
        for folder in self.config.discover:
            folder = folder.expanduser()
            if not folder.is_dir():
                logger.warning("the folder %s of [plugin.wasm] discover does not exist", folder)
                continue
            found += (
                path.resolve()
                for path in sorted(folder.glob("*.wasm"))
                if path.is_file() and not path.name.startswith(".")
            )
        return found

    def _checked(self, record: Record) -> Record:
        record = self.store.checked(record)
        if record.path and record.status == "active":
            record = self._check_sidecar(record)
        return record

    def _check_sidecar(self, record: Record) -> Record:
        """A discovered tool's capabilities file is pinned like its module."""
        path = Path(record.path or "")
        try:
            found = sources.from_file(path, max_bytes=self.config.max_module_bytes)
        except HardpointError as error:
            reason = str(error)
        else:
            if found.asked == record.asked:
                return record
            reason = "its capabilities file is not the one that was first seen"
        self.store.quarantine(record, reason)
        return self.store.get(record.name)

    def _take(self, record: Record) -> None:
        if record.status == "installed":
            return
        if record.status == "quarantined":
            logger.warning("the tool %s is quarantined: %s", record.name, record.reason)
            return
        self._tools.update(make_tools(record, self.store, self.config, self.runtime, self.renew))

    def _take_unseen(self, name: str, path: Path) -> None:
        """List a new module under what its capabilities file says, without running it."""
        try:
            _, capabilities = read_files(path)
            parameters, discovery = advertised(capabilities.parameters if capabilities else None)
            about = (capabilities.description if capabilities else None) or ""
            self._tools[name] = WasmTool(
                name,
                Interface(about, parameters, discovery),
                lambda: self.runtime.open(path.read_bytes(), self.config.limits(name)),
                capabilities=capabilities,
                runtime=self.runtime,
                limits=self.config.limits(name),
                env=self.config.env_of(name),
                renew=self.renew,
            )
        except HardpointError as error:
            logger.warning("%s is not a tool: %s", path, error)

    async def _pin(self, path: Path) -> None:
        [found] = await sources.find(str(path), max_bytes=self.config.max_module_bytes)
        record = await inspect(found, self.config, self.runtime)
        status = path.stat()
        self.store.add(
            attrs.evolve(
                record,
                path=str(path),
                granted=record.missing,
                stat=(status.st_size, status.st_mtime_ns),
            )
        )
