"""OAuth 2.0 with a code: where a person logs in, the exchange of the code, the renewal of tokens.

For services that a file describes (RFC 6749 with PKCE, RFC 7636). Servers that describe themselves,
as those of MCP do, have a client of their own. Where tokens are kept is their owner's business.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

import attrs

from hardpoint.errors import ExternalService, NotAuthorized
from hardpoint.net.client import PinnedClient
from hardpoint.net.messages import HttpRequest

RESERVED: Final = frozenset(
    "client_id client_secret code code_challenge code_challenge_method grant_type redirect_uri"
    " response_type scope state".split()
)
"""Parameters of the login's address that nobody may add or change."""
_SECRET: Final = ("client_secret", "code", "code_verifier", "refresh_token")
_MAX_ANSWER: Final = 256 * 1024
_ENDED: Final = ("invalid_grant", "invalid_token", "bad_refresh_token")
_POLL: Final = 0.05


@attrs.frozen
class OAuthApp:
    """As whom one asks, and where."""

    authorization_url: str
    token_url: str
    client_id: str
    client_secret: str | None = attrs.field(default=None, repr=False)
    scopes: Sequence[str] = ()
    use_pkce: bool = True
    extra_params: Mapping[str, str] = attrs.field(factory=dict)
    access_token_field: str = "access_token"  # noqa: S105  # a name
    """Where the token stands in the answer; dots lead into objects."""


@attrs.frozen
class Tokens:
    """What a login gives."""

    access_token: str = attrs.field(repr=False)
    refresh_token: str | None = attrs.field(default=None, repr=False)
    expires_in: float | None = None
    scope: str | None = None


@attrs.frozen
class Authorization:
    """One login: the address that a person opens, and what its answer must fit."""

    url: str
    state: str
    redirect_uri: str
    verifier: str | None = attrs.field(default=None, repr=False)


def authorize(app: OAuthApp, redirect_uri: str) -> Authorization:
    """Begin a login.

    Raises:
        NotAuthorized: A parameter would change what the login is about.
    """
    taken = sorted(RESERVED & app.extra_params.keys())
    if taken:
        raise NotAuthorized(f"extra_params may not set {taken[0]!r}")
    state, verifier = secrets.token_urlsafe(32), None
    params = {
        **app.extra_params,
        "response_type": "code",
        "client_id": app.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
    }
    if app.scopes:
        params["scope"] = " ".join(app.scopes)
    if app.use_pkce:
        verifier = secrets.token_urlsafe(48)
        hashed = hashlib.sha256(verifier.encode("ascii")).digest()
        params["code_challenge"] = base64.urlsafe_b64encode(hashed).rstrip(b"=").decode("ascii")
        params["code_challenge_method"] = "S256"
    joint = "&" if urlsplit(app.authorization_url).query else "?"
    url = f"{app.authorization_url}{joint}{urlencode(params)}"
    return Authorization(url, state, redirect_uri, verifier)


async def exchange(
    client: PinnedClient, app: OAuthApp, login: Authorization, answer: Mapping[str, str]
) -> Tokens:
    """Exchange what the browser brought for tokens.

    Args:
        client: Sends without a leak scan: the request holds the code and the client's secret.
        answer: The parameters of the address that the browser ended at.

    Raises:
        NotAuthorized: The answer is a refusal, or belongs to another login.
        ExternalService: The server gives no token.
    """
    if not secrets.compare_digest(answer.get("state", "").encode(), login.state.encode()):
        raise NotAuthorized("the answer belongs to another login; log in again")
    if not answer.get("code"):
        raise NotAuthorized(f"{_host(app)} refused the login: {_told(answer)}")
    form = {
        "grant_type": "authorization_code",
        "code": answer["code"],
        "redirect_uri": login.redirect_uri,
    }
    if login.verifier is not None:
        form["code_verifier"] = login.verifier
    return await _ask(client, app, form)


async def renew(client: PinnedClient, app: OAuthApp, refresh_token: str) -> Tokens:
    """New tokens for old ones. A server that sends no new refresh token means the old one to stay.

    Raises:
        NotAuthorized: The login has ended; a person has to log in again.
        ExternalService: The server cannot be reached or gives no token.
    """
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    tokens = await _ask(client, app, form)
    return attrs.evolve(tokens, refresh_token=tokens.refresh_token or refresh_token)


@contextlib.asynccontextmanager
async def exclusive(lock_file: Path, lock: asyncio.Lock) -> AsyncIterator[None]:
    """Only one task of one process at a time is inside; for renewing what is kept for all.

    Args:
        lock: That of this process, one for each file.
    """
    async with lock:
        lock_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.name == "posix":
                await _locked(descriptor)
            yield
        finally:
            os.close(descriptor)


async def _locked(descriptor: int) -> None:
    import fcntl

    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(_POLL)


async def _ask(client: PinnedClient, app: OAuthApp, form: dict[str, str]) -> Tokens:
    form["client_id"] = app.client_id
    if app.client_secret is not None:
        form["client_secret"] = app.client_secret
    response = await client.bound(before_send=_pass).request(
        "POST",
        app.token_url,
        headers={
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
        },
        body=urlencode(form).encode("ascii"),
        max_bytes=_MAX_ANSWER,
    )
    answer = _read(response.body)
    token = _at(answer, app.access_token_field)
    # Some services tell an error with status 200.
    if response.status == 200 and isinstance(token, str) and token:
        # A token inside an object has its fellows beside it.
        fields = {**answer, **_at(answer, app.access_token_field.rpartition(".")[0], answer)}
        refresh, scope = fields.get("refresh_token"), fields.get("scope")
        return Tokens(
            token,
            refresh if isinstance(refresh, str) and refresh else None,
            _seconds(fields.get("expires_in")),
            scope if isinstance(scope, str) else None,
        )
    told = _told(answer, _secrets_of(form)) if answer else f"HTTP {response.status}"
    if answer.get("error") in _ENDED:
        raise NotAuthorized(f"{_host(app)} ended the login: {told}")
    raise ExternalService(f"{_host(app)} gives no token: {told}")


def _pass(request: HttpRequest) -> None:
    """A token request holds secrets, and they go where the login was."""


def _read(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        try:
            return {name: values[0] for name, values in parse_qs(body.decode("ascii")).items()}
        except ValueError:
            return {}
    return answer if isinstance(answer, dict) else {}


def _at(answer: Any, field: str, otherwise: Any = None) -> Any:
    if not field:
        return otherwise
    for part in field.split("."):
        answer = answer.get(part) if isinstance(answer, dict) else None
    return answer


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds < 1e9 else None


def _host(app: OAuthApp) -> str:
    return urlsplit(app.token_url).hostname or "the server"


def _told(answer: Mapping[str, Any], secret: Sequence[str] = ()) -> str:
    """A stranger's reason, in one short line without control characters and what must not show."""
    text = str(answer.get("error_description") or answer.get("error") or "no reason given")
    for each in secret:
        text = text.replace(each, "***")
    return "".join(c if c.isprintable() else " " for c in text)[:200]


def _secrets_of(form: Mapping[str, str]) -> Sequence[str]:
    """What a request holds that its answer may repeat, as it is and as it was sent."""
    values = [form[name] for name in _SECRET if form.get(name)]
    spelled = {*values, *map(quote_plus, values)}
    return sorted(spelled, key=len, reverse=True)
