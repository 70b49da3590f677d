"""The gateway over HTTP: who is let in, as whom, and what one client learns of another."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import attrs
import httpx2
import pytest

import hardpoint
from hardpoint.errors import ConfigError, ExternalService
from hardpoint_mcp.config import GatewayOAuth, ServeConfig
from hardpoint_mcp.gateway.http import check_reachable, serve_http

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
ACCEPT = "application/json, text/event-stream"


def sha256(token: str) -> str:
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


@attrs.define(eq=False)
class Served:
    """A gateway that listens, spoken to in plain HTTP."""

    url: str
    front: Any

    async def post(self, message: Any, **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx2.AsyncClient(trust_env=False) as client:
            return await client.post(
                self.url, json=message, headers={"accept": ACCEPT, **named}, timeout=20
            )

    async def open(self, **headers: str) -> str:
        """Open a session as clients of the handshake era do."""
        params = {
            "protocolVersion": HANDSHAKE,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        response = await self.post(request("initialize", **params), **headers)
        assert response.status_code == 200, response.text
        session = response.headers["mcp-session-id"]
        await self.post(
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            mcp_session_id=session,
            **headers,
        )
        return session

    async def modern(self, method: str, params: Any = None, **headers: str) -> httpx2.Response:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        }
        message = request(method, **(params or {}), _meta=meta)
        named = {"mcp_protocol_version": MODERN, "mcp_method": method}
        if params and "name" in params:
            named["mcp_name"] = params["name"]
        return await self.post(message, **named, **headers)

    async def tools(self, **headers: str) -> set[str]:
        listed = result(await self.modern("tools/list", **headers))["tools"]
        return {tool["name"] for tool in listed}


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def result(response: httpx2.Response) -> Any:
    """The result in a JSON answer, or in the last event of a stream."""
    assert response.status_code == 200, response.text
    body = response.text
    if response.headers["content-type"].startswith("text/event-stream"):
        body = [line[6:] for line in body.splitlines() if line.startswith("data: {")][-1]
    return json.loads(body)["result"]


def events(response: httpx2.Response) -> list[str]:
    return [line[4:] for line in response.text.splitlines() if line.startswith("id: ")]


@pytest.fixture
async def served(front: Any) -> AsyncIterator[Callable[..., Awaitable[Served]]]:
    """Serve a gateway on a free port of this machine."""
    tasks: list[asyncio.Task[None]] = []

    async def make(servers: Any = None, *, deny: Any = (), **serve: Any) -> Served:
        made = await front(servers, deny=deny, serve=serve)
        made.gateway.stop()
        url = asyncio.get_running_loop().create_future()
        serving = serve_http(made.gateway, "127.0.0.1", 0, ready=url.set_result)
        tasks.append(asyncio.ensure_future(serving))
        async with asyncio.timeout(20):
            return Served(await url, made)

    yield make
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


# from where ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:1234"}, 200),
        ({}, 200),
    ],
)
async def test_a_page_in_a_browser_gets_nothing(headers, status, served):
    """Also when its name was made to lead to this machine."""
    gateway = await served()
    response = await gateway.modern("tools/list", **headers)
    assert response.status_code == status


async def test_hosts_and_origins_can_be_allowed(served):
    gateway = await served(
        allowed_hosts=["tools.example"], allowed_origins=["https://chat.example"]
    )
    assert await gateway.tools(host="tools.example", origin="https://chat.example")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "tools.example"])
def test_serving_everybody_needs_tokens(host):
    with pytest.raises(ConfigError, match="anybody"):
        check_reachable(ServeConfig(), host)
    oauth = GatewayOAuth(issuer="https://a.example", resource="https://tools.example/mcp")
    check_reachable(ServeConfig(oauth=oauth), host)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_this_machine_may_be_served_without(host):
    check_reachable(ServeConfig(), host)


async def test_an_address_that_is_taken_is_said(served):
    gateway = await served()
    port = httpx2.URL(gateway.url).port
    with pytest.raises(ExternalService, match="in use"):
        await serve_http(gateway.front.gateway, "127.0.0.1", port)


async def test_a_body_without_end_is_cut_off(served):
    gateway = await served()
    response = await gateway.post(request("ping", filler="x" * 17_000_000))
    assert response.status_code == 413


@pytest.mark.parametrize("body", ["", "{", "[]", "7", '{"jsonrpc": "1.0"}', "[[[[[[" * 10_000])
async def test_what_is_no_message_is_refused(body, served):
    gateway = await served()
    async with httpx2.AsyncClient(trust_env=False) as client:
        response = await client.post(
            gateway.url,
            content=body.encode(),
            headers={"accept": ACCEPT, "content-type": "application/json"},
        )
    assert response.status_code == 400
    assert await gateway.tools()


# as whom ---------------------------------------------------------------------------------------


CLIENTS = {
    "ci": {"token": sha256("ci-token"), "user": "robot", "tools": ["greet*"]},
    "ana": {"token": sha256("ana-token"), "user": "ana", "session": "desk"},
}


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer wrong", "Basic Y2k6", f"Bearer {sha256('ci-token')}"],
)
async def test_without_a_known_token_nothing_is_told(authorization, served):
    gateway = await served(clients=CLIENTS)
    headers = {} if authorization is None else {"authorization": authorization}
    response = await gateway.modern("tools/list", **headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer ")
    assert "greet" not in response.text


async def test_a_token_gives_its_client_its_tools_and_no_more(served):
    gateway = await served(clients=CLIENTS)

    assert "pay" in await gateway.tools(authorization="Bearer ana-token")
    shown = await gateway.tools(authorization="Bearer ci-token")
    refused = await gateway.modern(
        "tools/call", {"name": "count", "arguments": {"to": 1}}, authorization="Bearer ci-token"
    )

    assert "greet" in shown
    assert not {"pay", "count"} & shown
    assert "nknown tool" in refused.text or "no tool" in refused.text


async def test_a_client_is_not_shown_what_the_rules_deny_to_its_user(served):
    clients = {name: {"token": sha256(name), "user": name} for name in ("ana", "eve")}
    made = await served(
        clients=clients, deny=[{"tool": "pay", "when": {"user": "eve"}}, {"tool": "count"}]
    )

    assert "pay" in await made.tools(authorization="Bearer ana")
    assert "pay" not in (seen := await made.tools(authorization="Bearer eve"))
    assert "greet" in seen
    response = await made.modern(
        "tools/call", {"name": "pay", "arguments": {"amount": 1}}, authorization="Bearer eve"
    )
    assert "Unknown tool: pay" in response.text


@pytest.mark.parametrize(
    ("token", "who"), [("ana-token", ("ana", "desk")), ("ci-token", ("robot", "client:robot"))]
)
async def test_calls_count_for_the_user_and_session_of_the_token(token, who, served):
    gateway = await served(clients=CLIENTS)
    seen: list[tuple[str, str]] = []

    def greet_me(context: hardpoint.JobContext) -> str:
        seen.append((context.user_id, context.session_id))
        return "hello"

    gateway.front.runtime.registry.register(hardpoint.tool(greet_me))
    response = await gateway.modern(
        "tools/call",
        {"name": "greet_me", "arguments": {}},
        authorization=f"Bearer {token}",
        mcp_session_id="somebody-elses",
    )

    assert not result(response).get("isError")
    assert seen == [who]


async def test_a_session_belongs_to_the_token_that_opened_it(served):
    gateway = await served(clients=CLIENTS)
    session = await gateway.open(authorization="Bearer ana-token")

    own = await gateway.post(
        request("tools/list"), authorization="Bearer ana-token", mcp_session_id=session
    )
    other = await gateway.post(
        request("tools/list"), authorization="Bearer ci-token", mcp_session_id=session
    )

    assert result(own)["tools"]
    assert other.status_code == 404


async def test_nobody_reads_on_in_anothers_stream(served):
    gateway = await served()
    first, second = await gateway.open(), await gateway.open()
    call = request("tools/call", name="greet", arguments={"name": "my secret name"})
    answer = await gateway.post(call, mcp_session_id=first, mcp_protocol_version=HANDSHAKE)
    assert "my secret name" in answer.text
    read: dict[str, str] = {}

    async with httpx2.AsyncClient(trust_env=False) as client:
        for session in (first, second):
            headers = {
                "accept": "text/event-stream",
                "mcp-session-id": session,
                "mcp-protocol-version": HANDSHAKE,
                "last-event-id": events(answer)[0],
            }
            async with client.stream("GET", gateway.url, headers=headers) as response:
                read[session] = ""
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        async for line in response.aiter_lines():
                            read[session] += line
                            if "secret" in line:
                                break

    assert "my secret name" in read[first]
    assert "my secret name" not in read[second]


# tokens of an authorization server -------------------------------------------------------------


@attrs.define(eq=False)
class Issuer:
    """An authorization server: its keys, and what it says of tokens that it is asked about."""

    http: Any
    kit: Any
    resource: str = "https://tools.example/mcp"
    key: Any = attrs.field(init=False)
    url: str = ""
    fetched: int = 0
    active: dict[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self.key = ec.generate_private_key(ec.SECP256R1())

    async def start(self) -> None:
        self.url = (await self.http.start(self.answer)).removesuffix("/mcp")

    def answer(self, request: Any) -> Any:
        import jwt.algorithms

        match request.path:
            case "/.well-known/oauth-authorization-server":
                found = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
            case "/keys":
                self.fetched += 1
                public = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
                found = {"keys": [public | {"kid": "k1", "alg": "ES256", "use": "sig"}]}
            case "/introspect":
                token = request.body.decode().removeprefix("token=")
                found = self.active.get(token, {"active": False})
            case _:
                return self.kit.Reply(404, {})
        return self.kit.Reply(200, found)

    def token(self, *, key: Any = None, kid: str = "k1", alg: str = "ES256", **claims: Any) -> str:
        import jwt

        made = {
            "iss": self.url,
            "aud": self.resource,
            "sub": "ana",
            "exp": time.time() + 60,
            "scope": "tools",
        } | claims
        kept = {name: value for name, value in made.items() if value is not None}
        return jwt.encode(
            kept,
            None if alg == "none" else key or self.key,
            algorithm=alg,
            headers={"kid": kid},
        )

    def config(self, **more: Any) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "resource": self.resource,
            "required_scopes": ["tools"],
            **more,
        }


@pytest.fixture
async def issuer(http: Any, kit: Any) -> Issuer:
    made = Issuer(http, kit)
    await made.start()
    return made


async def test_a_signed_token_made_for_this_gateway_is_let_in(served, issuer):
    gateway = await served(oauth=issuer.config())

    for audience in (issuer.resource, ["https://other.example", issuer.resource]):
        token = issuer.token(aud=audience)
        assert "greet" in await gateway.tools(authorization=f"Bearer {token}")
    assert issuer.fetched == 1


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://other.example/mcp"},
        {"aud": None},
        {"aud": "https://tools.example/mcp/deeper"},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"sub": "system"},
        {"nbf": time.time() + 3600},
        {"kid": "unknown"},
        {"key": "x" * 64, "alg": "HS256"},
        {"alg": "none"},
    ],
)
async def test_any_other_signed_token_is_refused(claims, served, issuer):
    gateway = await served(oauth=issuer.config())
    response = await gateway.modern("tools/list", authorization=f"Bearer {issuer.token(**claims)}")
    assert response.status_code == 401


async def test_a_token_signed_by_somebody_else_is_refused(served, issuer, kit):
    gateway = await served(oauth=issuer.config())
    stranger = Issuer(None, kit)
    token = issuer.token(key=stranger.key)
    response = await gateway.modern("tools/list", authorization=f"Bearer {token}")
    assert response.status_code == 401


async def test_a_token_for_less_says_what_is_missing(served, issuer):
    gateway = await served(oauth=issuer.config())
    token = issuer.token(scope="other")
    response = await gateway.modern("tools/list", authorization=f"Bearer {token}")
    assert response.status_code == 403
    assert "insufficient_scope" in response.headers["www-authenticate"]


async def test_many_unknown_keys_do_not_make_us_ask_for_keys_each_time(served, issuer):
    gateway = await served(oauth=issuer.config())
    for number in range(20):
        token = issuer.token(kid=f"k-{number}")
        await gateway.modern("tools/list", authorization=f"Bearer {token}")
    assert issuer.fetched == 1


async def test_opaque_tokens_are_asked_about(served, issuer):
    claims = {"active": True, "aud": issuer.resource, "sub": "ana", "scope": "tools"}
    issuer.active = {
        "good": claims,
        "old": claims | {"exp": 1},
        "foreign": claims | {"aud": "https://other.example"},
        "odd": claims | {"active": "yes"},
    }
    gateway = await served(oauth=issuer.config(introspection_url=f"{issuer.url}/introspect"))

    answers = {
        token: (await gateway.modern("tools/list", authorization=f"Bearer {token}")).status_code
        for token in ("good", "old", "foreign", "odd", "unknown")
    }

    assert answers == {"good": 200, "old": 401, "foreign": 401, "odd": 401, "unknown": 401}


async def test_an_authorization_server_out_of_reach_lets_nobody_in(served, issuer, http):
    gateway = await served(oauth=issuer.config())
    token = issuer.token()
    await http.stop()
    response = await gateway.modern("tools/list", authorization=f"Bearer {token}")
    assert response.status_code == 401


async def test_clients_are_told_where_to_get_a_token(served, issuer):
    gateway = await served(oauth=issuer.config())
    response = await gateway.modern("tools/list")
    assert (
        'resource_metadata="https://tools.example/.well-known/oauth-protected-resource/mcp"'
        in response.headers["www-authenticate"]
    )
    async with httpx2.AsyncClient(trust_env=False) as client:
        address = gateway.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        document = (await client.get(address)).json()
    assert document["resource"] == issuer.resource
    assert document["authorization_servers"] == [issuer.url]
