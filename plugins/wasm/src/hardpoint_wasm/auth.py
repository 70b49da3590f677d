"""What a capabilities file says of logging in, and what a person grants of it.

`auth` says how a person gets the secret that `http.credentials` puts into requests: by a login at
the service (`oauth`), or by hand. The flows themselves are in `login`, what is kept in `logins`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from hardpoint.errors import ConfigError

if TYPE_CHECKING:
    from hardpoint.net.oauth import OAuthApp


@attrs.frozen
class OAuth:
    """A login at the service itself."""

    authorization_url: str
    token_url: str
    client_id: str | None = None
    client_id_env: str | None = None
    client_secret: str | None = attrs.field(default=None, repr=False)
    client_secret_env: str | None = None
    scopes: tuple[str, ...] = ()
    use_pkce: bool = True
    extra_params: Mapping[str, str] = attrs.field(factory=dict)
    access_token_field: str = "access_token"  # noqa: S105  # a name
    pending_instructions: str | None = None

    @property
    def permission(self) -> str:
        hosts = dict.fromkeys((host(self.authorization_url), host(self.token_url)))
        return f"login:{','.join(hosts)}"

    async def app(self, secret: Callable[[str], Awaitable[str | None]]) -> OAuthApp:
        """As whom one asks.

        Args:
            secret: Reads a secret. One that is named like a granted variable, in small letters,
                stands in for it: `setup` asks for such.

        Raises:
            ConfigError: No client is known; the hint says where one is set.
        """
        from hardpoint.net.oauth import OAuthApp

        async def either(name: str | None) -> str | None:
            return variable(name) or (await secret(name.lower()) if name else None)

        client_id = self.client_id or await either(self.client_id_env)
        if not client_id:
            named = self.client_id_env
            raise ConfigError(
                f"no OAuth client for {host(self.authorization_url)} is known",
                hint=f"register one there and set the variable {named}, or the secret"
                f" {named.lower()}"
                if named
                else "grant the permission env:VARIABLE of its client_id_env, or have its author"
                " name one",
            )
        return OAuthApp(
            self.authorization_url,
            self.token_url,
            client_id,
            self.client_secret or await either(self.client_secret_env),
            self.scopes,
            self.use_pkce,
            self.extra_params,
            self.access_token_field,
        )


@attrs.frozen
class Validation:
    """A request that tells whether a secret works."""

    url: str
    method: str = "GET"
    success_status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def permission(self) -> str:
        return f"validate:{host(self.url)}"


@attrs.frozen
class Auth:
    """How a person gets the secret of a tool."""

    secret_name: str
    display_name: str | None = None
    oauth: OAuth | None = None
    instructions: str | None = None
    setup_url: str | None = None
    token_hint: str | None = None
    env_var: str | None = None
    provider: str | None = None
    optional: bool = False
    """Whether the tool is of use without it."""
    validation_endpoint: Validation | None = None

    @property
    def permissions(self) -> tuple[str, ...]:
        """What a person grants before any of it is used."""
        names: list[str] = []
        variables = [self.env_var]
        if self.oauth is not None:
            names.append(self.oauth.permission)
            variables += [self.oauth.client_id_env, self.oauth.client_secret_env]
        names += [f"env:{name}" for name in variables if name]
        if self.validation_endpoint is not None:
            names.append(self.validation_endpoint.permission)
        return tuple(names)

    def only(self, granted: Collection[str]) -> Auth:
        """This without whatever is not granted."""

        def kept(name: str | None) -> str | None:
            return name if name and f"env:{name}" in granted else None

        oauth, validation = self.oauth, self.validation_endpoint
        if oauth is not None:
            oauth = attrs.evolve(
                oauth,
                client_id_env=kept(oauth.client_id_env),
                client_secret_env=kept(oauth.client_secret_env),
            )
        return attrs.evolve(
            self,
            env_var=kept(self.env_var),
            oauth=oauth if oauth is not None and oauth.permission in granted else None,
            validation_endpoint=validation
            if validation is not None and validation.permission in granted
            else None,
        )

    @property
    def problems(self) -> list[str]:
        """What makes it unusable."""
        from hardpoint.net.oauth import RESERVED

        problems: list[str] = []
        addresses = {"setup_url": self.setup_url}
        if self.oauth is not None:
            addresses["oauth.authorization_url"] = self.oauth.authorization_url
            addresses["oauth.token_url"] = self.oauth.token_url
            problems += [
                f"auth.oauth.extra_params may not set {name!r}"
                for name in sorted(RESERVED & self.oauth.extra_params.keys())
            ]
        if self.validation_endpoint is not None:
            addresses["validation_endpoint.url"] = self.validation_endpoint.url
        return problems + [
            f"auth.{key} is no https address: {address[:80]!r}"
            for key, address in addresses.items()
            if address and not _is_address(address)
        ]

    def lines(self) -> list[str]:
        """What a person reads before they begin."""
        lines = [f"{self.display_name or self.provider or self.secret_name}:"]
        lines += [text for text in (self.instructions, self.setup_url) if text]
        if self.token_hint:
            lines.append(f"it looks like this: {self.token_hint}")
        if self.oauth is not None and self.oauth.pending_instructions:
            lines.append(self.oauth.pending_instructions)
        return lines


def host(url: str) -> str:
    """The host of an address, with its port unless that is the usual one."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()


def variable(name: str | None) -> str | None:
    """A variable of the environment; empty is as good as not set."""
    return (os.environ.get(name, "").strip() or None) if name else None


def _is_address(text: str) -> bool:
    """Whether it can be an address of a service; http is for loopback, and refused elsewhere."""
    try:
        parts = urlsplit(text)
        local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and local))
