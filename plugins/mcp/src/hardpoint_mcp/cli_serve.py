"""`hardpoint serve`: parse, start, and keep stdout for the protocol."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click


class Address(click.ParamType[Any]):
    """`HOST:PORT`, `[IPv6]:PORT` or `PORT`, which is one of this machine."""

    name = "address"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is not HOST:PORT", param, ctx)
        return (host.strip("[]") or "127.0.0.1", int(port))


@click.command()
@click.option("--stdio", is_flag=True, help="Serve one client at stdin and stdout (the default).")
@click.option("--http", type=Address(), metavar="HOST:PORT", help="Serve over streamable HTTP.")
@click.pass_obj
def serve(state: Any, stdio: bool, http: tuple[str, int] | None) -> None:
    """Offer every tool, and every configured server's tools, as one MCP server.

    Nothing but the protocol is written to stdout. Over HTTP the address is /mcp; anything but a
    loopback address needs [mcp.serve.clients] or [mcp.serve.oauth].
    """
    if stdio and http is not None:
        raise click.UsageError("--stdio and --http exclude each other")
    from hardpoint_mcp.gateway import http as over_http
    from hardpoint_mcp.gateway import run

    state.load_config()  # says what is wrong with it before anything is served
    runtime = run.make_runtime(state.config_file, adjust=state.with_switches)
    if http is not None:
        over_http.check_reachable(run.settings_of(runtime).serve, http[0])

    def ready(url: str) -> None:
        click.echo(f"serving on {url}", err=True)

    try:
        asyncio.run(run.serve(runtime, http, ready=ready))
    except KeyboardInterrupt:
        sys.exit(130)
