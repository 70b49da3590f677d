"""Logins at an authorization server of other people, for our gateway and as our client."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit, urlunsplit

import attrs
import httpx2
import pytest

from hardpoint import JobContext
from hardpoint.errors import ExternalService
from hardpoint_mcp.client import McpClient
from hardpoint_mcp.config import OAuthConfig, ServerConfig
from hardpoint_mcp.gateway.http import serve_http
from hardpoint_mcp.http_client import make_client
from hardpoint_mcp.login import by_browser, by_device
from hardpoint_mcp.oauth import LoginAuth, MemoryLogins
from hardpoint_mcp.upstream import Surroundings, Upstream

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

SCRIPT = Path(__file__).parent / "authority" / "provider.mjs"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CLIENT_SECRET = "not-a-secret-of-anybody"


@attrs.define(eq=False)
class World:
    """A gateway that wants tokens, and the authorization server that makes them."""

    issuer: str
    gateway: str
    store: MemoryLogins = attrs.field(factory=MemoryLogins)

    def config(self, **oauth: Any) -> ServerConfig:
        return ServerConfig(url=self.gateway, oauth=OAuthConfig(**oauth))

    def auth(self, **oauth: Any) -> LoginAuth:
        return LoginAuth("g", self.gateway, self.store, OAuthConfig(**oauth))

    async def log_in(self, browser: Callable[[str], bool] | None = None, **oauth: Any) -> Any:
        return await by_browser(
            "g",
            self.config(**oauth),
            self.store,
            say=lambda line: None,
            open_browser=browser or agreeing(),
        )

    async def knock(self, token: str | None) -> int:
        headers = {"accept": "application/json, text/event-stream"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        async with httpx2.AsyncClient(trust_env=False) as client:
            return (await client.post(self.gateway, json=PING, headers=headers)).status_code

    async def counts(self) -> dict[str, int]:
        async with httpx2.AsyncClient(trust_env=False) as client:
            return dict((await client.get(f"{self.issuer}/counts")).json())


def agreeing(**changes: str) -> Callable[[str], bool]:
    """A browser whose person agrees to everything; on the way back the address is changed."""

    def go(address: str) -> None:
        with httpx2.Client(trust_env=False, timeout=30) as browser:
            for _ in range(10):
                if "/callback" in address:
                    break
                response = browser.get(address)
                address = urljoin(address, response.headers["location"])
            parts = urlsplit(address)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()} | changes
            browser.get(urlunsplit(parts._replace(query=urlencode(query))))

    def open_browser(address: str) -> bool:
        asyncio.get_running_loop().run_in_executor(None, go, address)
        return True

    return open_browser


@pytest.fixture
async def world(
    assets: Any, run_program: Any, front: Any, free_port: Callable[[], int]
) -> AsyncIterator[Callable[..., Any]]:
    serving: list[asyncio.Task[None]] = []

    async def make(
        *, kind: str = "jwt", lasts: int = 3600, monkeypatch: pytest.MonkeyPatch | None = None
    ) -> World:
        module = assets.npm_package("oidc-provider") / "lib" / "index.js"
        port = free_port()
        resource = f"http://127.0.0.1:{port}/mcp"

        def command(at: int) -> list[str]:
            return [assets.node(), str(SCRIPT), str(module), str(at), resource, kind, str(lasts)]

        issuer = f"http://127.0.0.1:{await asyncio.to_thread(run_program, command)}"
        oauth: dict[str, Any] = {"issuer": issuer, "resource": resource}
        if kind == "opaque":
            oauth |= {
                "introspection_url": f"{issuer}/token/introspection",
                "introspection_client": "gateway",
                "introspection_secret": "secret:authority",
            }
        made = await front(serve={"oauth": oauth})
        made.gateway.stop()
        ready = asyncio.get_running_loop().create_future()
        work = serve_http(made.gateway, "127.0.0.1", port, ready=ready.set_result)
        serving.append(asyncio.ensure_future(work))
        await asyncio.wait_for(ready, 20)
        return World(issuer, resource)

    yield make
    for task in serving:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_client_registers_logs_in_and_calls(world):
    place = await world()
    login = await place.log_in()
    registration = await place.store.registration()
    auth = place.auth()
    upstream = Upstream(
        "g", place.config(), prefix="none", surroundings=Surroundings(auth=lambda *_: auth)
    )
    client = McpClient(upstream)
    try:
        names = {tool.name for tool in await client.list_tools()}
        greet = await client.load_tool("greet")
        output = await greet.execute({"name": "Ada"}, JobContext(user_id="ana"))
    finally:
        await client.aclose()

    assert "greet" in names
    assert output.result == {"greeting": "Hello Ada."}
    assert registration.server in (place.issuer, place.issuer + "/")
    assert registration.client["client_id"]
    assert login.refresh_token
    assert await place.knock(None) == await place.knock("nonsense") == 401


async def test_the_gateway_asks_about_tokens_that_it_cannot_read(world, monkeypatch):
    monkeypatch.setenv("HARDPOINT_SECRET_AUTHORITY", CLIENT_SECRET)
    place = await world(kind="opaque")
    login = await place.log_in()

    assert login.access_token.count(".") == 0
    assert await place.knock(login.access_token) in (200, 400)
    assert await place.knock(login.access_token[:-2] + "xx") == 401


async def test_a_token_for_somebody_else_is_not_let_in(world):
    place = await world()
    async with make_client(place.issuer) as client:
        form = {
            "grant_type": "client_credentials",
            "resource": "https://elsewhere.example/mcp",
            "scope": "tools",
        }
        given = await client.post(
            f"{place.issuer}/token", data=form, auth=("gateway", CLIENT_SECRET)
        )
        ours = await client.post(
            f"{place.issuer}/token",
            data=form | {"resource": place.gateway},
            auth=("gateway", CLIENT_SECRET),
        )

    assert await place.knock(given.json()["access_token"]) == 401
    assert await place.knock(ours.json()["access_token"]) in (200, 400)


@pytest.mark.parametrize(
    "changes", [{"iss": "https://evil.example"}, {"state": "another"}, {"code": "another"}]
)
async def test_an_answer_that_is_not_the_servers_is_refused(changes, world):
    place = await world()
    with pytest.raises(ExternalService):
        await place.log_in(agreeing(**changes))

    assert await place.store.login() is None


async def test_tokens_are_renewed_once_for_all_who_wait(world):
    """The server takes each refresh token once, and all of a grant back at the second time."""
    place = await world(lasts=20)
    await place.log_in()
    auth = place.auth()
    for _ in range(3):
        async with make_client(place.gateway, auth=auth) as client:
            answers = await asyncio.gather(
                *(client.post(place.gateway, json=PING) for _ in range(8))
            )
        assert {answer.status_code for answer in answers} <= {200, 400, 406}

    counts = await place.counts()
    assert counts["authorization_code"] == 1
    assert counts["refresh_token"] >= 3


async def test_another_device_logs_in(world):
    place = await world()
    entered = asyncio.Event()

    def say(line: str) -> None:
        [address] = re.findall(r"http://\S+", line)
        code = line.rsplit(" ", 1)[1]

        async def person() -> None:
            await asyncio.to_thread(enter, address, code)
            entered.set()

        tasks.append(asyncio.ensure_future(person()))

    tasks: list[asyncio.Task[None]] = []

    async def sleep(seconds: float) -> None:
        await entered.wait()

    login = await by_device("g", place.config(), place.store, say=say, sleep=sleep)
    await asyncio.gather(*tasks)

    assert await place.knock(login.access_token) in (200, 400)


def enter(address: str, code: str) -> None:
    """Fill in the server's own pages until they ask nothing any more."""
    with httpx2.Client(trust_env=False, timeout=30, follow_redirects=True) as browser:
        page = browser.get(address)
        for _ in range(3):
            form = re.search(r'<form[^>]* action="([^"]+)"[^>]*>(.*?)</form>', page.text, re.S)
            if form is None:
                return
            hidden = r'<input type="hidden" name="([^"]+)" value="([^"]*)"'
            fields = dict(re.findall(hidden, form[2]))
            fields.setdefault("user_code", code)
            page = browser.post(urljoin(str(page.url), form[1]), data=fields)


async def test_a_program_logs_in_with_a_secret_of_its_own(world):
    place = await world()

    async def secret(name: str) -> str:
        return CLIENT_SECRET

    own = OAuthConfig(
        client_id="gateway",
        client_secret="secret:authority",
        grant="client_credentials",
        issuer=place.issuer,
        scopes=("tools",),
    )
    auth = LoginAuth("g", place.gateway, place.store, own, secrets=secret)
    async with make_client(place.gateway, auth=auth) as client:
        answer = await client.post(place.gateway, json=PING)

    assert answer.status_code in (200, 400, 406)
    assert (await place.counts())["client_credentials"] == 1
