"""Put the runtime of the gateway together and serve it. Who may be asked is fixed here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from hardpoint import Config, Runtime
from hardpoint_mcp.gateway.approver import FrontApprover
from hardpoint_mcp.gateway.http import serve_http, serve_stdio
from hardpoint_mcp.gateway.server import Gateway, settings_of

__all__ = ["make_gateway", "make_runtime", "serve", "settings_of"]

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


def make_gateway(runtime: Runtime) -> Gateway:
    """The gateway of a started runtime."""
    return Gateway(runtime)


async def _reload(runtime: Runtime) -> None:
    try:
        await runtime.reload()
    except Exception as error:  # what plugins start is foreign code
        logger.error("the former settings stay in force: %s", error)


async def serve(
    runtime: Runtime,
    address: tuple[str, int] | None = None,
    *,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a runtime over HTTP at an address, or else over stdio.

    Changed files of its configuration are put in force while it serves, and at SIGHUP.

    Args:
        ready: Told the HTTP address once clients can connect.
    """
    tasks: set[asyncio.Task[None]] = set()

    def in_background(work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async with runtime:
        gateway = make_gateway(runtime)
        in_background(runtime.follow_config())
        with contextlib.suppress(ValueError, RuntimeError):  # only the main thread gets signals
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGHUP, lambda: in_background(_reload(runtime))
            )
        try:
            if address is None:
                await serve_stdio(gateway)
            else:
                await serve_http(gateway, *address, ready=ready)
        finally:
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
