"""Put the runtime of the gateway together and serve it. Who may be asked is fixed here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hardpoint import Config, Runtime
from hardpoint.errors import HardpointError
from hardpoint_mcp.config import McpConfig
from hardpoint_mcp.gateway.approver import FrontApprover
from hardpoint_mcp.gateway.http import serve_http, serve_stdio
from hardpoint_mcp.gateway.server import Gateway
from hardpoint_mcp.servers import Servers

logger = logging.getLogger(__name__)


def make_runtime(config: Config | Path | str | None = None, **options: Any) -> Runtime:
    """A runtime whose questions go to the clients. A terminal, if there is one, is not asked.

    Args:
        config: A configuration, the file of one, or None for this machine's.
        **options: As for `Runtime`.
    """
    options = {
        "in_memory": False,
        "installed_plugins": True,
        "origin": "gateway",
        "approver": [FrontApprover()],
        **options,
    }
    if isinstance(config, Config):
        return Runtime(config, **options)
    return Runtime.from_config(config, **options)


def settings_of(runtime: Runtime) -> McpConfig:
    """The `[mcp]` table of a runtime."""
    settings = runtime.plugin_settings().get("mcp")
    return settings if isinstance(settings, McpConfig) else McpConfig()


def make_gateway(runtime: Runtime) -> Gateway:
    """The gateway of a started runtime."""
    installer = runtime.services.extensions("installer").get("mcp_server")
    servers: Servers | None = None if installer is None else installer.servers
    return Gateway(runtime, servers, settings_of(runtime).serve)


def _reload(runtime: Runtime) -> None:
    try:
        runtime.reload()
    except HardpointError as error:
        logger.error("the former settings stay in force: %s", error)


async def serve(
    runtime: Runtime,
    address: tuple[str, int] | None = None,
    *,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a runtime over HTTP at an address, or else over stdio. SIGHUP reads its settings again.

    Args:
        ready: Told the HTTP address once clients can connect.
    """
    async with runtime:
        gateway = make_gateway(runtime)
        with contextlib.suppress(ValueError, RuntimeError):  # only the main thread gets signals
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _reload, runtime)
        if address is None:
            await serve_stdio(gateway)
        else:
            await serve_http(gateway, *address, ready=ready)
