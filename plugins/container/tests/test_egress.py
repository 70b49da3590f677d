"""The one way out: what passes, what does not, and that nothing else leads out."""

from __future__ import annotations

import asyncio
import ipaddress
import shlex
import ssl
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from hardpoint.errors import NotAuthorized, SandboxError
from hardpoint.net import PinnedClient, UrlGuard
from hardpoint_container import ContainerDomain, ShellTool
from hardpoint_container.config import EgressConfig, EgressRule, SandboxSecret
from hardpoint_container.egress import Exit, server_name
from hardpoint_container.egress_rules import proposals_file, read_proposals
from hardpoint_container.session_ca import SessionCA
from hardpoint_container.standins import MARK
from hardpoint_container.workspace import data_folder

pytestmark = pytest.mark.podman

VALUE = "real-" + "value-0123456789abcdef"


@attrs.define
class World:
    """A server that is every host, and what it was asked."""

    port: int
    ca_file: Path
    client: Any = None
    heads: list[str] = attrs.field(factory=list)
    records: list[dict[str, Any]] = attrs.field(factory=list)

    async def resolve(self, host: str, port: int) -> list[str]:
        return [] if host == "nowhere.example" else ["127.0.0.1"]

    def way_out(self, _context: Any) -> Exit:
        guard = UrlGuard(allow_http=True, allow_private=["127.0.0.0/8"])

        async def reveal(name: str) -> str | None:
            return VALUE if name == "key" else None

        if self.client is None:
            self.client = PinnedClient(guard=guard, resolver=self, verify=str(self.ca_file))

        def client(bindings: Any) -> PinnedClient:
            return self.client.bound(bindings, reveal)

        def record(fields: Any) -> None:
            self.records.append(dict(fields))

        return Exit(client=client, record=record, guard=guard, resolver=self)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    ca = SessionCA()
    (tmp_path / "ca.pem").write_text(ca.pem())
    made = World(0, tmp_path / "ca.pem")

    def pick(connection: Any, name: str | None, _context: Any) -> None:
        connection.context = ca.context(name or "unknown.example")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = pick

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                lengths = [x for x in head.lower().split("\r\n") if x.startswith("content-length:")]
                body = await reader.readexactly(int(lengths[0][15:])) if lengths else b""
                made.heads.append(head + body.decode("latin-1"))
                answer = f"saw {head}".encode()
                size = f"content-length: {len(answer)}\r\n\r\n".encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n" + size)
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        made.port = server.sockets[0].getsockname()[1]
        yield made
        if made.client is not None:
            await made.client.aclose()


@pytest.fixture
def proxied(make_kit: Any, world: World) -> Any:
    """Makes a kit whose sandbox has the gate, with these `[plugin.container.egress]` settings."""

    async def make(**egress: Any) -> Any:
        kit = await make_kit(network="proxy", egress=EgressConfig(**egress))
        kit.domain._way_out = world.way_out
        return kit

    return make


def fetch(*lines: str, timeout: int = 10) -> list[str]:
    """A program that asks for addresses and says what came of each."""
    head = f"""
        import urllib.request, urllib.error, os
        def get(url, data=None, method=None, **headers):
            request = urllib.request.Request(url, data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout={timeout}) as answer:
                    print(answer.status, answer.read().decode()[:2000])
            except urllib.error.HTTPError as error: print(error.code, error.read().decode()[:300])
            except OSError as error: print("failed", str(error)[:200])
    """
    return ["python3", "-c", textwrap.dedent(head) + "\n".join(lines)]


async def test_an_allowed_request_passes_and_is_recorded(proxied: Any, world: World) -> None:
    kit = await proxied(allow=(EgressRule(f"api.example:{world.port}", ("GET",), ("/v1",)),))

    said = await kit.out(fetch(f"get('https://api.example:{world.port}/v1/x?a=1')"))

    assert said.startswith("200 saw GET /v1/x?a=1")
    assert world.records == [
        {
            "method": "GET",
            "address": f"https://api.example:{world.port}/v1/x",
            "verdict": "allowed",
            "status": 200,
        }
    ]


async def test_what_no_rule_names_does_not_pass(proxied: Any, world: World) -> None:
    port = world.port
    kit = await proxied(allow=(EgressRule(f"api.example:{port}", ("GET",), ("/v1",)),))

    said = await kit.out(
        fetch(
            f"get('https://api.example:{port}/v2')",
            f"get('https://api.example:{port}/v1/../v2')",
            f"get('https://api.example:{port}/v1', b'data')",
            f"get('https://api.example:{port}/v1', method='DELETE')",
            f"get('https://evil.example:{port}/v1')",
            f"get('https://sub.api.example:{port}/v1')",
            "get('https://api.example/v1')",
            "get('https://api.example:22/v1')",
            f"get('http://api.example:{port}/v1')",
            f"get('https://127.0.0.1:{port}/v1')",
            "get('http://169.254.169.254/latest/meta-data')",
            f"get('https://api.example:{port}/v1', Host='evil.example')",
        )
    )

    lines = [line for line in said.splitlines() if line]
    assert len(lines) >= 12
    assert not [line for line in lines if line.startswith("200")]
    assert world.heads == []


async def test_the_proxy_cannot_be_gone_round(proxied: Any, world: World) -> None:
    kit = await proxied(allow=(EgressRule(f"api.example:{world.port}"),))
    code = f"""
        import os, socket, urllib.request
        for name in list(os.environ):
            if "proxy" in name.lower(): del os.environ[name]
        def tried(what, action):
            try: action(); print("got out by", what)
            except OSError: pass
        for address in ("127.0.0.1", "0.0.0.0", "::1", "10.0.2.2", "169.254.169.254", "1.1.1.1"):
            for port in (53, 80, 443, {world.port}):
                tried((address, port), lambda: socket.create_connection((address, port), 1))
        tried("names", lambda: socket.getaddrinfo("api.example", 443))
        url = "https://api.example:{world.port}/"
        tried("urllib", lambda: urllib.request.urlopen(url, timeout=2))
    """

    assert await kit.out(["python3", "-c", textwrap.dedent(code)], seconds=60) == ""
    assert world.heads == []


async def test_the_proxy_cannot_be_confused(proxied: Any, world: World) -> None:
    port = world.port
    kit = await proxied(allow=(EgressRule(f"api.example:{port}", plain=True),))
    sent = [
        b"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: api.example\r\n\r\n".encode(),
        f"CONNECT evil@api.example:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        f"CONNECT api.example:{port}/x HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        b"CONNECT api.example:22 HTTP/1.1\r\nHost: api.example:22\r\n\r\n",
        b"CONNECT api.example HTTP/1.1\r\nHost: api.example\r\n\r\n",
        b"GET /etc/passwd HTTP/1.1\r\nHost: api.example\r\n\r\n",
        b"GET file:///etc/passwd HTTP/1.1\r\nHost: api.example\r\n\r\n",
        b"GET https://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"\0" * 200 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 4000 + b"\r\n",
        f"POST http://api.example:{port}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n".encode()
        + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://evil.example/ HTTP/1.1\r\n\r\n",
    ]
    code = f"""
        import socket
        for data in {sent!r}:
            with socket.create_connection(("127.0.0.1", 3128), 5) as s:
                try: s.sendall(data); s.shutdown(1); answer = s.recv(100)
                except OSError: continue
                if answer.split()[1:2] == [b"200"]: print("passed", data[:60])
    """

    assert await kit.out(["python3", "-c", textwrap.dedent(code)], seconds=60) == ""
    assert world.heads == []


async def test_secrets_are_put_in_outside_and_taken_out_of_answers(
    proxied: Any, world: World
) -> None:
    port = world.port
    kit = await proxied(
        allow=(EgressRule(f"api.example:{port}"), EgressRule(f"other.example:{port}")),
        secrets=(SandboxSecret("key", "API_KEY", (f"api.example:{port}",)),),
    )
    base = f"https://api.example:{port}"

    said = await kit.out(
        fetch(
            "key = os.environ['API_KEY']",
            f"get('{base}/bearer', Authorization='Bearer ' + key)",
            f"get('{base}/header', **{{'X-Key': key}})",
            f"get('{base}/query?k=' + key + '&x=1')",
            f"get('{base}/path/' + key + '/end')",
            "import base64",
            "pair = base64.b64encode(('me:' + key).encode()).decode()",
            f"get('{base}/basic', Authorization='Basic ' + pair)",
            f"get('https://other.example:{port}/', Authorization='Bearer ' + key)",
            f"get('{base}/body', key.encode())",
            "print(key)",
        )
    )

    heads = "".join(world.heads)
    assert len(world.heads) == 5
    assert heads.count(VALUE) == 4  # and once in base64
    assert MARK not in heads
    assert VALUE not in said
    assert "[REDACTED]" in said
    assert said.splitlines()[-1].startswith(MARK)
    assert "is not for 'other.example'" in said
    assert "cannot be replaced in a request body" in said


async def test_a_job_has_a_credential_under_the_name_that_it_asks_for(
    proxied: Any, world: World
) -> None:
    host = f"api.example:{world.port}"
    kit = await proxied(
        allow=(EgressRule(host),), secrets=(SandboxSecret("key", "API_KEY", (host,)),)
    )
    kit = attrs.evolve(kit, context=kit.context.holding({"MY_TOKEN": "key"}))
    program = fetch(
        f"get('https://{host}/', Authorization='Bearer ' + os.environ['MY_TOKEN'])",
        "print(os.environ['MY_TOKEN'])",
    )

    said = (await kit.tool(ShellTool(), command=shlex.join(program)))["output"]

    assert f"Bearer {VALUE}" in world.heads[0]
    assert VALUE not in said
    assert said.strip().splitlines()[-1].startswith(MARK)
    assert kit.domain.credential_problem("key") is None
    assert "does not name it" in kit.domain.credential_problem("other")
    kit = attrs.evolve(kit, context=kit.context.holding({"MY_TOKEN": "other"}))
    with pytest.raises(NotAuthorized, match="may not use the secret 'other'"):
        await kit.tool(ShellTool(), command="true")


async def test_without_the_gate_a_credential_is_an_error(make_kit: Any) -> None:
    kit = await make_kit()
    assert "proxy" in kit.domain.credential_problem("key")
    kit = attrs.evolve(kit, context=kit.context.holding({"MY_TOKEN": "key"}))

    with pytest.raises(SandboxError, match=r"need .*network = 'proxy'"):
        await kit.tool(ShellTool(), command="true")


async def test_the_value_is_nowhere_inside(proxied: Any, world: World) -> None:
    kit = await proxied(
        allow=(EgressRule(f"api.example:{world.port}"),),
        secrets=(SandboxSecret("key", "API_KEY", (f"api.example:{world.port}",)),),
    )

    seen = await kit.sh(
        "cat /proc/*/environ /proc/*/cmdline; env; ls -laR /run; find /run -type f -exec cat {} +"
    )

    assert VALUE.encode() not in seen.stdout + seen.stderr
    assert b"PRIVATE KEY" not in seen.stdout
    assert not (await kit.sh("touch /run/hardpoint/x; rm /run/hardpoint/egress.sock")).ok


async def test_audit_mode_lets_through_and_proposes_rules(proxied: Any, world: World) -> None:
    kit = await proxied(mode="audit")

    await kit.out(
        fetch(
            f"get('https://one.example:{world.port}/a')",
            f"get('https://one.example:{world.port}/b', b'x')",
            f"get('https://two.example:{world.port}/')",
        )
    )

    async with kit.domain.session(kit.context) as session:
        proposals = session.gate.rules.proposals()
    assert proposals == [
        {"host": f"one.example:{world.port}", "methods": ["GET", "POST"]},
        {"host": f"two.example:{world.port}", "methods": ["GET"]},
    ]
    assert {record["verdict"] for record in world.records} == {"would be refused"}
    await kit.domain.__aexit__(None, None, None)
    assert read_proposals(proposals_file(data_folder())) == proposals


async def test_one_connection_carries_many_requests(proxied: Any, world: World) -> None:
    kit = await proxied(allow=(EgressRule(f"api.example:{world.port}"),))
    code = f"""
        import http.client, ssl, os
        c = http.client.HTTPSConnection("127.0.0.1", 3128, timeout=10,
            context=ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]))
        c.set_tunnel("api.example", {world.port})
        for n in range(5):
            c.request("POST", f"/{{n}}", body=iter([b"a" * 10, b"b" * 10]), encode_chunked=True,
                      headers={{"Transfer-Encoding": "chunked"}})
            print(c.getresponse().read().decode().split()[2])
    """

    assert (await kit.out(["python3", "-c", textwrap.dedent(code)])).split() == [
        *("/0", "/1", "/2", "/3", "/4"),
    ]
    assert all(head.endswith("a" * 10 + "b" * 10) for head in world.heads)


async def test_large_bodies_end_at_the_limit(proxied: Any, world: World) -> None:
    kit = await proxied(allow=(EgressRule(f"api.example:{world.port}"),), max_body="1m")

    said = await kit.out(
        fetch(
            f"get('https://api.example:{world.port}/', b'x' * 1_000_000)",
            f"get('https://api.example:{world.port}/', b'x' * 3_000_000)",
        )
    )

    assert said.splitlines()[0].startswith("200")
    assert not said.splitlines()[-1].startswith("200")
    assert len(world.heads) == 1


async def test_a_tunnel_leads_to_its_host_only(proxied: Any, world: World) -> None:
    kit = await proxied(allow=(EgressRule(f"pinned.example:{world.port}", tunnel=True),))
    code = f"""
        import socket, ssl
        def ask(name):
            s = socket.create_connection(("127.0.0.1", 3128), 5)
            s.sendall(b"CONNECT pinned.example:{world.port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            s.recv(1000)
            c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = 0
            try:
                t = c.wrap_socket(s, server_hostname=name)
                t.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
                print(name, t.recv(15))
            except OSError: print(name, "refused")
        ask("pinned.example"); ask("evil.example")
    """

    said = await kit.out(["python3", "-c", textwrap.dedent(code)])

    assert said.splitlines() == ["pinned.example b'HTTP/1.1 200 OK'", "evil.example refused"]


async def test_an_unreachable_host_is_said_so(proxied: Any, world: World) -> None:
    kit = await proxied(allow=(EgressRule("nowhere.example"),))

    assert (await kit.out(fetch("get('https://nowhere.example/')"))).startswith("502")


async def test_git_and_curl_style_programs_trust_the_gate(proxied: Any, world: World) -> None:
    kit = await proxied(allow=(EgressRule(f"api.example:{world.port}"),))

    said = await kit.sh(f"git ls-remote https://api.example:{world.port}/repo 2>&1")

    assert b"SSL" not in said.stdout
    assert world.heads[0].startswith("GET /repo/info/refs?service=git-upload-pack")


async def test_a_rule_that_can_never_match_is_an_error(proxied: Any) -> None:
    kit = await proxied(allow=(EgressRule("https://api.example/v1"),))

    with pytest.raises(SandboxError, match="egress"):
        await kit.out("true")


async def test_without_a_runtime_there_is_no_way_out(make_kit: Any) -> None:
    kit = await make_kit(network="proxy")

    with pytest.raises(SandboxError, match="Runtime"):
        await kit.out("true")


def test_the_name_in_a_client_hello_is_read() -> None:
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(
        ssl.MemoryBIO(), outgoing, server_hostname="name.example"
    )
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()

    assert server_name(outgoing.read()) == "name.example"
    assert server_name(b"GET / HTTP/1.1") is None


def test_certificates_are_for_their_host_alone() -> None:
    from cryptography import x509

    ca = SessionCA()
    made = x509.load_pem_x509_certificate(ca.pem().encode())

    assert made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert ca.context("a.example") is ca.context("a.example")
    assert ca.context("a.example") is not ca.context("b.example")
    assert ipaddress.ip_address("127.0.0.1")


def test_making_a_gated_domain_needs_no_certificate_library() -> None:
    import subprocess
    import sys

    code = "import sys, hardpoint_container.domain, hardpoint_container.plugin;"
    code += "print('cryptography' in sys.modules or 'h11' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
    assert ContainerDomain().explain()["network"] == "none"
