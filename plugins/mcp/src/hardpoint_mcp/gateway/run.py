"""Put the runtime of the gateway together and serve it. Who may be asked is fixed here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hardpoint import Runtime
from hardpoint_mcp.config import McpConfig
from hardpoint_mcp.gateway.approver import FrontApprover
from hardpoint_mcp.gateway.http import serve_http, serve_stdio
from hardpoint_mcp.gateway.server import Gateway
from hardpoint_mcp.servers import Servers


def make_runtime(config: Any, **options: Any) -> Runtime:
    """A runtime whose questions go to the clients. A terminal, if there is one, is not asked."""
    options = {"in_memory": False, "installed_plugins": True, **options}
    return Runtime(config, origin="gateway", approver=[FrontApprover()], **options)


def settings_of(runtime: Runtime) -> McpConfig:
    """The `[mcp]` table of a runtime."""
    settings = runtime.plugin_settings().get("mcp")
    return settings if isinstance(settings, McpConfig) else McpConfig()


def make_gateway(runtime: Runtime) -> Gateway:
    """The gateway of a started runtime."""
    installer = runtime.services.extensions("installer").get("mcp_server")
    servers: Servers | None = None if installer is None else installer.servers
    return Gateway(runtime, servers, settings_of(runtime).serve)


async def serve(
    runtime: Runtime,
    address: tuple[str, int] | None = None,
    *,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a runtime over HTTP at an address, or else over stdio."""
    async with runtime:
        gateway = make_gateway(runtime)
        if address is None:
            await serve_stdio(gateway)
        else:
            await serve_http(gateway, *address, ready=ready)
