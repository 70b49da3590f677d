"""Whose token it is: configured ones by hash, an authorization server's by its keys."""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Sequence
from typing import Any, Final

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url
from pydantic import AnyHttpUrl
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hardpoint.errors import ConfigError, HardpointError
from hardpoint.interfaces import SYSTEM
from hardpoint_mcp.config import GatewayOAuth, ServeConfig
from hardpoint_mcp.gateway.clients import IDENTITY_CLAIM

logger = logging.getLogger(__name__)

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")
_KEYS_FOR: Final = 600.0
_TOO_OFTEN: Final = 10.0


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Verifier:
    """Asks the configured tokens first, then the authorization server's."""

    def __init__(self, config: ServeConfig, secrets: Any) -> None:
        self._config = config
        self._secrets = secrets
        self._hashes: dict[str, str] | None = None
        self._remote = None if config.oauth is None else RemoteTokens(config.oauth, secrets)

    async def verify_token(self, token: str) -> AccessToken | None:
        """What a token gives, or None."""
        found = await self._configured(token)
        if found is None and self._remote is not None:
            found = await self._remote.verify(token)
        return found

    async def _configured(self, token: str) -> AccessToken | None:
        if self._hashes is None:
            self._hashes = {
                name: await self._hash_of(name, identity.token)
                for name, identity in self._config.clients.items()
            }
        given = _hash(token)
        match = None
        for name, expected in self._hashes.items():
            # All of them, always: how long it takes says nothing about which one was nearly right.
            if hmac.compare_digest(given, expected):
                match = name
        if match is None:
            return None
        identity = self._config.clients[match]
        return AccessToken(
            token=given,
            client_id=match,
            subject=identity.user,
            scopes=[],
            claims={IDENTITY_CLAIM: identity},
        )

    async def _hash_of(self, name: str, token: str) -> str:
        kind, _, value = token.partition(":")
        if kind == "sha256" and len(value) == 64:
            return value.lower()
        if kind == "secret" and value:
            return _hash(await self._secrets.reveal(value, SYSTEM, f"gateway client {name}"))
        raise ConfigError(
            f"[mcp.serve.clients.{name}] token must be secret:NAME or sha256:HEX",
            hint="make a hash with: printf %s TOKEN | sha256sum",
        )


class RemoteTokens:
    """Tokens of an authorization server: signed ones by its keys, opaque ones by asking it."""

    def __init__(self, config: GatewayOAuth, secrets: Any) -> None:
        self._config = config
        self._secrets = secrets
        self._keys: Any = None
        self._keys_at = 0.0

    async def verify(self, token: str) -> AccessToken | None:
        claims = None
        try:
            if token.count(".") == 2 and self._config.introspection_url is None:
                claims = await self._by_key(token)
            elif self._config.introspection_url is not None:
                claims = await self._by_asking(token)
        except Exception as error:  # whatever is wrong with a stranger's token, it is not let in
            logger.info("a token was refused: %s", error)
            return None
        return None if claims is None else self._accepted(token, claims)

    def _accepted(self, token: str, claims: dict[str, Any]) -> AccessToken | None:
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        # A token for somebody else must never work here: that is how one is passed on.
        if self._config.resource not in [_canonical(a) for a in audiences if isinstance(a, str)]:
            return None
        if claims.get("iss") not in (None, self._config.issuer):
            return None
        client = claims.get("client_id") or claims.get("azp") or claims.get("sub")
        if client is None or claims.get("sub") == SYSTEM:
            return None
        scopes = str(claims.get("scope") or "").split()
        expires = claims.get("exp")
        return AccessToken(
            token=_hash(token),
            client_id=str(client),
            subject=None if claims.get("sub") is None else str(claims["sub"]),
            scopes=scopes,
            expires_at=int(expires) if isinstance(expires, int | float) else None,
            resource=self._config.resource,
            claims={"iss": self._config.issuer},
        )

    async def _by_key(self, token: str) -> dict[str, Any] | None:
        import jwt

        header = jwt.get_unverified_header(token)
        key = await self._key(header.get("kid"))
        if key is None:
            return None
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[a for a in _ALGORITHMS if a == header.get("alg")],
            issuer=self._config.issuer,
            options={"require": ["exp", "iss", "aud"], "verify_aud": False},
            leeway=10,
        )
        return claims

    async def _key(self, wanted: str | None) -> Any:
        import jwt

        age = time.monotonic() - self._keys_at
        known = self._keys is not None and age < _KEYS_FOR
        if not known or (self._find(wanted) is None and age > _TOO_OFTEN):
            document = await self._get(self._config.jwks_url or await self._jwks_url())
            self._keys = jwt.PyJWKSet.from_dict(document)
            self._keys_at = time.monotonic()
        return self._find(wanted)

    def _find(self, wanted: str | None) -> Any:
        keys = [] if self._keys is None else self._keys.keys
        if wanted is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == wanted), None)

    async def _jwks_url(self) -> str:
        issuer = self._config.issuer.rstrip("/")
        for path in (
            "/.well-known/oauth-authorization-server",
            "/.well-known/openid-configuration",
        ):
            try:
                document = await self._get(issuer + path)
            except HardpointError:
                continue
            if document.get("issuer") == self._config.issuer and document.get("jwks_uri"):
                return str(document["jwks_uri"])
        raise HardpointError(f"{issuer} names no keys", hint="set [mcp.serve.oauth] jwks_url")

    async def _by_asking(self, token: str) -> dict[str, Any] | None:
        config = self._config
        auth = None
        if config.introspection_client is not None:
            name = (config.introspection_secret or "").removeprefix("secret:")
            secret = await self._secrets.reveal(name, SYSTEM, "token introspection")
            auth = (config.introspection_client, secret)
        assert config.introspection_url is not None
        claims = await self._get(config.introspection_url, {"token": token}, auth)
        return claims if claims.get("active") is True else None

    async def _get(
        self, url: str, form: dict[str, str] | None = None, auth: Any = None
    ) -> dict[str, Any]:
        from hardpoint_mcp.http_client import make_client

        async with make_client(url) as client:
            if form is None:
                response = await client.get(url, timeout=10)
            else:
                response = await client.post(url, data=form, auth=auth, timeout=10)
        if response.status_code != 200 or len(response.content) > 1_000_000:
            raise HardpointError(f"{url} answers HTTP {response.status_code}")
        document = response.json()
        if not isinstance(document, dict):
            raise HardpointError(f"{url} gives no JSON object")
        return document


def _canonical(resource: str) -> str:
    return resource.rstrip("/") if resource.count("/") == 3 else resource


def metadata_routes(config: GatewayOAuth) -> Sequence[Route]:
    """Where clients read which authorization server to go to."""
    # As configured, to the letter: clients compare the issuer with what the server calls itself.
    document: dict[str, Any] = {
        "resource": config.resource,
        "authorization_servers": [config.issuer],
        "bearer_methods_supported": ["header"],
    }
    if config.required_scopes:
        document["scopes_supported"] = list(config.required_scopes)

    async def metadata(request: Request) -> JSONResponse:
        return JSONResponse(document, headers={"access-control-allow-origin": "*"})

    path = build_resource_metadata_url(AnyHttpUrl(config.resource)).path
    assert path is not None
    return [Route(path, metadata)]


def protect(app: ASGIApp, config: ServeConfig, secrets: Any) -> ASGIApp:
    """Let nothing through without a token, except the question where to get one."""
    scopes: list[str] = []
    where = None
    if config.oauth is not None:
        scopes = list(config.oauth.required_scopes)
        where = build_resource_metadata_url(AnyHttpUrl(config.oauth.resource))
    inner: ASGIApp = RequireAuthMiddleware(app, scopes, where)
    guarded = AuthenticationMiddleware(
        AuthContextMiddleware(inner), backend=BearerAuthBackend(Verifier(config, secrets))
    )

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        open_to_all = scope["type"] != "http" or scope["path"].startswith("/.well-known/")
        await (app if open_to_all else guarded)(scope, receive, send)

    return route
