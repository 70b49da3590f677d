"""Logging in for a tool: at the service, by hand, and staying logged in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import wasmtime
from oauth_service import CLIENT_ID, CLIENT_SECRET, Service
from wasm_guests import wat

from hardpoint import Config, JobContext, Runtime
from hardpoint.config import NetworkConfig, PolicyConfig, SecretsConfig
from hardpoint.errors import ConfigError, HardpointError, NotAuthorized
from hardpoint.interfaces import SYSTEM
from hardpoint.testing import FakeClock
from hardpoint_wasm import plugin
from hardpoint_wasm.capabilities import Capabilities
from hardpoint_wasm.describe import Interface
from hardpoint_wasm.installer import WasmInstaller
from hardpoint_wasm.login import by_browser, by_hand, scopes_for
from hardpoint_wasm.logins import LoginEnded, Logins
from hardpoint_wasm.names import digest
from hardpoint_wasm.store import Record, Store

ANA = JobContext(user_id="ana", auto_approve=True)
START = 1_700_000_000.0


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path, trustme.CA()) as service:
        yield service


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDPOINT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HARDPOINT_PASSPHRASE", "synthetic passphrase of a test")


def getter(service: Service) -> bytes:
    """A tool that fetches its data and answers with status and text, or with the failure."""
    t = wat.Text()
    none = "(i32.const 0) (i32.const 0) (i32.const 0)"
    url = t(f"{service.url}/data")
    body = f"""
      (call $http {t("GET")} {url} {t("{}")} {none} (i32.const 0) (i32.const 0) (local.get $r))
      (if (i32.load8_u (local.get $r))
        (then (call $put {t("failed: ")})
          (call $put (i32.load offset=4 (local.get $r)) (i32.load offset=8 (local.get $r))))
        (else (call $put {t("got: ")})
          (call $put (i32.load offset=16 (local.get $r)) (i32.load offset=20 (local.get $r)))))"""
    return bytes(wasmtime.wat2wasm(wat.tool(body, text=t)))


def add(folder: Path, name: str, wasm: bytes, asked: Any, without: str = "?") -> Record:
    interface = Interface("gets", {"type": "object", "properties": {}, "required": []})
    record = Record(name, digest(wasm), "world", asked=asked, interfaces={name: interface})
    kept = tuple(p for p in record.missing if not p.startswith(without))
    record = Record(
        name, digest(wasm), "world", asked=asked, granted=kept, interfaces={name: interface}
    )
    Store(folder / "tools").add(record, wasm)
    return record


@contextlib.asynccontextmanager
async def running(
    tmp_path: Path, cache_dir: Path, service: Service, clock: Any = None
) -> AsyncIterator[Runtime]:
    config = Config(
        plugin={"wasm": {"folder": str(tmp_path / "tools"), "cache_dir": str(cache_dir)}},
        secrets=SecretsConfig(("file",), key="passphrase"),
        network=NetworkConfig(("127.0.0.0/8",), ca_file=service.ca_file),
        policy=PolicyConfig(mode="auto"),
    )
    async with Runtime(
        config, plugins={"wasm": plugin}, in_memory=False, clock=clock or FakeClock(START)
    ) as rt:
        yield rt


def logins_of(rt: Runtime, tmp_path: Path) -> Logins:
    return Logins(rt.services, tmp_path / "locks")


async def log_in(
    rt: Runtime, tmp_path: Path, service: Service, asked: Any = None, owner: str = "ana",
    browse: Callable[[str], Any] | None = None, **options: Any,
) -> Any:  # fmt: skip
    """Log in as a person with a browser does."""
    capabilities = Capabilities.from_json(asked or service.capabilities())
    assert capabilities.auth is not None
    browsing: list[asyncio.Future[Any]] = []

    def show(address: str) -> bool:
        work = asyncio.to_thread(browse or service.browse, address)
        browsing.append(asyncio.ensure_future(work))
        return True

    scopes = scopes_for(capabilities.auth, options.pop("records", ()))
    kept = await by_browser(
        capabilities, scopes, logins_of(rt, tmp_path), rt.services, owner,
        say=lambda line: None, show=show, **options,
    )  # fmt: skip
    await asyncio.gather(*browsing)
    return kept


# at the service --------------------------------------------------------------------------------


async def test_a_login_gives_the_tool_its_token_and_nobody_sees_it(
    tmp_path: Path, cache_dir: Path, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    add(tmp_path, "get", getter(service), service.capabilities())
    with caplog.at_level("DEBUG"):
        async with running(tmp_path, cache_dir, service) as rt:
            before = await rt.run("get", {}, ANA)
            kept = await log_in(rt, tmp_path, service)
            after = await rt.run("get", {}, ANA)
            eve = await rt.run("get", {}, JobContext(user_id="eve", auto_approve=True))

    assert "is not set" in str(before.result)
    assert after.result == "got: data of /data"
    assert "is not set" in str(eve.result)
    assert kept.place == "file"
    assert kept.checked == f"{service.host} takes it"
    kept_files = [f for f in tmp_path.rglob("*") if f.is_file()]
    seen = caplog.text + "".join(f.read_text(errors="replace") for f in kept_files)
    assert not [value for value in (*service.access, *service.refresh) if value in seen]


async def test_the_login_is_proved_with_state_pkce_and_the_same_way_back(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    addresses: list[str] = []

    def browse(address: str) -> None:
        addresses.append(address)
        service.browse(address)

    async with running(tmp_path, cache_dir, service) as rt:
        await log_in(rt, tmp_path, service, browse=browse)

    [address] = addresses
    assert "code_challenge_method=S256" in address
    assert "access_type=offline" in address
    assert "scope=read" in address
    [(grant, form)] = service.asked
    assert grant == "authorization_code"
    assert form["redirect_uri"].startswith("http://127.0.0.1:")
    assert len(form["code_verifier"]) >= 43


@pytest.mark.parametrize(
    ("setting", "value", "oauth"),
    [
        ("nested", True, {"access_token_field": "authed_user.access_token"}),
        ("form_encoded", True, {}),
        ("expires_in", None, {}),
        ("expires_in", "3600", {}),
        ("gives_refresh", False, {}),
        ("nested", False, {"use_pkce": False}),
    ],
)
async def test_answers_of_every_shape_are_understood(
    tmp_path: Path, cache_dir: Path, service: Service, setting: str, value: Any, oauth: Any
) -> None:
    setattr(service, setting, value)
    asked = service.capabilities(**oauth)
    add(tmp_path, "get", getter(service), asked)

    async with running(tmp_path, cache_dir, service) as rt:
        await log_in(rt, tmp_path, service, asked)
        outcome = await rt.run("get", {}, ANA)

    assert outcome.result == "got: data of /data"
    assert ("code_verifier" in service.asked[0][1]) == oauth.get("use_pkce", True)


async def test_the_client_may_be_secrets_that_setup_asked_for(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    asked = service.capabilities(
        client_id=None, client_id_env="THEIR_ID", client_secret=None, client_secret_env="THEIR_KEY"
    )
    async with running(tmp_path, cache_dir, service) as rt:
        with pytest.raises(ConfigError, match="no OAuth client") as missing:
            await log_in(rt, tmp_path, service, asked)
        await rt.services.secrets.set("ana", "their_id", CLIENT_ID)
        await rt.services.secrets.set("ana", "their_key", CLIENT_SECRET)
        kept = await log_in(rt, tmp_path, service, asked)

    assert missing.value.hint is not None
    assert "THEIR_ID" in missing.value.hint
    assert kept.checked


async def test_an_answer_of_another_login_is_ignored(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    """Any page in the browser can send a request to the loopback address."""

    def browse(address: str) -> None:
        service.browse(address, state="somebody-elses", code="forged")
        service.browse(address)

    async with running(tmp_path, cache_dir, service) as rt:
        await log_in(rt, tmp_path, service, browse=browse)

    [(_, form)] = service.asked
    assert form["code"] != "forged"


async def test_a_refusal_is_told_and_nothing_is_kept(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    def refuse(address: str) -> None:
        service.browse(address, code="", error="access_denied", error_description="the\x1bperson")

    async with running(tmp_path, cache_dir, service) as rt:
        with pytest.raises(NotAuthorized, match="refused the login: the person"):
            await log_in(rt, tmp_path, service, browse=refuse)
        assert await rt.services.secrets.names("ana") == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, '{"error": "bad_verification_code"}'), "gives no token: bad_verification_code"),
        ((500, "<html>"), "gives no token: HTTP 500"),
        ((200, "[]"), "gives no token"),
        ((200, '{"access_token": {"a": 1}}'), "gives no token"),
        ((400, '{"error": "invalid_grant"}'), "ended the login"),
    ],
)
async def test_a_service_that_gives_no_token_is_named(
    tmp_path: Path, cache_dir: Path, service: Service, answer: Any, said: str
) -> None:
    service.token_answer = answer

    async with running(tmp_path, cache_dir, service) as rt:
        with pytest.raises(HardpointError, match=said):
            await log_in(rt, tmp_path, service)
        assert await rt.services.secrets.names("ana") == []


async def test_an_address_pasted_from_another_machine_ends_the_login(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    said: list[str] = []
    wrong = ["not an address"]

    async def ask(prompt: str) -> str:
        if wrong:
            return wrong.pop()
        return await asyncio.to_thread(service.browse, await shown, follow=False)

    def say(line: str) -> None:
        said.append(line)
        if line.startswith("Log in at"):
            shown.set_result(line.partition("\n")[2])

    capabilities = Capabilities.from_json(service.capabilities())
    async with running(tmp_path, cache_dir, service) as rt:
        kept = await by_browser(
            capabilities, ("read",), logins_of(rt, tmp_path), rt.services, "ana", say=say, ask=ask
        )

    assert kept.checked
    assert any("That is not it" in line for line in said)


async def test_a_token_that_the_service_refuses_is_not_kept(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    asked = service.capabilities()
    asked["auth"]["validation_endpoint"]["success_status"] = 204

    async with running(tmp_path, cache_dir, service) as rt:
        with pytest.raises(NotAuthorized, match="status 200, not 204; nothing was kept"):
            await log_in(rt, tmp_path, service, asked)
        assert await rt.services.secrets.names("ana") == []


async def test_a_service_that_cannot_be_asked_is_said_to_be_unchecked(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    asked = service.capabilities()
    asked["auth"]["validation_endpoint"]["url"] = "https://127.0.0.1:9/me"

    async with running(tmp_path, cache_dir, service) as rt:
        kept = await log_in(rt, tmp_path, service, asked)

    assert kept.checked.startswith("not checked")


async def test_tools_that_share_a_login_ask_for_the_scopes_of_all(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    wasm = getter(service)
    records = [
        add(tmp_path, "reader", wasm, service.capabilities()),
        add(tmp_path, "writer", wasm, service.capabilities(scopes=["read", "write"])),
        add(
            tmp_path, "stranger", wasm,
            service.capabilities(scopes=["admin"], token_url="https://elsewhere.example/t"),
        ),
        add(tmp_path, "refused", wasm, service.capabilities(scopes=["root"]), without="login:"),
    ]  # fmt: skip
    addresses: list[str] = []

    def browse(address: str) -> None:
        addresses.append(address)
        service.browse(address)

    async with running(tmp_path, cache_dir, service) as rt:
        await log_in(rt, tmp_path, service, records=records, browse=browse)

    assert "scope=read+write&" in addresses[0] + "&"


# what is granted -------------------------------------------------------------------------------


def test_nothing_of_a_login_is_used_before_it_is_granted(service: Service) -> None:
    asked = Capabilities.from_json(
        service.capabilities(client_id_env="THEIR_ID", client_secret_env="THEIR_SECRET")
        | {"name": "get"}
    )
    assert asked.auth is not None
    assert asked.auth.oauth is not None
    permissions = asked.auth.permissions

    nothing = asked.only(()).auth
    login_alone = asked.only([f"login:{service.host}"]).auth

    assert permissions == (
        f"login:{service.host}", "env:THEIR_ID", "env:THEIR_SECRET", f"validate:{service.host}",
    )  # fmt: skip
    assert nothing is not None
    assert nothing.oauth is None
    assert nothing.validation_endpoint is None
    assert login_alone is not None
    assert login_alone.oauth is not None
    assert login_alone.oauth.client_secret_env is None
    assert asked.only(permissions).auth == asked.auth


async def test_a_variable_is_read_only_when_that_is_granted(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "synthetic value of somebody")
    asked = Capabilities.from_json(
        service.capabilities(
            client_id=None, client_id_env="THEIR_ID", client_secret=None,
            client_secret_env="AWS_SECRET_ACCESS_KEY",
        )
    )  # fmt: skip
    login = f"login:{service.host}"

    secrets = {"their_id": "synthetic-id-kept", "aws_secret_access_key": "synthetic-kept"}

    async def app(*granted: str, kept: bool = False) -> Any:
        async def secret(name: str) -> str | None:
            return secrets.get(name) if kept else None

        auth = asked.only(granted).auth
        assert auth is not None
        assert auth.oauth is not None
        return await auth.oauth.app(secret)

    for kept in (False, True):
        with pytest.raises(ConfigError, match="no OAuth client"):
            await app(login, kept=kept)
    assert (await app(login, "env:THEIR_ID", kept=True)).client_id == "synthetic-id-kept"
    assert (await app(login, "env:THEIR_ID", kept=True)).client_secret is None
    monkeypatch.setenv("THEIR_ID", "synthetic-client")
    assert (await app(login, "env:THEIR_ID")).client_secret is None
    both = await app(login, "env:THEIR_ID", "env:AWS_SECRET_ACCESS_KEY")
    assert both.client_secret == "synthetic value of somebody"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"authorization_url": "file:///etc/passwd"}, "authorization_url is no https"),
        ({"authorization_url": "javascript:alert(1)"}, "authorization_url is no https"),
        ({"token_url": "http://example.com/t"}, "token_url is no https"),
        ({"extra_params": {"redirect_uri": "https://evil.example"}}, "may not set 'redirect_uri'"),
        ({"extra_params": {"state": "x"}}, "may not set 'state'"),
        ({"use_pkse": True}, "use_pkse"),
    ],
)
def test_a_login_that_could_be_turned_is_refused_at_load(
    service: Service, change: Any, said: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        Capabilities.from_json(service.capabilities(**change))


# staying logged in -----------------------------------------------------------------------------


async def test_a_token_is_renewed_before_it_ends_and_once_for_many_calls(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    add(tmp_path, "get", getter(service), service.capabilities())
    clock = FakeClock(START)

    async with running(tmp_path, cache_dir, service, clock) as rt:
        await log_in(rt, tmp_path, service)
        clock.advance(3200)
        early = await rt.run("get", {}, ANA)
        renewed_early = len(service.asked)
        clock.advance(200)
        service.end_tokens()
        outcomes = await asyncio.gather(*(rt.run("get", {}, ANA) for _ in range(8)))

    assert early.result == "got: data of /data"
    assert renewed_early == 1
    assert {outcome.result for outcome in outcomes} == {"got: data of /data"}
    assert [grant for grant, _ in service.asked] == ["authorization_code", "refresh_token"]


async def test_two_processes_renew_once(tmp_path: Path, cache_dir: Path, service: Service) -> None:
    """A refresh token that works once would end the login of the slower one."""
    add(tmp_path, "get", getter(service), service.capabilities())
    clock = FakeClock(START)

    async with (
        running(tmp_path, cache_dir, service, clock) as one,
        running(tmp_path, cache_dir, service, clock) as other,
    ):
        await log_in(one, tmp_path, service)
        clock.advance(3590)
        outcomes = await asyncio.gather(
            *(rt.run("get", {}, ANA) for rt in (one, other, one, other))
        )

    assert {outcome.result for outcome in outcomes} == {"got: data of /data"}
    assert len(service.asked) == 2


async def test_a_token_without_a_time_is_renewed_when_the_service_refuses_it(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    service.expires_in = None
    add(tmp_path, "get", getter(service), service.capabilities())

    async with running(tmp_path, cache_dir, service) as rt:
        await log_in(rt, tmp_path, service)
        service.end_tokens()
        outcome = await rt.run("get", {}, ANA)

    assert outcome.result == "got: data of /data"


async def test_a_plain_secret_that_is_refused_stays_what_it_is(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    add(tmp_path, "get", getter(service), service.capabilities())

    async with running(tmp_path, cache_dir, service) as rt:
        await rt.services.secrets.set("ana", "service_token", "synthetic-plain-secret-1")
        outcome = await rt.run("get", {}, ANA)

    assert outcome.result == "got: who are you"
    assert service.asked == []


async def test_a_login_that_ended_says_how_to_begin_again(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    add(tmp_path, "get", getter(service), service.capabilities())
    clock = FakeClock(START)

    async with running(tmp_path, cache_dir, service, clock) as rt:
        await log_in(rt, tmp_path, service)
        clock.advance(4000)
        service.refresh.clear()
        outcome = await rt.run("get", {}, ANA)
        with pytest.raises(LoginEnded) as ended:
            await logins_of(rt, tmp_path).fresh("service_token", "ana")

    assert "cannot be renewed" in str(outcome.result)
    assert ended.value.hint is not None
    assert "hardpoint wasm auth" in ended.value.hint


@pytest.mark.parametrize("error", ["invalid_grant", "server_error"])
async def test_what_a_service_repeats_of_a_request_is_not_told(
    tmp_path: Path,
    cache_dir: Path,
    service: Service,
    error: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock(START)
    async with running(tmp_path, cache_dir, service, clock) as rt:
        await log_in(rt, tmp_path, service)
        [token] = service.refresh
        service.token_answer = (
            400,
            json.dumps({"error": error, "error_description": f"{token} {CLIENT_SECRET} is bad"}),
        )
        clock.advance(3400)
        if error == "invalid_grant":
            with pytest.raises(LoginEnded) as ended:
                await logins_of(rt, tmp_path).fresh("service_token", "ana")
            said = str(ended.value)
        else:
            await logins_of(rt, tmp_path).fresh("service_token", "ana")
            said = caplog.text
        service.token_answer = (400, json.dumps({"error": error + CLIENT_SECRET}))
        with pytest.raises(HardpointError) as failed:
            await log_in(rt, tmp_path, service)

    assert "*** *** is bad" in said
    for secret in (token, CLIENT_SECRET):
        assert secret not in said + str(failed.value) + caplog.text


async def test_a_service_that_is_away_keeps_a_token_that_still_works(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    add(tmp_path, "get", getter(service), service.capabilities())
    clock = FakeClock(START)

    async with running(tmp_path, cache_dir, service, clock) as rt:
        await log_in(rt, tmp_path, service)
        clock.advance(3400)
        service.token_answer = (503, "")
        outcome = await rt.run("get", {}, ANA)

    assert outcome.result == "got: data of /data"


async def test_a_call_that_is_cancelled_does_not_lose_the_new_token(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    clock = FakeClock(START)
    async with running(tmp_path, cache_dir, service, clock) as rt:
        await log_in(rt, tmp_path, service)
        logins = logins_of(rt, tmp_path)
        clock.advance(3590)

        call = asyncio.ensure_future(logins.fresh("service_token", "ana"))
        while not logins._work:
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await logins.aclose()
        kept = await rt.services.secrets.resolve("service_token", "ana")

    assert len(service.asked) == 2
    assert kept in service.access


async def test_a_tool_that_names_anothers_secret_cannot_have_it_renewed_elsewhere(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    with Service(tmp_path / "..", trustme.CA()) as thief:
        asked = service.capabilities(token_url=f"{thief.url}/token")
        add(tmp_path, "get", getter(service), asked)
        clock = FakeClock(START)
        async with running(tmp_path, cache_dir, service, clock) as rt:
            await log_in(rt, tmp_path, service)
            clock.advance(3590)
            outcome = await rt.run("get", {}, ANA)

        assert outcome.result == "got: data of /data"
        assert thief.asked == []
    assert len(service.asked) == 2


async def test_the_installations_login_serves_users_without_their_own(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    add(tmp_path, "get", getter(service), service.capabilities())
    clock = FakeClock(START)

    async with running(tmp_path, cache_dir, service, clock) as rt:
        await log_in(rt, tmp_path, service, owner=SYSTEM)
        clock.advance(3590)
        outcome = await rt.run("get", {}, ANA)
        names = await rt.services.secrets.names("ana")

    assert outcome.result == "got: data of /data"
    assert len(service.asked) == 2
    assert names == []


async def test_logging_out_leaves_nothing(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    async with running(tmp_path, cache_dir, service) as rt:
        await log_in(rt, tmp_path, service)
        before = await rt.services.secrets.names("ana")
        removed = await logins_of(rt, tmp_path).forget("ana", "service_token")
        after = await rt.services.secrets.names("ana")

    assert len(before) == 3
    assert removed
    assert after == []


# by hand ---------------------------------------------------------------------------------------


async def test_a_secret_given_by_hand_is_tried_where_requests_carry_it(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    asked = service.capabilities()
    del asked["auth"]["oauth"]
    capabilities = Capabilities.from_json(asked)
    good = "synthetic-access-given-by-hand"
    service.access.add(good)

    async with running(tmp_path, cache_dir, service) as rt:
        with pytest.raises(NotAuthorized, match="status 401"):
            await by_hand(capabilities, "synthetic-wrong-value", rt.services, "ana")
        assert await rt.services.secrets.names("ana") == []
        kept = await by_hand(capabilities, good, rt.services, "ana")

    assert kept.checked == f"{service.host} takes it"


# for models ------------------------------------------------------------------------------------


async def test_a_tool_that_needs_a_login_begins_one_and_a_person_ends_it(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    from hardpoint.interfaces import CallHandle

    add(tmp_path, "get", getter(service), service.capabilities())
    async with running(tmp_path, cache_dir, service) as rt:
        installer = rt.services.extensions("installer")["wasm"]
        assert isinstance(installer, WasmInstaller)
        context = ANA.bound(CallHandle("call-1", rt.services))
        state = await installer.authenticate("get", context)
        again = await installer.authenticate("get", context)
        assert state.auth_url is not None
        await asyncio.to_thread(service.browse, state.auth_url)
        assert installer._handovers is not None
        [opened] = installer._handovers._open.values()
        await opened.work
        after = await installer.authenticate("get", context)
        outcome = await rt.run("get", {}, ANA)

    assert state.status == "needs_auth"
    assert again.auth_url == state.auth_url
    assert after.status == "active"
    assert after.auth_url is None
    assert outcome.result == "got: data of /data"
    assert CLIENT_SECRET not in json.dumps([state.detail, state.auth_url, after.detail])


async def test_a_tool_with_a_secret_by_hand_says_how_one_gets_it(
    tmp_path: Path, cache_dir: Path, service: Service
) -> None:
    from hardpoint.interfaces import CallHandle

    asked = service.capabilities()
    del asked["auth"]["oauth"]
    add(tmp_path, "get", getter(service), asked)
    async with running(tmp_path, cache_dir, service) as rt:
        installer = rt.services.extensions("installer")["wasm"]
        context = ANA.bound(CallHandle("call-1", rt.services))
        state = await installer.authenticate("get", context)

    assert state.status == "needs_auth"
    assert state.auth_url is None
    assert "hardpoint wasm auth get" in state.detail
    assert f"{service.url}/keys" in state.detail
