"""`hardpoint wasm auth` and `logout`: a person gives a tool the secrets that it needs."""

from __future__ import annotations

import asyncio
import getpass
import sys
from typing import Any

import click

from hardpoint import folder
from hardpoint.errors import HardpointError
from hardpoint_wasm.auth import Auth, variable
from hardpoint_wasm.capabilities import Capabilities, RequiredSecret
from hardpoint_wasm.install import make_store
from hardpoint_wasm.settings import config_of
from hardpoint_wasm.store import Record, Store


def _whose(command: Any) -> Any:
    command = click.option("--user", help="Whose login; default: the login name.")(command)
    return click.option("--system", is_flag=True, help="The installation's, not a user's.")(command)


@click.command()
@click.argument("name")
@_whose
@click.option("--no-browser", is_flag=True, help="Show the address instead of opening it.")
@click.option("--port", default=0, help="Of the way back from the browser; any free one.")
@click.option("--by-hand", is_flag=True, help="Give the secret yourself instead of logging in.")
@click.option("--yes", is_flag=True, help="Replace a secret that is there, unasked.")
@click.pass_obj
def auth(
    state: Any,
    name: str,
    user: str | None,
    system: bool,
    no_browser: bool,
    port: int,
    by_hand: bool,
    yes: bool,
) -> None:
    """Log in to the service of a tool, or give its secret; tried where the tool says how."""
    state.require_operator("wasm auth")
    owner = state.secret_owner(user, system)
    store = make_store(config_of(state))
    record = store.get(name)
    capabilities = record.capabilities
    if capabilities.auth is None and capabilities.setup is None:
        raise HardpointError(f"{name} needs no login")

    if not by_hand:
        _refuse_ungranted(record)

    async def work() -> None:
        async with state.runtime() as runtime:
            person = _Person(runtime.services, owner, yes)
            browser = capabilities.auth is not None and capabilities.auth.oauth and not by_hand
            if browser:
                # The login may need the client that setup asks for.
                await person.set_up(capabilities)
                await person.by_browser(record, store, no_browser, port)
                return
            if capabilities.auth is not None:
                await person.by_hand(capabilities)
            await person.set_up(capabilities)

    asyncio.run(work())


@click.command()
@click.argument("name")
@_whose
@click.pass_obj
def logout(state: Any, name: str, user: str | None, system: bool) -> None:
    """Forget the login of a tool, or the secret that was given for it."""
    state.require_operator("wasm logout")
    owner = state.secret_owner(user, system)
    capabilities = make_store(config_of(state)).get(name).capabilities
    if capabilities.auth is None:
        raise HardpointError(f"{name} has no login")
    secret = capabilities.auth.secret_name

    async def work() -> bool:
        from hardpoint_wasm.logins import Logins

        async with state.runtime() as runtime:
            return await Logins(runtime.services, folder("data") / "logins").forget(owner, secret)

    if not asyncio.run(work()):
        raise HardpointError(f"{owner} has no secret {secret!r} that can be deleted")
    click.echo(f"forgot {secret} of {owner}")


class _Person:
    """What is asked of the person at the keyboard."""

    def __init__(self, services: Any, owner: str, yes: bool) -> None:
        self._services = services
        self._owner = owner
        self._yes = yes

    async def _begin(self, auth: Auth) -> None:
        for line in auth.lines():
            _say(line)
        secret = auth.secret_name
        if not self._yes and await self._has(secret):
            question = f"{self._owner} has the secret {secret!r}; replace it?"
            click.confirm(question, abort=True, err=True)

    async def by_browser(self, record: Record, store: Store, no_browser: bool, port: int) -> None:
        from hardpoint.net.login import open_browser, stdin_lines
        from hardpoint_wasm.login import by_browser, scopes_for
        from hardpoint_wasm.logins import Logins

        auth = record.capabilities.auth
        assert auth is not None, "the caller looked"
        await self._begin(auth)
        async with stdin_lines() as ask:
            kept = await by_browser(
                record.capabilities,
                scopes_for(auth, store.records()),
                Logins(self._services, folder("data") / "logins"),
                self._services,
                self._owner,
                say=_say,
                show=None if no_browser else open_browser,
                # Without a terminal a line may still come: the address, by a pipe.
                ask=ask,
                port=port,
            )
        self._tell(auth, kept)

    async def by_hand(self, capabilities: Capabilities) -> None:
        from hardpoint_wasm.login import by_hand

        auth = capabilities.auth
        assert auth is not None, "the caller looked"
        await self._begin(auth)
        value = variable(auth.env_var)
        if value is not None:
            _say(f"the variable {auth.env_var} has it")
        else:
            value = _read(f"value of {auth.secret_name}: ")
        if not value:
            raise HardpointError("nothing was given, so nothing was kept")
        self._tell(auth, await by_hand(capabilities, value, self._services, self._owner))

    async def set_up(self, capabilities: Capabilities) -> None:
        """The other secrets that a tool needs, as far as they are missing."""
        if capabilities.setup is None:
            return
        known = capabilities.auth.secret_name.lower() if capabilities.auth else None
        for secret in capabilities.setup.secrets:
            if secret.name.lower() == known or await self._has(secret.name):
                continue
            await self._set_up(secret)

    async def _set_up(self, secret: RequiredSecret) -> None:
        _say(secret.prompt)
        more = " (empty: none)" if secret.optional else ""
        value = _read(f"value of {secret.name}{more}: ")
        if value or not secret.optional:
            place = await self._services.secrets.set(self._owner, secret.name, value)
            click.echo(f"{secret.name} of {self._owner} is in {place}")

    async def _has(self, secret: str) -> bool:
        return secret.lower() in await self._services.secrets.names(self._owner)

    def _tell(self, auth: Auth, kept: Any) -> None:
        click.echo(f"{auth.secret_name} of {self._owner} is in {kept.place}")
        if kept.checked:
            click.echo(kept.checked)


def _refuse_ungranted(record: Record) -> None:
    """A login that was asked for and not granted is no reason to type a secret."""
    asked = Capabilities.from_json(record.asked).auth
    if asked is None or asked.oauth is None or asked.oauth.permission in record.granted:
        return
    permission = asked.oauth.permission
    raise HardpointError(
        f"{record.name} is not granted {permission!r}",
        hint=f"hardpoint wasm grant {record.name} {permission}, or give the secret with --by-hand",
    )


def _read(prompt: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(prompt).strip()
    return sys.stdin.readline().strip()


def _say(line: str) -> None:
    """A line to the person; a stranger's text cannot redraw the terminal."""
    shown = "\n".join(
        "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in part)
        for part in line.split("\n")
    )
    click.echo(shown, err=True)
