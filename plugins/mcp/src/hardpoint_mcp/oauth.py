"""Tokens for HTTP servers: kept, sent, refreshed once for all, asked for when a person is there.

The protocol itself (discovery, registration, PKCE, the checks of state and issuer) is the SDK's. It
is imported only when a login or a refresh is due: a valid token is sent without it. This module is
itself imported with the first HTTP server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
import httpx2

from hardpoint.net.oauth import exclusive
from hardpoint_mcp.config import OAuthConfig
from hardpoint_mcp.wire.errors import AuthRequired, plain

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

logger = logging.getLogger(__name__)

_EARLY: Final = 30.0
"""A token is refreshed this many seconds before it ends."""

_ROUNDS: Final = 3
"""How often one request is tried: with what is known, refreshed, after a new login."""

Authorize = Callable[[str], Awaitable[tuple[str, str | None, str | None]]]
"""Sends a person to an address and gives what comes back: code, state, issuer."""


@attrs.frozen
class Login:
    """What is kept of a login."""

    access_token: str = attrs.field(repr=False)
    refresh_token: str | None = attrs.field(default=None, repr=False)
    expires_at: float | None = None
    scope: str | None = None

    @property
    def valid(self) -> bool:
        return self.expires_at is None or time.time() < self.expires_at - _EARLY


@attrs.frozen
class Registration:
    """What is known of the authorization server, and as whom it knows us."""

    client: dict[str, Any] = attrs.field(factory=dict, repr=False)
    metadata: dict[str, Any] = attrs.field(factory=dict)
    server: str | None = None
    resource: dict[str, Any] = attrs.field(factory=dict)
    """What the server itself says tokens must be made for."""


class LoginStore(Protocol):
    """Where the login to one server is kept."""

    async def login(self) -> Login | None: ...
    async def save_login(self, login: Login | None) -> None: ...
    async def registration(self) -> Registration: ...
    async def save_registration(self, registration: Registration) -> None: ...
    def exclusive(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Only one task of one process at a time is inside."""
        ...


@attrs.define(eq=False)
class MemoryLogins:
    """For one process and no longer."""

    kept: Login | None = None
    known: Registration = attrs.field(factory=Registration)
    _lock: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    async def login(self) -> Login | None:
        return self.kept

    async def save_login(self, login: Login | None) -> None:
        self.kept = login

    async def registration(self) -> Registration:
        return self.known

    async def save_registration(self, registration: Registration) -> None:
        self.known = registration

    @contextlib.asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        async with self._lock:
            yield


class SecretLogins:
    """In the secret store: `mcp_NAME_access_token`, `_refresh_token`, `_login`."""

    def __init__(self, name: str, secrets: Any, owner: str, locks: Path) -> None:
        """Args:
        secrets: A `SecretStore`.
        locks: The folder for lock files, so that two processes do not refresh at once.
        """
        self._name = f"mcp_{name}"
        self._secrets = secrets
        self._owner = owner
        self._lock_file = locks / f"{name}.login.lock"
        self._lock = asyncio.Lock()

    async def login(self) -> Login | None:
        token = await self._get("access_token")
        if token is None:
            return None
        about = (await self._about()).get("login", {})
        return Login(
            token,
            await self._get("refresh_token"),
            about.get("expires_at"),
            about.get("scope"),
        )

    async def save_login(self, login: Login | None) -> None:
        await self._set("access_token", login.access_token if login else None)
        await self._set("refresh_token", login.refresh_token if login else None)
        about = await self._about()
        about["login"] = {"expires_at": login.expires_at, "scope": login.scope} if login else {}
        await self._set("login", json.dumps(about))

    async def registration(self) -> Registration:
        return Registration(**(await self._about()).get("registration", {}))

    async def save_registration(self, registration: Registration) -> None:
        about = await self._about()
        about["registration"] = attrs.asdict(registration)
        await self._set("login", json.dumps(about))

    async def forget(self) -> None:
        """Log out."""
        for part in ("access_token", "refresh_token", "login"):
            await self._set(part, None)

    def exclusive(self) -> contextlib.AbstractAsyncContextManager[None]:
        return exclusive(self._lock_file, self._lock)

    async def _about(self) -> dict[str, Any]:
        text = await self._get("login")
        try:
            about = json.loads(text) if text else {}
        except ValueError:
            return {}
        return about if isinstance(about, dict) else {}

    async def _get(self, part: str) -> str | None:
        value: str | None = await self._secrets.get(self._owner, f"{self._name}_{part}")
        return value

    async def _set(self, part: str, value: str | None) -> None:
        name = f"{self._name}_{part}"
        if value is None:
            with contextlib.suppress(KeyError):
                await self._secrets.delete(self._owner, name)
        else:
            await self._secrets.set(self._owner, name, value)


class LoginAuth(httpx2.Auth):
    """Sends the token with each request; gets a new one when it must and may."""

    def __init__(
        self,
        server: str,
        url: str,
        store: LoginStore,
        config: OAuthConfig | None = None,
        *,
        authorize: Authorize | None = None,
        redirect_uri: str = "http://127.0.0.1/callback",
        secrets: Callable[[str], Awaitable[str]] | None = None,
    ) -> None:
        """Args:
        server: Its name, for messages.
        url: Its address, for which tokens are made.
        authorize: Where a person can be asked; without it an error says how to log in.
        secrets: Reads the secret that the configuration names.
        """
        self._server = server
        self._url = url
        self._store = store
        self._config = config or OAuthConfig()
        self._authorize = authorize
        self._redirect_uri = redirect_uri
        self._secrets = secrets
        self._current: Login | None = None

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        renewed = False
        for _ in range(_ROUNDS):
            used = await self._known()
            may_renew = self._may_renew(used)
            refused = 0
            if not may_renew or (used is not None and used.valid):
                if used is not None:
                    request.headers["authorization"] = f"Bearer {used.access_token}"
                response = yield request
                if not may_renew or not _challenges(response):
                    return
                await response.aread()
                refused = response.status_code
            async with self._store.exclusive():
                known = self._current = await self._store.login()
                if known is not None and known.valid and known != used:
                    # Somebody else was quicker.
                    continue
                if refused == 401 and known is not None and known.refresh_token and not renewed:
                    # The server refuses a token that should be valid: have it refreshed.
                    await self._store.save_login(attrs.evolve(known, expires_at=1.0))
                renewed = True
                flow = (await self._provider()).async_auth_flow(request)
                try:
                    outgoing = await anext(flow)
                    # The request itself is sent outside: it may take long, and others wait here.
                    while not (outgoing is request and await self._has_new(known)):
                        response = yield outgoing
                        outgoing = await flow.asend(response)
                except StopAsyncIteration:
                    return
                except AuthRequired:
                    raise
                except Exception as error:  # the SDK's flow fails in many classes
                    raise AuthRequired(
                        f"{self._server}: the login failed: {plain(str(error))}",
                        hint=f"log in with: hardpoint mcp auth {self._server}",
                    ) from error
                finally:
                    await flow.aclose()
                    self._current = await self._store.login()

    def _may_renew(self, used: Login | None) -> bool:
        return (
            self._authorize is not None
            or self._config.grant == "client_credentials"
            or (used is not None and used.refresh_token is not None)
        )

    async def _has_new(self, former: Login | None) -> bool:
        login = await self._store.login()
        return (
            login is not None
            and login.valid
            and (former is None or login.access_token != former.access_token)
        )

    async def _known(self) -> Login | None:
        if self._current is None or not self._current.valid:
            self._current = await self._store.login()
        return self._current

    async def _provider(self) -> OAuthClientProvider:
        """The SDK's flow, loaded with what is known already."""
        from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
        from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
        from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata, ProtectedResourceMetadata

        config, store = self._config, self._store
        known = await store.registration()
        scope = " ".join(config.scopes) or None
        secret = await self._secret()
        storage = _SdkStorage(store, self._preregistered(secret))
        coming: list[tuple[str, str | None, str | None]] = []

        async def redirect(url: str) -> None:
            if self._authorize is None:
                raise AuthRequired(
                    f"{self._server} needs a login",
                    hint=f"log in with: hardpoint mcp auth {self._server}",
                )
            coming.append(await self._authorize(url))

        async def callback() -> AuthorizationCodeResult:
            code, state, issuer = coming.pop()
            return AuthorizationCodeResult(code=code, state=state, iss=issuer)

        provider: OAuthClientProvider
        if config.grant == "client_credentials":
            assert config.client_id is not None
            provider = ClientCredentialsOAuthProvider(
                self._url,
                storage,
                config.client_id,
                secret or "",
                scope=scope,
                issuer=config.issuer,
            )
        else:
            provider = OAuthClientProvider(
                self._url,
                OAuthClientMetadata.model_validate(
                    {
                        "client_name": "Hardpoint",
                        "redirect_uris": [self._redirect_uri],
                        "grant_types": ["authorization_code", "refresh_token"],
                        "response_types": ["code"],
                        "scope": scope,
                    }
                ),
                storage,
                redirect,
                callback,
                client_metadata_url=config.client_metadata_url,
            )
        storage.provider = provider
        if known.metadata:
            # Without it a refresh would guess where the token endpoint is.
            provider.context.oauth_metadata = OAuthMetadata.model_validate(known.metadata)
            provider.context.auth_server_url = known.server
        if known.resource:
            provider.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                known.resource
            )
        return provider

    async def _secret(self) -> str | None:
        name = self._config.client_secret
        if name is None:
            return None
        if self._secrets is None:
            raise AuthRequired(f"{self._server}: the secret {name!r} cannot be read here")
        return await self._secrets(name.removeprefix("secret:"))

    def _preregistered(self, secret: str | None) -> dict[str, Any] | None:
        if self._config.client_id is None:
            return None
        return {
            "client_id": self._config.client_id,
            "client_secret": secret,
            "redirect_uris": [self._redirect_uri],
            "token_endpoint_auth_method": "client_secret_basic" if secret else "none",
        }


class _SdkStorage:
    """A `LoginStore` in the shape that the SDK expects."""

    def __init__(self, store: LoginStore, preregistered: dict[str, Any] | None) -> None:
        self._store = store
        self._preregistered = preregistered
        self.provider: OAuthClientProvider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        login = await self._store.login()
        if login is None:
            return None
        left = None if login.expires_at is None else int(login.expires_at - time.time() - _EARLY)
        if self.provider is not None:
            self.provider.context.token_expiry_time = None if left is None else time.time() + left
        return OAuthToken(
            access_token=login.access_token,
            refresh_token=login.refresh_token,
            scope=login.scope,
            expires_in=left,
        )

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._store.save_login(
            Login(tokens.access_token, tokens.refresh_token, expires, tokens.scope)
        )
        await self._remember()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        known = self._preregistered or (await self._store.registration()).client
        return OAuthClientInformationFull.model_validate(known) if known else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._remember(client_info)

    async def _remember(self, client_info: OAuthClientInformationFull | None = None) -> None:
        known = await self._store.registration()
        context = self.provider.context if self.provider is not None else None
        if client_info is not None:
            client = client_info.model_dump(mode="json", exclude_none=True)
            known = attrs.evolve(known, client=client)
        if context is not None and context.oauth_metadata is not None:
            metadata = context.oauth_metadata.model_dump(mode="json", exclude_none=True)
            known = attrs.evolve(known, metadata=metadata, server=context.auth_server_url)
        if context is not None and context.protected_resource_metadata is not None:
            resource = context.protected_resource_metadata.model_dump(
                mode="json", exclude_none=True
            )
            known = attrs.evolve(known, resource=resource)
        await self._store.save_registration(known)


def _challenges(response: httpx2.Response) -> bool:
    """Whether a refusal is about the token, and not about what it was used for."""
    if response.status_code == 401:
        return True
    return "insufficient_scope" in response.headers.get("www-authenticate", "")
