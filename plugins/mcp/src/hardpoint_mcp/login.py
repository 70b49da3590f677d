"""Log in to a server with a person's help: a browser here, a pasted address, another device."""

from __future__ import annotations

import asyncio
import contextlib
import html
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import attrs
import httpx2

from hardpoint.errors import ExternalService, NotAuthorized
from hardpoint_mcp.config import OAuthConfig, ServerConfig
from hardpoint_mcp.http_client import make_client
from hardpoint_mcp.oauth import Login, LoginAuth, LoginStore, Registration
from hardpoint_mcp.wire.errors import plain

_PATIENCE: Final = 300.0
_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"

SecretReader = Callable[[str], Awaitable[str]]
Say = Callable[[str], None]
Ask = Callable[[str], Awaitable[str]]


# the way back from the browser -----------------------------------------------------------------


@attrs.define(eq=False)
class Callback:
    """A listener on loopback for the one request that the browser comes back with."""

    port: int = 0
    _server: asyncio.Server | None = None
    _answer: asyncio.Future[dict[str, str]] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    async def __aenter__(self) -> Callback:
        self._answer = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=65536)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def wait(self) -> dict[str, str]:
        """What the browser brought."""
        assert self._answer is not None
        return await self._answer

    def give(self, address: str) -> bool:
        """Take an address that a person copied; whether it is one."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        if not {"code", "error"} & query.keys():
            return False
        assert self._answer is not None
        if not self._answer.done():
            self._answer.set_result(query)
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(10):
                line = (await reader.readline()).decode("latin-1").split(" ")
                while (await reader.readline()).strip():
                    pass
            known = len(line) > 1 and urlsplit(line[1]).path == "/callback" and self.give(line[1])
            text = "You are logged in and may close this page." if known else "Nothing is here."
            body = f"<!doctype html><title>Hardpoint</title><p>{html.escape(text)}</p>".encode()
            status = "200 OK" if known else "404 Not Found"
            writer.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        writer.close()


async def by_browser(
    name: str,
    config: ServerConfig,
    store: LoginStore,
    *,
    say: Say,
    open_browser: Callable[[str], bool] | None = None,
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
            came = await _first(callback, ask, say)
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


async def _first(callback: Callback, ask: Ask | None, say: Say) -> dict[str, str]:
    """The browser's answer, or one that is pasted, whichever is first."""
    waiting = asyncio.ensure_future(callback.wait())
    pasting = None if ask is None else asyncio.ensure_future(_pasted(callback, ask, say))
    try:
        async with asyncio.timeout(_PATIENCE):
            return await waiting
    except TimeoutError:
        raise ExternalService(f"nobody logged in within {_PATIENCE:g} s") from None
    finally:
        waiting.cancel()
        if pasting is not None:
            pasting.cancel()


async def _pasted(callback: Callback, ask: Ask, say: Say) -> None:
    while not callback.give((await ask("Or paste the address that it ended at: ")).strip()):
        say("That is not it: the address holds code= or error=.")


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
        metadata, server, protected = await _metadata(client, config.url)
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
    left = float(given.get("expires_in") or _PATIENCE)
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


async def _metadata(
    client: httpx2.AsyncClient, url: str
) -> tuple[dict[str, Any], str | None, dict[str, Any]]:
    """Find the authorization server as a refused request leads to it.

    Returns:
        Its description of itself, its name, and the description of what it protects.
    """
    from mcp.client.auth import utils
    from mcp.shared.auth_utils import check_resource_allowed

    refused = await client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    named = utils.extract_resource_metadata_from_www_auth(refused)
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
            return document, server, protected
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


@contextlib.asynccontextmanager
async def stdin_lines() -> AsyncIterator[Ask]:
    """Lines that a person types, read on a daemon thread: one that waits never holds up the end."""
    import threading

    loop = asyncio.get_running_loop()

    async def ask(prompt: str) -> str:
        answer: asyncio.Future[str] = loop.create_future()

        def give(line: str) -> None:
            if not answer.done():
                answer.set_result(line)

        def read() -> None:
            with contextlib.suppress(EOFError, OSError, RuntimeError):
                loop.call_soon_threadsafe(give, input(prompt))

        threading.Thread(target=read, daemon=True).start()
        return await answer

    yield ask
