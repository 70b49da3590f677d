"""Log in to a server with a person's help: a browser here, a pasted address, another device."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from hardpoint.errors import ExternalService, NotAuthorized
from hardpoint.net.login import PATIENCE, Ask, Callback, Say, Show, wait_for_answer
from hardpoint_mcp.config import OAuthConfig, ServerConfig
from hardpoint_mcp.http_client import make_client
from hardpoint_mcp.oauth import Login, LoginAuth, LoginStore, Registration
from hardpoint_mcp.wire.errors import plain

_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"

SecretReader = Callable[[str], Awaitable[str]]


async def by_browser(
    name: str,
    config: ServerConfig,
    store: LoginStore,
    *,
    say: Say,
    open_browser: Show | None = None,
    ask: Ask | None = None,
    secrets: SecretReader | None = None,
) -> Login:
    """Send a person to the authorization server and wait for the way back.

    Args:
        say: Shows a line to the person.
        open_browser: Opens an address; without it the person opens it.
        ask: Reads a line: on a machine without a browser, the address that another one ended at.

    Raises:
        ExternalService: The login failed; the message says why.
    """
    assert config.url is not None
    oauth = config.oauth or OAuthConfig()
    async with Callback(oauth.redirect_port) as callback:

        async def authorize(url: str) -> tuple[str, str | None, str | None]:
            host = urlsplit(url).hostname or ""
            say(f"Log in at {host}:\n{url}")
            if open_browser is None or not open_browser(url):
                say("Open this address in a browser.")
            came = await wait_for_answer(callback, say, ask)
            if "code" not in came:
                reason = came.get("error_description") or came.get("error", "no reason given")
                raise NotAuthorized(f"{host} refused the login: {plain(reason)}")
            return came["code"], came.get("state"), came.get("iss")

        auth = LoginAuth(
            name,
            config.url,
            store,
            config.oauth,
            authorize=authorize,
            redirect_uri=callback.uri,
            secrets=secrets,
        )
        await _knock(config, auth)
    login = await store.login()
    if login is None:
        raise ExternalService(f"{name} asks for no login")
    return login


async def _knock(config: ServerConfig, auth: httpx2.Auth) -> None:
    """One request that makes the server ask who it is."""
    assert config.url is not None
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"accept": "application/json, text/event-stream", **config.headers}
    async with make_client(config.url, auth=auth) as client:
        try:
            async with client.stream(
                "POST", config.url, json=body, headers=headers, timeout=60
            ) as response:
                if response.status_code in (401, 403):
                    raise ExternalService(
                        f"the server refuses the new token (HTTP {response.status_code})"
                    )
        except httpx2.HTTPError as error:
            raise ExternalService(f"the server cannot be reached: {plain(str(error))}") from error


# another device --------------------------------------------------------------------------------


async def by_device(
    name: str,
    config: ServerConfig,
    store: LoginStore,
    *,
    say: Say,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Login:
    """Show a code to enter on another device, and ask until it was (RFC 8628).

    Raises:
        ExternalService: The server offers no such login, or it failed.
    """
    assert config.url is not None
    async with make_client(config.url) as client:
        metadata, server, protected, challenged = await _metadata(client, config.url)
        endpoint = metadata.get("device_authorization_endpoint")
        if not endpoint:
            raise ExternalService(
                f"{name} offers no login by another device",
                hint="log in without --device, and paste the address that the browser ends at",
            )
        registered = await _register(client, config, store, metadata, server)
        await store.save_registration(Registration(registered, metadata, server, protected))
        resource = str(protected.get("resource") or config.url)
        form = {"client_id": registered["client_id"], "resource": resource}
        scope = " ".join(config.oauth.scopes) if config.oauth else ""
        scope = scope or _wanted(challenged, protected, metadata)
        if scope:
            form["scope"] = scope
        given = await _post(client, str(endpoint), form)
        where = given.get("verification_uri_complete") or given.get("verification_uri")
        say(f"Open {where} on any device and enter the code {given.get('user_code')}")
        token = await _poll(client, metadata, registered, resource, given, sleep)
    expires = token.get("expires_in")
    login = Login(
        str(token["access_token"]),
        token.get("refresh_token"),
        time.time() + expires if isinstance(expires, int | float) else None,
        token.get("scope") or scope or None,
    )
    await store.save_login(login)
    return login


async def _poll(
    client: httpx2.AsyncClient,
    metadata: dict[str, Any],
    registered: dict[str, Any],
    resource: str,
    given: dict[str, Any],
    sleep: Callable[[float], Awaitable[None]],
) -> dict[str, Any]:
    interval = float(given.get("interval") or 5)
    left = float(given.get("expires_in") or PATIENCE)
    form = {
        "grant_type": _DEVICE_GRANT,
        "device_code": str(given.get("device_code")),
        "client_id": registered["client_id"],
        "resource": resource,
    }
    if registered.get("client_secret"):
        form["client_secret"] = registered["client_secret"]
    while left > 0:
        await sleep(interval)
        left -= interval
        response = await client.post(str(metadata.get("token_endpoint")), data=form)
        answer = _json(response)
        if response.status_code == 200 and answer.get("access_token"):
            return answer
        match answer.get("error"):
            case "authorization_pending":
                continue
            case "slow_down":
                interval += 5
            case error:
                raise ExternalService(f"the login failed: {plain(str(error))}")
    raise ExternalService("the code was not entered in time")


def _wanted(challenged: str | None, protected: dict[str, Any], metadata: dict[str, Any]) -> str:
    """What to ask for where the settings do not say: the server's own words, in the SDK's order."""
    from mcp.client.auth.utils import get_client_metadata_scopes
    from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
    from pydantic import ValidationError

    try:
        resource = ProtectedResourceMetadata.model_validate(protected) if protected else None
        server = OAuthMetadata.model_validate(metadata)
    except ValidationError:
        return challenged or ""
    return get_client_metadata_scopes(challenged, resource, server, ["refresh_token"]) or ""


async def _metadata(
    client: httpx2.AsyncClient, url: str
) -> tuple[dict[str, Any], str | None, dict[str, Any], str | None]:
    """Find the authorization server as a refused request leads to it.

    Returns:
        Its description of itself, its name, the description of what it protects, and the scope that
        the refusal named.
    """
    from mcp.client.auth import utils
    from mcp.shared.auth_utils import check_resource_allowed

    refused = await client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    named = utils.extract_resource_metadata_from_www_auth(refused)
    scope = utils.extract_scope_from_www_auth(refused)
    server, protected = None, {}
    for address in utils.build_protected_resource_metadata_discovery_urls(named, url):
        document = _json(await client.get(address))
        if document.get("authorization_servers"):
            server, protected = str(document["authorization_servers"][0]), document
            if not check_resource_allowed(url, str(document.get("resource"))):
                raise ExternalService(f"{address} speaks for another server")
            break
    for address in utils.build_oauth_authorization_server_metadata_discovery_urls(server, url):
        document = _json(await client.get(address))
        if document.get("token_endpoint"):
            expected = (server or "").rstrip("/")
            if expected and str(document.get("issuer", "")).rstrip("/") != expected:
                raise ExternalService(f"{address} speaks for another authorization server")
            return document, server, protected, scope
    raise ExternalService(f"no authorization server was found for {url}")


async def _register(
    client: httpx2.AsyncClient,
    config: ServerConfig,
    store: LoginStore,
    metadata: dict[str, Any],
    server: str | None,
) -> dict[str, Any]:
    oauth = config.oauth or OAuthConfig()
    known = await store.registration()
    if oauth.client_id is not None:
        registered = {"client_id": oauth.client_id}
    elif known.client.get("client_id") and known.server == server:
        registered = known.client
    elif oauth.client_metadata_url and metadata.get("client_id_metadata_document_supported"):
        registered = {"client_id": oauth.client_metadata_url}
    elif metadata.get("registration_endpoint"):
        wanted = {
            "client_name": "Hardpoint",
            "grant_types": [_DEVICE_GRANT, "refresh_token"],
            "token_endpoint_auth_method": "none",
            "redirect_uris": ["http://127.0.0.1/callback"],
            "response_types": ["code"],
        }
        registered = _json(await client.post(str(metadata["registration_endpoint"]), json=wanted))
        if not registered.get("client_id"):
            raise ExternalService("the authorization server registers no clients")
    else:
        raise ExternalService(
            "the authorization server registers no clients",
            hint="register one there and set client_id in the server's oauth table",
        )
    return registered


async def _post(client: httpx2.AsyncClient, url: str, form: dict[str, str]) -> dict[str, Any]:
    response = await client.post(url, data=form)
    answer = _json(response)
    if response.status_code != 200:
        what = answer.get("error_description") or answer.get("error") or response.status_code
        raise ExternalService(f"{urlsplit(url).hostname} refused: {plain(str(what))}")
    return answer


def _json(response: httpx2.Response) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
