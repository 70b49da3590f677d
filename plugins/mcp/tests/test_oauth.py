"""Logins to HTTP servers: with a browser, a pasted address, another device; and refreshed once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import attrs
import httpx2
import pytest

from hardpoint import Config, Runtime
from hardpoint.errors import ExternalService, HardpointError
from hardpoint_mcp.client import McpClient
from hardpoint_mcp.config import OAuthConfig, ServerConfig
from hardpoint_mcp.http_client import make_client
from hardpoint_mcp.login import by_browser, by_device
from hardpoint_mcp.logins import login_store
from hardpoint_mcp.oauth import Login, LoginAuth, MemoryLogins, Registration
from hardpoint_mcp.upstream import Surroundings, Upstream
from hardpoint_mcp.wire.errors import AuthRequired

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@attrs.define(eq=False)
class Authority:
    """A server that wants tokens, and the authorization server that makes them, on one address."""

    kit: Any
    url: str = ""
    issuer: str = ""
    lasts: int = 3600
    changes: dict[str, Any] = attrs.field(factory=dict)
    """What its description of itself says otherwise; None leaves a field out."""
    valid: set[str] = attrs.field(factory=set)
    refresh: set[str] = attrs.field(factory=set)
    asked: list[dict[str, str]] = attrs.field(factory=list)
    """The forms that the token endpoint got."""
    challenges: dict[str, str] = attrs.field(factory=dict)
    pending: list[str] = attrs.field(factory=list)
    """What a device is told before its token."""
    made: int = 0
    scope: str = ""
    """What a token must be for."""
    scopes: dict[str, str] = attrs.field(factory=dict)

    def answer(self, request: Any) -> Any:
        path = urlsplit(request.path).path
        match path:
            case "/mcp":
                return self.resource(request)
            case "/.well-known/oauth-protected-resource/mcp":
                resource = self.changes.get("resource", self.url)
                return self.reply({"resource": resource, "authorization_servers": [self.issuer]})
            case "/.well-known/oauth-authorization-server":
                return self.reply(self.metadata())
            case "/register":
                return self.reply(request.json | {"client_id": "registered"}, 201)
            case "/device":
                return self.reply(
                    {
                        "device_code": "dev",
                        "user_code": "ABCD-EFGH",
                        "verification_uri": f"{self.issuer}/activate",
                        "expires_in": 600,
                        "interval": 2,
                    }
                )
            case "/token":
                return self.token(request)
        return self.reply({}, 404)

    def reply(self, body: Any, status: int = 200, **headers: str) -> Any:
        return self.kit.Reply(status, body, headers)

    def metadata(self) -> dict[str, Any]:
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "device_authorization_endpoint": f"{self.issuer}/device",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return {k: v for k, v in (document | self.changes).items() if v is not None}

    def resource(self, request: Any) -> Any:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        where = f'resource_metadata="{self.issuer}/.well-known/oauth-protected-resource/mcp"'
        if token not in self.valid:
            return self.reply({}, 401, **{"www-authenticate": f"Bearer {where}"})
        if self.scope and self.scope not in self.scopes.get(token, "").split():
            challenge = f'Bearer error="insufficient_scope", scope="{self.scope}", {where}'
            return self.reply({}, 403, **{"www-authenticate": challenge})
        return self.kit.old_server(request, ping=lambda seen, head: self.kit.text("pong"))

    def token(self, request: Any) -> Any:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        self.asked.append(form)
        match form["grant_type"]:
            case "authorization_code":
                proof = hashlib.sha256(form["code_verifier"].encode()).digest()
                challenge = base64.urlsafe_b64encode(proof).rstrip(b"=").decode()
                if self.challenges.pop(form["code"], None) != challenge:
                    return self.reply({"error": "invalid_grant"}, 400)
            case "refresh_token":
                if form["refresh_token"] not in self.refresh:
                    return self.reply({"error": "invalid_grant"}, 400)
                # A refresh token is good for one use.
                self.refresh.remove(form["refresh_token"])
            case "client_credentials":
                basic = base64.b64decode(request.headers["authorization"].removeprefix("Basic "))
                if basic != b"robot:hush":
                    return self.reply({"error": "invalid_client"}, 401)
            case _:
                if self.pending:
                    return self.reply({"error": self.pending.pop(0)}, 400)
        return self.reply(self.grant(form.get("scope", "")))

    def grant(self, scope: str = "") -> dict[str, Any]:
        self.made += 1
        access, refresh = f"access-{self.made}", f"refresh-{self.made}"
        self.valid.add(access)
        self.refresh.add(refresh)
        self.scopes[access] = scope or self.scope
        return {
            "access_token": access,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "expires_in": self.lasts,
        }

    def person(self, **changes: str | None) -> Callable[[str], str]:
        """A person who logs in: the address that the browser ends at."""

        def consent(address: str) -> str:
            query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
            assert query["code_challenge_method"] == "S256"
            assert query["resource"] == self.url
            code = f"code-{len(self.challenges)}"
            self.challenges[code] = query["code_challenge"]
            back = {"code": code, "state": query["state"], "iss": self.issuer} | changes
            kept = {name: value for name, value in back.items() if value is not None}
            return f"{query['redirect_uri']}?{urlencode(kept)}"

        return consent

    def browser(self, **changes: str | None) -> Callable[[str], bool]:
        consent = self.person(**changes)

        def go(address: str) -> None:
            httpx2.get(consent(address), trust_env=False)

        def open_browser(address: str) -> bool:
            asyncio.get_running_loop().run_in_executor(None, go, address)
            return True

        return open_browser


@pytest.fixture
async def authority(http: Any, kit: Any) -> Authority:
    made = Authority(kit)
    made.url = await http.start(made.answer)
    made.issuer = made.url.removesuffix("/mcp")
    return made


def nothing(line: str) -> None:
    pass


def config(authority: Authority, **oauth: Any) -> ServerConfig:
    return ServerConfig(url=authority.url, oauth=OAuthConfig(**oauth))


async def knock(auth: LoginAuth, url: str) -> int:
    async with make_client(url, auth=auth) as client:
        return (await client.post(url, json=PING)).status_code


async def logged_in(authority: Authority, store: Any, *, left: float = 3600) -> LoginAuth:
    """As after a login some time ago."""
    given = authority.grant()
    await store.save_registration(
        Registration(
            {"client_id": "registered", "redirect_uris": ["http://127.0.0.1/callback"]},
            authority.metadata(),
            authority.issuer,
            {"resource": authority.url, "authorization_servers": [authority.issuer]},
        )
    )
    login = Login(given["access_token"], given["refresh_token"], time.time() + left)
    await store.save_login(login)
    return LoginAuth("s", authority.url, store, OAuthConfig())


# a person logs in ------------------------------------------------------------------------------


async def test_a_browser_brings_a_login_that_is_kept_and_used(authority, connect, kit):
    store = MemoryLogins()
    said: list[str] = []

    login = await by_browser(
        "s", config(authority), store, say=said.append, open_browser=authority.browser()
    )

    assert login.access_token in authority.valid
    assert "127.0.0.1" in said[0]
    assert (await store.registration()).client["client_id"] == "registered"
    auth = LoginAuth("s", authority.url, store)
    upstream = Upstream("s", config(authority), surroundings=Surroundings(auth=lambda *_: auth))
    client = McpClient(upstream)
    async with client:
        assert [tool.name for tool in await client.list_tools()] == ["s__ping"]


async def test_without_a_browser_the_address_it_ended_at_can_be_pasted(authority):
    consent = authority.person()
    said: list[str] = []

    async def ask(prompt: str) -> str:
        # The first thing pasted is something else.
        if not any("That is not it" in line for line in said):
            return "http://127.0.0.1/nothing"
        return consent(said[0].split("\n")[1])

    login = await by_browser("s", config(authority), MemoryLogins(), say=said.append, ask=ask)

    assert login.access_token in authority.valid


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": "other"}, "[Ss]tate"),
        ({"state": None}, "[Ss]tate"),
        ({"iss": "https://evil.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"code": "forged"}, "invalid_grant|400"),
        ({"code": None, "error": "access_denied"}, "access_denied"),
    ],
)
async def test_an_answer_that_is_not_the_one_to_our_question_is_refused(
    authority, changes, message
):
    store = MemoryLogins()

    with pytest.raises(HardpointError, match=message):
        await by_browser(
            "s",
            config(authority),
            store,
            say=nothing,
            open_browser=authority.browser(**changes),
        )

    assert await store.login() is None


async def test_an_authorization_server_that_is_not_the_one_named_gets_nothing(authority):
    authority.changes = {"issuer": "https://evil.example"}
    opened: list[str] = []

    def open_browser(address: str) -> bool:
        opened.append(address)
        return True

    with pytest.raises(HardpointError, match="issuer"):
        await by_browser(
            "s", config(authority), MemoryLogins(), say=nothing, open_browser=open_browser
        )

    assert (opened, authority.asked) == ([], [])


async def test_a_server_that_is_open_to_all_needs_no_login(http, kit):
    url = await http.start(kit.old_server)

    with pytest.raises(ExternalService, match="asks for no login"):
        await by_browser("s", ServerConfig(url=url), MemoryLogins(), say=nothing)


@pytest.mark.parametrize(
    "oauth", [{}, {"client_id": "by-hand"}, {"client_metadata_url": "https://a.example/me.json"}]
)
async def test_another_device_can_log_in(oauth, authority):
    authority.changes = {"client_id_metadata_document_supported": True}
    authority.pending = ["authorization_pending", "slow_down", "authorization_pending"]
    waited: list[float] = []
    said: list[str] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    store = MemoryLogins()
    login = await by_device("s", config(authority, **oauth), store, say=said.append, sleep=sleep)

    assert login == await store.login()
    assert waited == [2, 2, 7, 7]
    assert "ABCD-EFGH" in said[0]
    authority.valid.clear()
    assert (
        await knock(LoginAuth("s", authority.url, store, OAuthConfig(**oauth)), authority.url)
        == 200
    )
    assert {form["resource"] for form in authority.asked} == {authority.url}


@pytest.mark.parametrize("error", ["access_denied", "expired_token"])
async def test_a_device_that_is_refused_ends_the_login(error, authority):
    authority.pending = [error]

    async def sleep(seconds: float) -> None:
        pass

    with pytest.raises(ExternalService, match=error):
        await by_device("s", config(authority), MemoryLogins(), say=nothing, sleep=sleep)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device_authorization_endpoint": None}, "no login by another device"),
        ({"issuer": "https://evil.example"}, "another authorization server"),
        ({"resource": "https://evil.example/mcp"}, "another server"),
        ({"registration_endpoint": None}, "registers no clients"),
    ],
)
async def test_a_device_login_that_cannot_be_says_why(changes, message, authority):
    authority.changes = changes
    with pytest.raises(ExternalService, match=message):
        await by_device("s", config(authority), MemoryLogins(), say=nothing)


async def test_a_program_logs_in_with_its_own_secret(authority):
    async def secrets(name: str) -> str:
        assert name == "robot_secret"
        return "hush"

    own = OAuthConfig(
        grant="client_credentials",
        client_id="robot",
        client_secret="secret:robot_secret",
        issuer=authority.issuer,
    )
    auth = LoginAuth("s", authority.url, MemoryLogins(), own, secrets=secrets)

    assert await knock(auth, authority.url) == 200
    assert await knock(auth, authority.url) == 200
    assert [form["grant_type"] for form in authority.asked] == ["client_credentials"]


async def test_a_programs_secret_goes_to_its_own_authorization_server_only(authority):
    async def secrets(name: str) -> str:
        return "hush"

    own = OAuthConfig(
        grant="client_credentials",
        client_id="robot",
        client_secret="secret:robot_secret",
        issuer="https://auth.example",
    )
    auth = LoginAuth("s", authority.url, MemoryLogins(), own, secrets=secrets)

    with pytest.raises(AuthRequired):
        await knock(auth, authority.url)
    assert authority.asked == []


# nobody is there -------------------------------------------------------------------------------


async def test_without_a_person_a_login_that_is_needed_says_how(authority):
    auth = LoginAuth("s", authority.url, MemoryLogins(), OAuthConfig())
    upstream = Upstream("s", config(authority), surroundings=Surroundings(auth=lambda *_: auth))

    with pytest.raises(HardpointError) as caught:
        await McpClient(upstream).__aenter__()

    assert "hardpoint mcp auth s" in caught.value.hint
    await upstream.aclose()


async def test_an_old_token_is_refreshed_once_for_many_calls(authority):
    auth = await logged_in(authority, MemoryLogins(), left=-1)

    answers = await asyncio.gather(*(knock(auth, authority.url) for _ in range(20)))

    assert answers == [200] * 20
    assert len(authority.asked) == 1


async def test_a_long_call_does_not_hold_up_the_others_after_a_refresh(authority, http, kit):
    auth = await logged_in(authority, MemoryLogins(), left=-1)
    usual, first, release = authority.answer, asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> Any:
        if urlsplit(request.path).path == "/mcp" and not first.is_set():
            first.set()
            await release.wait()
        return usual(request)

    http.answer = slow
    long = asyncio.ensure_future(knock(auth, authority.url))
    await first.wait()
    async with asyncio.timeout(10):
        assert await knock(auth, authority.url) == 200
    release.set()
    assert await long == 200


async def test_a_token_that_the_server_took_back_is_refreshed(authority):
    auth = await logged_in(authority, MemoryLogins())
    authority.valid.clear()

    assert await knock(auth, authority.url) == 200
    [form] = authority.asked
    assert (form["grant_type"], form["resource"]) == ("refresh_token", authority.url)


async def test_tokens_that_last_only_seconds_work(authority):
    authority.lasts = 5
    auth = await logged_in(authority, MemoryLogins(), left=-1)

    assert [await knock(auth, authority.url) for _ in range(3)] == [200] * 3


async def test_a_refresh_that_fails_asks_for_a_login(authority):
    auth = await logged_in(authority, MemoryLogins(), left=-1)
    authority.refresh.clear()

    with pytest.raises(AuthRequired) as caught:
        await knock(auth, authority.url)

    assert "hardpoint mcp auth s" in caught.value.hint


async def test_wider_rights_are_asked_for_when_a_person_is_there(authority):
    store = MemoryLogins()
    await by_browser("s", config(authority), store, say=nothing, open_browser=authority.browser())
    authority.scope = "write"
    consent = authority.person()
    asked: list[str] = []

    async def authorize(address: str) -> Any:
        asked.append(parse_qs(urlsplit(address).query)["scope"][0])
        back = parse_qs(urlsplit(consent(address)).query)
        return back["code"][0], back["state"][0], back["iss"][0]

    auth = LoginAuth("s", authority.url, store, authorize=authorize)

    assert await knock(auth, authority.url) == 200
    assert ["write" in scopes.split() for scopes in asked] == [True]


async def test_two_processes_refresh_once(authority, tmp_path):
    """A refresh token is good for one use: the second process must find what the first got."""
    folder = tmp_path / "logins"
    await logged_in(authority, login_store("s", None, folder), left=-1)
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "from hardpoint_mcp.logins import login_store\n"
        "from hardpoint_mcp.oauth import LoginAuth\n"
        "from hardpoint_mcp.http_client import make_client\n"
        "async def main(url, folder):\n"
        "    auth = LoginAuth('s', url, login_store('s', None, Path(folder)))\n"
        "    async with make_client(url, auth=auth) as client:\n"
        f"        print((await client.post(url, json={PING!r})).status_code)\n"
        "asyncio.run(main(*sys.argv[1:]))\n"
    )
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, authority.url, str(folder), stdout=subprocess.PIPE
        )
        for _ in range(3)
    ]
    outputs = [(await process.communicate())[0] for process in processes]

    assert outputs == [b"200\n"] * 3
    assert len(authority.asked) == 1


# where logins are kept -------------------------------------------------------------------------


async def test_a_login_outlives_the_process_and_only_its_owner_can_read_it(tmp_path):
    folder = tmp_path / "logins"
    store = login_store("s", None, folder)
    login = Login("a", "r", 12.0, "read")
    await store.save_login(login)
    await store.save_registration(Registration({"client_id": "c"}, {"issuer": "i"}, "i"))

    again = login_store("s", None, folder)

    assert await again.login() == login
    assert (await again.registration()).client == {"client_id": "c"}
    assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}
    await again.forget()
    assert await login_store("s", None, folder).login() is None
    assert json.loads((folder / "logins.json").read_text()) == {}


def test_nothing_shows_a_token():
    assert "tok-1" not in repr(Login("tok-1", "tok-1"))
    assert "hush" not in repr(OAuthConfig(client_secret="hush"))


@pytest.mark.parametrize("missing", ["client_id", "client_secret", "issuer"])
def test_a_programs_login_needs_everything_it_is_made_of(missing):
    given = {"client_id": "robot", "client_secret": "secret:x", "issuer": "https://a.example"}
    with pytest.raises(ValueError, match="client_credentials needs"):
        OAuthConfig(grant="client_credentials", **(given | {missing: None}))


def test_a_damaged_file_of_logins_is_no_login(tmp_path: Path):
    (tmp_path / "logins.json").write_text("{")
    assert asyncio.run(login_store("s", None, tmp_path).login()) is None


# through a tool ---------------------------------------------------------------------------------


async def test_a_login_is_handed_over_and_no_token_passes_through_the_answer(
    authority, context
) -> None:
    servers = {"far": {"url": authority.url, "oauth": {}}}
    config = Config(plugin={"mcp": {"servers": servers}}, load_only=frozenset({"mcp"}))
    async with Runtime(config, installed_plugins=True) as runtime:
        installer = runtime.services.extensions("installer")["mcp_server"]
        waiting = await installer.authenticate("far", context)
        assert waiting.status == "needs_auth"
        assert waiting.auth_url.startswith(f"{authority.issuer}/authorize?")
        same = await installer.authenticate("far", context)
        assert same.auth_url == waiting.auth_url

        authority.browser()(waiting.auth_url)
        [opened] = installer._handovers._open.values()
        await opened.work

        done = await installer.authenticate("far", context)
        assert done.status == "active"
        assert not [token for token in authority.valid if token in repr((waiting, same, done))]
