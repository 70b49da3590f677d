"""Put the runtime of the gateway together and serve it. Who may be asked is fixed here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hardpoint import ApprovalRequest, Approver, Decision, JobContext, Pending, Runtime
from hardpoint_mcp.config import McpConfig, ServeConfig
from hardpoint_mcp.gateway.approver import FrontApprover
from hardpoint_mcp.gateway.http import serve_http, serve_stdio
from hardpoint_mcp.gateway.server import Gateway
from hardpoint_mcp.servers import Servers


class NobodyHere(Approver):
    """Leaves every question to an operator: the client's person may not answer."""

    async def decide(
        self, request: ApprovalRequest, context: JobContext
    ) -> Decision | Pending | None:
        return None


def make_runtime(config: Any, **options: Any) -> Runtime:
    """A runtime whose questions go to the clients. A terminal, if there is one, is not asked."""
    settings = _settings(config)
    approver: Approver = FrontApprover() if settings.approvals == "ask" else NobodyHere()
    options = {"in_memory": False, "installed_plugins": True, **options}
    return Runtime(config, origin="gateway", approver=[approver], **options)


def make_gateway(runtime: Runtime) -> Gateway:
    """The gateway of a started runtime."""
    installer = runtime.services.extensions("installer").get("mcp_server")
    servers: Servers | None = None if installer is None else installer.servers
    settings = ServeConfig() if servers is None else servers.config.serve
    return Gateway(runtime, servers, settings)


def _settings(config: Any) -> ServeConfig:
    """The `[mcp.serve]` table, before the plugin that owns it is loaded."""
    from hardpoint import structure

    table = dict(config.plugin.get("mcp") or {})
    settings: McpConfig = structure(table, McpConfig, "plugin.mcp")
    return settings.serve


async def serve(
    runtime: Runtime,
    address: tuple[str, int] | None = None,
    *,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve a runtime over HTTP at an address, or else over stdio."""
    async with runtime:
        gateway = make_gateway(runtime)
        if address is None:
            await serve_stdio(gateway)
        else:
            await serve_http(gateway, *address, ready=ready)
