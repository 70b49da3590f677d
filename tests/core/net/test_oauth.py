"""OAuth with a code: the address, the exchange, the renewal, and what servers answer."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import httpx2
import pytest

from hardpoint.errors import ExternalService, NotAuthorized
from hardpoint.net import PinnedClient
from hardpoint.net.oauth import RESERVED, OAuthApp, authorize, exchange, exclusive, renew

APP = OAuthApp(
    "https://accounts.example.com/authorize?tenant=7",
    "https://accounts.example.com/token",
    "synthetic-client",
    "synthetic-client-secret",
    scopes=("read", "write"),
    extra_params={"access_type": "offline"},
)
BACK = "http://127.0.0.1:8400/callback"


class Resolver:
    async def resolve(self, host: str, port: int) -> list[str]:
        return ["93.184.215.14"]


def client(answer: Any, forms: list[dict[str, str]]) -> PinnedClient:
    def handle(request: httpx2.Request) -> httpx2.Response:
        forms.append({k: v[0] for k, v in parse_qs(request.content.decode()).items()})
        return answer

    return PinnedClient(resolver=Resolver(), transport=httpx2.MockTransport(handle))


def query(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def test_the_address_holds_what_the_login_is_bound_to() -> None:
    first, second = authorize(APP, BACK), authorize(APP, BACK)

    told = query(first.url)
    assert told["tenant"] == "7"
    assert told["response_type"] == "code"
    assert told["scope"] == "read write"
    assert told["access_type"] == "offline"
    assert told["redirect_uri"] == BACK
    assert told["state"] == first.state
    assert first.verifier is not None
    hashed = hashlib.sha256(first.verifier.encode()).digest()
    assert told["code_challenge"] == base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
    assert APP.client_secret is not None
    assert APP.client_secret not in first.url
    assert (first.state, first.verifier) != (second.state, second.verifier)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_no_extra_parameter_turns_the_login(name: str) -> None:
    with pytest.raises(NotAuthorized, match=name):
        authorize(attrs.evolve(APP, extra_params={name: "x"}), BACK)


async def test_a_code_becomes_tokens() -> None:
    login, forms = authorize(APP, BACK), []  # type: tuple[Any, list[dict[str, str]]]
    answer = httpx2.Response(200, json={"access_token": "at", "refresh_token": "rt",
                                        "expires_in": 60, "scope": "read"})  # fmt: skip

    tokens = await exchange(client(answer, forms), APP, login, {"code": "c", "state": login.state})

    assert (tokens.access_token, tokens.refresh_token, tokens.expires_in) == ("at", "rt", 60)
    [form] = forms
    assert form == {
        "grant_type": "authorization_code", "code": "c", "redirect_uri": BACK,
        "code_verifier": login.verifier, "client_id": "synthetic-client",
        "client_secret": "synthetic-client-secret",
    }  # fmt: skip
    assert "at" not in repr(tokens)


@pytest.mark.parametrize("state", ["", "other", "\N{SNOWMAN}"])
async def test_an_answer_with_another_state_is_not_exchanged(state: str) -> None:
    forms: list[dict[str, str]] = []

    with pytest.raises(NotAuthorized, match="another login"):
        await exchange(
            client(httpx2.Response(200), forms), APP, authorize(APP, BACK),
            {"code": "c", "state": state},
        )  # fmt: skip

    assert forms == []


@pytest.mark.parametrize(
    ("field", "answer", "refresh"),
    [
        ("access_token", {"access_token": "at"}, "old"),
        ("access_token", {"access_token": "at", "refresh_token": "new"}, "new"),
        ("user.token", {"user": {"token": "at", "refresh_token": "new"}}, "new"),
        ("user.token", {"refresh_token": "outer", "user": {"token": "at"}}, "outer"),
    ],
)
async def test_a_renewal_keeps_the_refresh_token_that_is_not_replaced(
    field: str, answer: Any, refresh: str
) -> None:
    app = attrs.evolve(APP, access_token_field=field)

    tokens = await renew(client(httpx2.Response(200, json=answer), []), app, "old")

    assert (tokens.access_token, tokens.refresh_token) == ("at", refresh)


async def test_an_answer_in_the_form_of_a_form_is_read() -> None:
    answer = httpx2.Response(200, text="access_token=at&scope=read&expires_in=60")

    tokens = await renew(client(answer, []), APP, "old")

    assert (tokens.access_token, tokens.scope, tokens.expires_in) == ("at", "read", 60)


@pytest.mark.parametrize("expires", [None, "soon", -5, 0, float("1e12"), [], {}])
async def test_a_time_that_is_none_is_no_time(expires: Any) -> None:
    answer = httpx2.Response(200, json={"access_token": "at", "expires_in": expires})

    assert (await renew(client(answer, []), APP, "old")).expires_in is None


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [
        (400, '{"error": "invalid_grant"}', NotAuthorized, "ended the login: invalid_grant"),
        (400, '{"error": "invalid_client"}', ExternalService, "gives no token: invalid_client"),
        (200, '{"error": "slow", "error_description": "a\\u001b[2Jb"}', ExternalService, "a .2Jb"),
        (500, "<html>oops</html>", ExternalService, "HTTP 500"),
        (200, '{"access_token": 5}', ExternalService, "gives no token"),
        (200, "[" * 10_000, ExternalService, "gives no token"),
        (302, "", ExternalService, "HTTP 302"),
    ],
)
async def test_what_is_no_token_is_an_error_with_the_servers_reason(
    status: int, body: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        await renew(client(httpx2.Response(status, text=body), []), APP, "old")


async def test_only_one_renews_at_a_time(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    async def work(lock: asyncio.Lock) -> None:
        async with exclusive(tmp_path / "a/login.lock", lock):
            inside.append(1)
            most.append(len(inside))
            await asyncio.sleep(0)
            inside.pop()

    # Two locks: as in two processes, only the file is shared.
    one, other = asyncio.Lock(), asyncio.Lock()
    await asyncio.gather(*(work(lock) for lock in (one, other, one, other)))

    assert most == [1, 1, 1, 1]
