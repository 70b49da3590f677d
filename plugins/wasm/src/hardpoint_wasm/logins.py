"""Logins that are kept: tokens in the secret store, renewed once for all before they end.

The token is the secret that the capabilities file names; beside it stand `NAME_refresh_token` and
`NAME_login`, which says where and as whom it is renewed. That is taken from the login, never from a
tool that happens to name the same secret.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from hardpoint.errors import ExternalService, HardpointError, NotAuthorized
from hardpoint.interfaces import SYSTEM
from hardpoint.net.oauth import OAuthApp, Tokens, exclusive, renew

logger = logging.getLogger(__name__)

EARLY: Final = 300.0
"""A token is renewed this many seconds before it ends, or in the last quarter of a short life."""
_KEPT: Final = ("authorization_url", "token_url", "client_id", "client_secret", "use_pkce")


class Renew(Protocol):
    """Renews the login behind a secret of a user, where it is time; whether the token is new."""

    async def __call__(self, name: str, user_id: str, *, refused: bool = False) -> bool: ...


class LoginEnded(NotAuthorized):
    """A login has ended and cannot be renewed."""


@attrs.frozen
class Login:
    """What is known of a login beside its tokens."""

    app: OAuthApp
    expires_at: float | None = None
    renew_at: float | None = None
    scope: str | None = None


class Logins:
    """The logins of every user of one runtime.

    Args:
        services: The core's, outside a call.
        folder: Where locks are, so that two processes do not renew at once.
    """

    def __init__(self, services: Any, folder: Path) -> None:
        self._services = services
        self._secrets = services.secrets
        self._folder = folder
        self._locks: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._work: set[asyncio.Future[bool]] = set()
        self._known: dict[tuple[str, str], tuple[str, float | None]] = {}

    async def keep(self, owner: str, name: str, app: OAuthApp, tokens: Tokens) -> str:
        """Keep what a login gave; the store that has it."""
        expires_at = renew_at = None
        if tokens.expires_in is not None:
            expires_at = self._now() + tokens.expires_in
            renew_at = expires_at - min(EARLY, tokens.expires_in / 4)
        if tokens.refresh_token:
            await self._secrets.set(owner, f"{name}_refresh_token", tokens.refresh_token)
        about = {key: getattr(app, key) for key in _KEPT}
        about |= {"access_token_field": app.access_token_field}
        about |= {"expires_at": expires_at, "renew_at": renew_at}
        about |= {"scope": tokens.scope or " ".join(app.scopes)}
        await self._secrets.set(owner, f"{name}_login", json.dumps(about))
        # Last: whoever sees the new token finds what belongs to it.
        place: str = await self._secrets.set(owner, name, tokens.access_token)
        self._known.clear()
        return place

    async def forget(self, owner: str, name: str) -> bool:
        """Log out: remove the token and what belongs to it."""
        removed = [
            await self._secrets.delete(owner, each)
            for each in (name, f"{name}_refresh_token", f"{name}_login")
        ]
        self._known.clear()
        return any(removed)

    async def login(self, owner: str, name: str) -> Login | None:
        """What is known of a login of this owner."""
        text = await self._own(owner, f"{name}_login")
        try:
            about = json.loads(text) if text else None
            if not isinstance(about, dict):
                return None
            times = [about.pop(key, None) for key in ("expires_at", "renew_at", "scope")]
            return Login(OAuthApp(**about), *times)
        except (ValueError, TypeError):
            logger.warning("%s_login of %s is damaged; log in again", name, owner)
            return None

    async def ended(self, user_id: str, name: str) -> bool:
        """Whether the token that a user's request would carry is over for good."""
        owner = await self._owner(user_id, name)
        login = await self.login(owner, name)
        if login is None or login.expires_at is None or self._now() < login.expires_at:
            return False
        return await self._own(owner, f"{name}_refresh_token") is None

    async def fresh(self, name: str, user_id: str, *, refused: bool = False) -> bool:
        """See to it that the token which a user's request would carry is still good.

        Args:
            refused: The service did not take the token, whatever its time says.

        Returns:
            Whether there is another token than before.

        Raises:
            LoginEnded: It has ended and cannot be renewed; the hint says how to log in.
        """
        key = (user_id, name.lower())
        known = self._known.get(key)
        if known is None:
            owner = await self._owner(user_id, name)
            login = await self.login(owner, name)
            known = self._known[key] = (owner, login.renew_at if login else None)
        owner, renew_at = known
        if not refused and (renew_at is None or self._now() < renew_at):
            return False
        if refused and await self.login(owner, name) is None:
            return False  # a plain secret, which nobody renews
        before = await self._own(owner, name) if refused else None
        work = asyncio.ensure_future(self._alone(owner, name, renew_at, before))
        self._work.add(work)
        work.add_done_callback(self._work.discard)
        # A call that ends meanwhile must not lose a token that the server gives only once.
        return await asyncio.shield(work)

    async def aclose(self) -> None:
        """Let what is being renewed be kept."""
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _alone(
        self, owner: str, name: str, renew_at: float | None, refused: str | None
    ) -> bool:
        key = (owner, name.lower())
        async with exclusive(self._folder / f"{_digest(*key)}.lock", self._locks[key]):
            self._known.clear()
            login = await self.login(owner, name)
            if login is None:
                return False
            if refused is not None and await self._own(owner, name) != refused:
                return True  # somebody else was quicker
            if refused is None and login.renew_at != renew_at and not self._is_due(login):
                return True
            return await self._renew(owner, name, login, refused is not None)

    async def _renew(self, owner: str, name: str, login: Login, refused: bool) -> bool:
        token = await self._own(owner, f"{name}_refresh_token")
        over = login.expires_at is not None and self._now() >= login.expires_at
        if not token:
            if over:
                raise LoginEnded(f"the login behind {name!r} has ended", hint=_AGAIN)
            return False
        try:
            tokens = await renew(self._services.http(), login.app, token)
        except HardpointError as error:
            if over or refused or not isinstance(error, ExternalService):
                raise LoginEnded(
                    f"the login behind {name!r} cannot be renewed: {error.message}", hint=_AGAIN
                ) from error
            logger.warning("the token %s is not renewed yet: %s", name, error)
            return False
        tokens = attrs.evolve(tokens, scope=tokens.scope or login.scope)
        await self.keep(owner, name, login.app, tokens)
        return True

    def _is_due(self, login: Login) -> bool:
        return login.renew_at is not None and self._now() >= login.renew_at

    async def _owner(self, user_id: str, name: str) -> str:
        """Whose token the injector takes: the user's own before the installation's."""
        return user_id if name.lower() in await self._secrets.names(user_id) else SYSTEM

    async def _own(self, owner: str, name: str) -> str | None:
        if name.lower() not in await self._secrets.names(owner):
            return None
        reference = f"system:{name}" if owner == SYSTEM else name
        value: str = await self._secrets.reveal(reference, owner, "keeping a login")
        return value

    def _now(self) -> float:
        now: float = self._services.clock.now()
        return now


_AGAIN: Final = "a person logs in again with: hardpoint wasm auth TOOL"


def _digest(owner: str, name: str) -> str:
    return hashlib.sha256(f"{owner}\0{name}".encode()).hexdigest()[:32]
