"""Get the secret of a tool with a person's help: a login at the service, or by hand; then try it.

Nothing is kept that the service refuses. What is asked of whom is what was granted of the
capabilities file; the file itself stays a stranger's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from hardpoint.errors import HardpointError, NotAuthorized
from hardpoint.net import Bearer, Binding
from hardpoint.net.login import Ask, Callback, Say, Show, wait_for_answer
from hardpoint.net.oauth import authorize, exchange
from hardpoint_wasm.auth import Auth, host
from hardpoint_wasm.capabilities import Capabilities
from hardpoint_wasm.logins import Logins
from hardpoint_wasm.store import Record

_MAX_ANSWER = 64 * 1024


@attrs.frozen
class Kept:
    """How a login ended."""

    place: str
    """The store that has the secret now."""
    checked: str
    """What the validation said; empty when there was none."""


def scopes_for(auth: Auth, records: Sequence[Record]) -> Sequence[str]:
    """The scopes of every tool that shares this login: one must not end what another may do."""
    assert auth.oauth is not None, "the caller looked"
    scopes = dict.fromkeys(auth.oauth.scopes)
    for record in records:
        other = record.capabilities.auth
        if (
            other is not None
            and other.oauth is not None
            and other.secret_name.lower() == auth.secret_name.lower()
            and other.oauth.token_url == auth.oauth.token_url
        ):
            scopes |= dict.fromkeys(other.oauth.scopes)
    return tuple(scopes)


async def by_browser(
    capabilities: Capabilities,
    scopes: Sequence[str],
    logins: Logins,
    services: Any,
    owner: str,
    *,
    say: Say,
    show: Show | None = None,
    ask: Ask | None = None,
    port: int = 0,
) -> Kept:
    """Send a person to the service, wait for the way back, exchange the code, keep the tokens.

    Args:
        show: Opens an address; without it the person opens it.
        ask: Reads a line: the address that a browser on another machine ended at.
        port: Of the way back, where a service wants to know it beforehand; any free one.

    Raises:
        HardpointError: The login failed, and nothing was kept; the message says why.
    """
    auth = capabilities.auth
    assert auth is not None, "the caller looked"
    assert auth.oauth is not None, "the caller looked"

    async def secret(name: str) -> str | None:
        if not await services.secrets.exists(name, owner):
            return None
        value: str = await services.secrets.reveal(name, owner, "the client of a login")
        return value

    app = attrs.evolve(await auth.oauth.app(secret), scopes=tuple(scopes))
    client = services.http()
    for address in (app.authorization_url, app.token_url):
        client.guard.check(address)
    async with Callback(port) as callback:
        begun = authorize(app, callback.uri)
        callback.state = begun.state
        say(f"Log in at {host(app.authorization_url)}:\n{begun.url}")
        if show is None or not show(begun.url):
            say("Open this address in a browser.")
        answer = await wait_for_answer(callback, say, ask)
    tokens = await exchange(client, app, begun, answer)
    checked = await validate(capabilities, tokens.access_token, services)
    return Kept(await logins.keep(owner, auth.secret_name, app, tokens), checked)


async def by_hand(capabilities: Capabilities, value: str, services: Any, owner: str) -> Kept:
    """Try a secret that a person gave, and keep it.

    Raises:
        HardpointError: The service refuses it; nothing was kept.
    """
    auth = capabilities.auth
    assert auth is not None
    checked = await validate(capabilities, value, services)
    return Kept(await services.secrets.set(owner, auth.secret_name, value), checked)


async def validate(capabilities: Capabilities, value: str, services: Any) -> str:
    """Ask the service whether a secret works; what it said.

    Raises:
        NotAuthorized: It does not.
    """
    auth = capabilities.auth
    assert auth is not None
    endpoint = auth.validation_endpoint
    if endpoint is None:
        return ""

    async def reveal(name: str) -> str:
        return value

    client = services.http().bound(_bindings(capabilities, auth), reveal)
    where = host(endpoint.url)
    try:
        answer = await client.request(
            endpoint.method, endpoint.url, headers=endpoint.headers, max_bytes=_MAX_ANSWER
        )
    except NotAuthorized:
        raise
    except HardpointError as error:
        return f"not checked, since {where} could not be asked: {error.message}"
    if answer.status != endpoint.success_status:
        raise NotAuthorized(
            f"{where} does not take it: it answered with status {answer.status}, not"
            f" {endpoint.success_status}; nothing was kept",
            hint="look at what the tool says about getting it, and try again",
        )
    return f"{where} takes it"


def _bindings(capabilities: Capabilities, auth: Auth) -> list[Binding]:
    """Put the secret where requests of the tool carry it; in the usual header without a word."""
    endpoint = auth.validation_endpoint
    assert endpoint is not None
    http = capabilities.http
    places = [
        credential.location.resolve()
        for credential in (http.credentials.values() if http else ())
        if credential.secret_name.lower() == auth.secret_name.lower()
    ]
    unsafe = endpoint.url.startswith("http://")
    return [
        Binding(auth.secret_name, host(endpoint.url), location=place, allow_http=unsafe)
        for place in places or [Bearer()]
    ]
