"""`hardpoint wasm webhooks`: receive requests for the tools that were granted them."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import click

from hardpoint.errors import ConfigError
from hardpoint_wasm.install import make_store
from hardpoint_wasm.settings import config_of
from hardpoint_wasm.store import Store


@click.command()
@click.option("--http", "address", default="127.0.0.1:8790", show_default=True, metavar="HOST:PORT")
@click.option("--user", help="Whose secrets and tools; default: the login name.")
@click.pass_obj
def webhooks(state: Any, address: str, user: str | None) -> None:
    """Receive webhooks for tools: POST /webhook/tools/NAME, proved as their files say.

    Serves plain http: put a proxy with TLS in front of it.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise click.UsageError(f"--http is HOST:PORT, not {address!r}")
    owner = state.secret_owner(user, False)
    store = make_store(config_of(state))
    _check(store)

    async def work() -> None:
        from hardpoint_wasm.webhook_server import Receiver, serve

        async with state.runtime(origin="gateway") as runtime:
            receiver = Receiver(runtime, store, owner)
            await serve(receiver, host.strip("[]"), int(port), _say)

    asyncio.run(work())


def _check(store: Store) -> None:
    """Refuse to start what could not do what it was granted."""
    hooks = [hook for record in store.records() if (hook := record.capabilities.webhook)]
    if not hooks:
        raise ConfigError(
            "no tool was granted to receive webhooks",
            hint="hardpoint wasm grant NAME webhook:",
        )
    needed = {"uvicorn"} | {"cryptography" for hook in hooks if hook.signature_key_secret_name}
    missing = sorted(name for name in needed if importlib.util.find_spec(name) is None)
    if missing:
        raise ConfigError(
            f"{' and '.join(missing)} is not installed",
            hint="pip install 'hardpoint-wasm[webhook]'",
        )


def _say(url: str) -> None:
    click.echo(f"receiving webhooks at {url}", err=True)
