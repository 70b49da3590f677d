"""What `hardpoint doctor` finds out about the servers: it starts each and lists its tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hardpoint.errors import HardpointError
from hardpoint.interfaces import Check, CheckResult
from hardpoint_mcp.servers import Servers
from hardpoint_mcp.toolset import McpToolset
from hardpoint_mcp.trust import scan


class ServersCheck(Check):
    """One result for each enabled server."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def run(self) -> Sequence[CheckResult]:
        toolsets = [toolset for _, toolset in sorted(self._servers.toolsets.items())]
        results = await asyncio.gather(*(self._one(toolset) for toolset in toolsets))
        await self._servers.stop()
        return results

    async def _one(self, toolset: McpToolset) -> CheckResult:
        name = f"MCP server {toolset.name}"
        try:
            catalogue = await toolset.refresh()
        except HardpointError as error:
            return CheckResult(name, "failed", error.message, error.hint)
        except TimeoutError:
            return CheckResult(name, "failed", "it did not answer in time")
        suspicious = [one for one in catalogue.tools.values() if scan(one)]
        if suspicious:
            tools = ", ".join(listed.original for listed in suspicious[:5])
            return CheckResult(
                name,
                "warning",
                f"the definitions of {tools} talk to the model",
                hint=f"read them: hardpoint mcp test {toolset.name}",
            )
        return CheckResult(name, "ok", f"{len(catalogue.tools)} tools")
