"""The client against real servers on the loopback interface."""

from __future__ import annotations

import asyncio
import base64
import gzip
import sys
import zlib

import pytest

from hardpoint.errors import ExternalService, InvalidParameters, NotAuthorized, ToolTimeout
from hardpoint.net import (
    AllowList,
    AllowPattern,
    Bearer,
    Binding,
    PinnedClient,
    Query,
    UrlGuard,
    UrlPath,
)

HOST = "api.example.com"
VALUE = "synthetic-value/1"


def answer(status=200, headers=(), body=b""):
    return status, headers, body


def redirect(location):
    return answer(302, [("location", location)])


async def reveal(name):
    return VALUE


# a plain request --------------------------------------------------------------------------------


async def test_a_request_keeps_name_method_headers_and_body(client, serve):
    server = await serve({"/v1": answer(201, [("X-Reply", "yes")], b"done")})

    response = await client.request(
        "post", server.url("/v1?a=b#c"), headers={"X-Ask": "wörd"}, body=b"data"
    )

    assert (response.status, response.header("x-reply"), response.body) == (201, "yes", b"done")
    assert response.url == server.url("/v1?a=b")
    [got] = server.received
    assert (got.method, got.target, got.body, got.sni) == ("POST", "/v1?a=b", b"data", HOST)
    assert got.headers["host"] == f"{HOST}:{server.port}"
    assert got.headers["x-ask"].encode("latin-1").decode() == "wörd"
    assert "cookie" not in got.headers


async def test_a_post_without_a_body_says_so(client, serve):
    server = await serve({"/": answer()})

    await client.request("POST", server.url())

    assert server.received[0].headers["content-length"] == "0"


async def test_connections_are_used_again(client, serve):
    server = await serve({"/": answer(body=b"x")})

    for _ in range(3):
        await client.request("GET", server.url())

    assert server.connections == 1


async def test_cookies_are_not_kept(client, serve):
    server = await serve({"/": answer(200, [("Set-Cookie", "a=b; Path=/")])})

    await client.request("GET", server.url())
    await client.request("GET", server.url())

    assert "cookie" not in server.received[1].headers


async def test_the_environment_has_no_say(client, serve, monkeypatch, tmp_path):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    (tmp_path / "netrc").write_text(f"machine {HOST} login a password b")
    server = await serve({"/": answer()})

    response = await client.request("GET", server.url())

    assert response.status == 200
    assert "authorization" not in server.received[0].headers


async def test_a_thousand_requests_at_once(client, serve):
    server = await serve({"/": answer(body=b"x")})

    responses = await asyncio.gather(
        *(client.request("GET", server.url(), timeout=60) for _ in range(1000))
    )

    assert {response.status for response in responses} == {200}
    assert len(server.received) == 1000
    assert server.connections <= 100


async def test_a_cancelled_request_frees_its_place(trusting, resolver, serve):
    async def never(request, writer):
        await asyncio.Event().wait()

    server = await serve({"/never": never, "/": answer()})
    guard = UrlGuard(allow_private=["127.0.0.1/32"])
    async with PinnedClient(
        guard=guard, resolver=resolver, verify=trusting, max_connections=1
    ) as client:
        task = asyncio.create_task(client.request("GET", server.url("/never")))
        while not server.received:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (await client.request("GET", server.url(), timeout=10)).status == 200


# where it goes ----------------------------------------------------------------------------------


async def test_a_private_address_is_not_contacted(trusting, resolver, serve):
    server = await serve({"/": answer()})
    async with PinnedClient(resolver=resolver, verify=trusting) as client:
        with pytest.raises(NotAuthorized, match=r"127\.0\.0\.1.*loopback"):
            await client.request("GET", server.url())

    assert server.connections == 0


async def test_the_connection_goes_to_the_judged_answer_even_when_the_name_moves(trusting, serve):
    good = await serve({"/": answer(body=b"good")}, address="127.0.0.1")
    await serve({"/": answer(body=b"bad")}, address="127.0.0.2", port=good.port)
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    class Rebinding:
        async def resolve(self, host, port):
            return next(answers)

    guard = UrlGuard(allow_private=["127.0.0.1/32"])
    async with PinnedClient(guard=guard, resolver=Rebinding(), verify=trusting) as client:
        first = await client.request("GET", good.url())
        with pytest.raises(NotAuthorized, match=r"127\.0\.0\.2"):
            await client.request("GET", good.url())

    assert first.body == b"good"


async def test_a_name_is_resolved_once_for_each_hop(client, serve, resolver):
    server = await serve({"/a": redirect("/b"), "/b": answer()})

    await client.request("GET", server.url("/a"), follow=True)

    assert resolver.asked == [HOST, HOST]


async def test_a_connection_is_not_shared_when_the_name_moves(client, serve, resolver):
    first = await serve({"/": answer(body=b"1")}, address="127.0.0.1")
    await serve({"/": answer(body=b"2")}, address="127.0.0.2", port=first.port)

    resolver.table[HOST] = ["127.0.0.1"]
    one = await client.request("GET", first.url())
    resolver.table[HOST] = ["127.0.0.2"]
    two = await client.request("GET", first.url())

    assert (one.body, two.body) == (b"1", b"2")


async def test_names_at_one_address_do_not_share_a_connection(client, serve):
    server = await serve({"/": answer()}, names=[HOST])

    await client.request("GET", server.url())
    with pytest.raises(ExternalService, match="certificate"):
        await client.request("GET", server.url(host="other.example.net"))

    assert [got.sni for got in server.received] == [HOST]


async def test_the_next_address_is_tried_when_one_does_not_answer(client, serve, resolver):
    server = await serve({"/": answer()}, address="127.0.0.2")
    resolver.table[HOST] = ["127.0.0.2", "127.0.0.1"]

    assert (await client.request("GET", server.url())).status == 200


async def test_an_address_in_the_url_needs_no_resolver(client, serve, resolver):
    server = await serve({"/": answer()}, names=["127.0.0.1"])

    response = await client.request("GET", server.url(host="127.0.0.1"))

    assert response.status == 200
    assert resolver.asked == []


async def test_ipv6_works(client, serve, resolver):
    server = await serve({"/": answer()}, names=[HOST, "::1"], address="::1")
    resolver.table[HOST] = ["::1"]

    assert (await client.request("GET", server.url())).status == 200
    assert (await client.request("GET", server.url(host="[::1]"))).status == 200
    assert server.received[1].headers["host"] == f"[::1]:{server.port}"


async def test_the_systems_resolver_is_asked_by_default(trusting, serve):
    server = await serve({"/": answer()}, names=["localhost"])
    guard = UrlGuard(allow_private=["127.0.0.0/8", "::1/128"])

    async with PinnedClient(guard=guard, verify=trusting) as client:
        assert (await client.request("GET", server.url(host="localhost"))).status == 200
        with pytest.raises(ExternalService, match=r"nothing\.invalid"):
            await client.request("GET", "https://nothing.invalid/")


# certificates -----------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [["wrong.example.com"], ["*.com"], ["127.0.0.1"]])
async def test_a_certificate_for_another_name_is_refused(client, serve, names):
    server = await serve({"/": answer()}, names=names)

    with pytest.raises(ExternalService, match="certificate"):
        await client.request("GET", server.url())

    assert server.received == []


async def test_an_unknown_authority_is_refused(resolver, serve):
    server = await serve({"/": answer()})
    guard = UrlGuard(allow_private=["127.0.0.0/8"])

    async with PinnedClient(guard=guard, resolver=resolver) as client:
        with pytest.raises(ExternalService, match="certificate"):
            await client.request("GET", server.url())


async def test_an_authority_can_be_named_by_file(resolver, serve, authority, tmp_path):
    server = await serve({"/": answer()})
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    guard = UrlGuard(allow_private=["127.0.0.0/8"])

    async with PinnedClient(
        guard=guard, resolver=resolver, verify=str(tmp_path / "ca.pem")
    ) as client:
        assert (await client.request("GET", server.url())).status == 200


async def test_plain_http_is_not_spoken_unless_permitted(client, serve, resolver):
    server = await serve({"/": answer()}, tls=False)
    url = server.url(scheme="http")
    guard = UrlGuard(allow_http=True, allow_private=["127.0.0.0/8"])

    with pytest.raises(NotAuthorized, match="https"):
        await client.request("GET", url)
    async with PinnedClient(guard=guard, resolver=resolver) as permitted:
        assert (await permitted.request("GET", url)).status == 200


# redirects --------------------------------------------------------------------------------------


async def test_a_redirect_is_an_answer_unless_it_is_to_be_followed(client, serve):
    server = await serve({"/a": redirect("/b"), "/b": answer(body=b"b")})

    stayed = await client.request("GET", server.url("/a"))
    posted = await client.request("POST", server.url("/a"), follow=True)
    followed = await client.request("GET", server.url("/a"), follow=True)

    assert (stayed.status, stayed.location) == (302, "/b")
    assert posted.status == 302
    assert (followed.body, followed.url) == (b"b", server.url("/b"))
    assert followed.redirects == (server.url("/a"),)


async def test_redirects_stop_at_the_limit(client, serve):
    routes = {f"/{n}": redirect(f"/{n + 1}") for n in range(5)}
    server = await serve({**routes, "/3": answer(body=b"3"), "/loop": redirect("/loop")})

    assert (await client.request("GET", server.url("/0"), follow=True)).body == b"3"
    with pytest.raises(NotAuthorized, match="more than 2 redirects"):
        await client.request("GET", server.url("/0"), follow=True, max_redirects=2)
    with pytest.raises(NotAuthorized, match="more than 3 redirects"):
        await client.request("GET", server.url("/loop"), follow=True)


@pytest.mark.parametrize(
    "location",
    [
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "//192.168.0.1/",
        "https://[::ffff:10.0.0.1]/",
        "https://2130706433/",
        "https://intranet.example.com/",
        "https://api.example.com@10.0.0.1/",
        "http://api.example.com/",
        "file:///etc/passwd",
        "data:text/plain,x",
        "javascript:alert(1)",
        "\\\\10.0.0.1\\x",
        "/\\10.0.0.1/",
        "https:///10.0.0.1/",
        "https://10.0.0.1\t/",
    ],
)
async def test_a_redirect_to_where_nobody_may_go_is_refused(client, serve, resolver, location):
    resolver.table["intranet.example.com"] = ["10.0.0.1"]
    server = await serve({"/": redirect(location)})

    with pytest.raises((NotAuthorized, InvalidParameters)):
        await client.request("GET", server.url(), follow=True)


async def test_the_body_of_a_followed_redirect_is_not_read(client, serve):
    async def endless(request, writer):
        writer.write(b"HTTP/1.1 302 Found\r\nlocation: /b\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"4\r\nabcd\r\n")
            await writer.drain()

    server = await serve({"/a": endless, "/b": answer(body=b"b")})

    assert (await client.request("GET", server.url("/a"), follow=True)).body == b"b"


async def test_headers_that_could_be_credentials_do_not_reach_another_host(client, serve):
    server = await serve({"/end": answer()})
    server.routes["/there"] = redirect(server.url("/back", host="b.example.com"))
    server.routes["/back"] = redirect(server.url("/end"))
    headers = {"Authorization": "Bearer x", "X-Custom": "y", "Cookie": "z", "Accept": "text/plain"}

    await client.request("GET", server.url("/there"), headers=headers, follow=True)

    first, second, third = ({*got.headers} for got in server.received)
    assert {"authorization", "x-custom", "cookie"} <= first
    for later in (second, third):
        assert not {"authorization", "x-custom", "cookie"} & later
        assert "accept" in later


async def test_every_hop_must_be_on_the_allow_list(client, serve):
    server = await serve({"/v1/a": redirect("/v1/b"), "/v1/b": redirect("/v2")})
    allow = AllowList([AllowPattern(f"{HOST}:{server.port}", "/v1", ["GET"])])

    with pytest.raises(NotAuthorized, match=r"allow-list.*/v2"):
        await client.request("GET", server.url("/v1/a"), follow=True, allow=allow)

    assert [got.target for got in server.received] == ["/v1/a", "/v1/b"]


# bounds -----------------------------------------------------------------------------------------


async def test_a_long_body_is_cut_and_its_beginning_kept(client, serve):
    server = await serve({"/": answer(body=b"0123456789")})

    whole = await client.request("GET", server.url(), max_bytes=10)
    cut = await client.request("GET", server.url(), max_bytes=4)

    assert (whole.body, whole.truncated) == (b"0123456789", False)
    assert (cut.body, cut.truncated) == (b"0123", True)


async def test_an_endless_body_ends_at_the_cap(client, serve):
    async def endless(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await writer.drain()

    server = await serve({"/": endless})

    response = await client.request("GET", server.url(), max_bytes=100_000)

    assert (len(response.body), response.truncated) == (100_000, True)


def gzip_bomb() -> bytes:
    return gzip.compress(bytes(200_000_000), 1)


def deflate_bomb() -> bytes:
    return zlib.compress(bytes(200_000_000), 1)


def brotli_bomb() -> bytes:
    return pytest.importorskip("brotli").compress(bytes(200_000_000), quality=1)


def zstd_bomb() -> bytes:
    module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return pytest.importorskip(module).compress(bytes(200_000_000), 1)


@pytest.mark.parametrize(
    ("coding", "bomb"),
    [("gzip", gzip_bomb), ("deflate", deflate_bomb), ("br", brotli_bomb), ("zstd", zstd_bomb)],
)
async def test_a_decompression_bomb_ends_at_the_cap(client, serve, coding, bomb):
    body = bomb()
    server = await serve({"/": answer(200, [("content-encoding", coding)], body)})

    response = await client.request("GET", server.url(), max_bytes=1_000_000)

    assert len(body) < 2_000_000
    assert (response.body, response.truncated) == (bytes(1_000_000), True)


@pytest.mark.parametrize(
    "coding", ["gzip, gzip", "gzip,deflate", "compress", "x-unknown", "aes128gcm"]
)
async def test_codings_that_were_not_asked_for_are_refused(client, serve, coding):
    server = await serve({"/": answer(200, [("content-encoding", coding)], b"x")})

    with pytest.raises(ExternalService, match="encoded"):
        await client.request("GET", server.url())


async def test_compressed_text_is_read(client, serve):
    packed = gzip.compress(b"hello")
    server = await serve({"/": answer(200, [("content-encoding", "GZIP")], packed)})

    assert (await client.request("GET", server.url())).body == b"hello"
    assert "gzip" in server.received[0].headers["accept-encoding"]


async def test_broken_compression_is_an_error_of_the_service(client, serve):
    server = await serve({"/": answer(200, [("content-encoding", "gzip")], b"not gzip at all")})

    with pytest.raises(ExternalService):
        await client.request("GET", server.url())


async def test_a_slow_answer_ends_with_what_had_come(client, serve):
    async def stalling(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbeginning")
        await writer.drain()
        await asyncio.Event().wait()

    server = await serve({"/": stalling})

    with pytest.raises(ToolTimeout, match=HOST) as caught:
        await client.request("GET", server.url(), timeout=0.5)

    assert caught.value.partial == b"beginning"


async def test_redirects_do_not_renew_the_time(client, serve):
    async def slow(request, writer):
        await asyncio.sleep(0.3)
        return redirect("/")

    server = await serve({"/": slow})

    with pytest.raises(ToolTimeout):
        await client.request("GET", server.url(), timeout=0.5, follow=True, max_redirects=50)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"not http\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"\x00\x01\x02" * 100,
    ],
)
async def test_a_broken_answer_is_an_error_of_the_service(client, serve, reply):
    async def broken(request, writer):
        writer.write(reply)
        await writer.drain()
        writer.close()

    server = await serve({"/": broken})

    with pytest.raises(ExternalService, match=HOST):
        await client.request("GET", server.url(), timeout=10)


async def test_nobody_listening_is_an_error_of_the_service(client, serve):
    with pytest.raises(ExternalService, match=HOST):
        await client.request("GET", f"https://{HOST}:1/", timeout=10)


@pytest.mark.parametrize(
    "what",
    [
        {"method": "GET\r\nX: y"},
        {"headers": {"X": "a\r\nY: b"}},
        {"headers": {"X\nY": "a"}},
        {"headers": {"Host": "other.example"}},
        {"url": "https://api.example.com/\r\nX: y"},
    ],
)
async def test_nothing_is_sent_when_a_request_could_become_two(client, resolver, what):
    request = {"method": "GET", "url": "https://api.example.com/", **what}

    with pytest.raises(InvalidParameters):
        await client.request(request.pop("method"), request.pop("url"), **request)

    assert resolver.asked == []


# credentials ------------------------------------------------------------------------------------


def bind(server, location=None, **fields):
    host = f"{HOST}:{server.port}"
    return Binding("key", host, location=location or Bearer(), **fields)


def echo_everything():
    async def echo(request, writer):
        seen = [request.target, *request.headers.values()]
        seen += [base64.b64encode(text.encode()).decode() for text in seen]
        body = "\n".join(seen).encode()
        return answer(200, [("x-echo", request.headers.get("authorization", ""))], body)

    return echo


async def test_a_secret_is_sent_and_its_echo_hidden(client, serve):
    server = await serve({"/": echo_everything()})
    bound = client.bound([bind(server), bind(server, Query("k"))], reveal)

    response = await bound.request("GET", server.url("/?a=b"))

    [got] = server.received
    assert got.headers["authorization"] == f"Bearer {VALUE}"
    assert got.target == "/?a=b&k=synthetic-value%2F1"
    assert response.url == server.url("/?a=b")
    everything = repr(response.headers).encode() + response.body
    assert b"synthetic-value" not in everything
    assert base64.b64encode(VALUE.encode())[:12] not in everything
    assert everything.count(b"[REDACTED]") >= 4


async def test_a_secret_in_the_path_is_not_shown(client, serve):
    server = await serve({"/botsynthetic-value%2F1/a": redirect("b")})
    bound = client.bound([bind(server, UrlPath("TOKEN"))], reveal)

    response = await bound.request("GET", server.url("/bot{TOKEN}/a"))

    assert response.url == server.url("/bot%7BTOKEN%7D/a")


async def test_half_a_secret_does_not_survive_the_cut(client, serve):
    server = await serve({"/": answer(body=b"0123456789" + VALUE.encode() + b"x" * 200)})
    bound = client.bound([bind(server)], reveal)

    for size in range(1, 40):
        response = await bound.request("GET", server.url(), max_bytes=size)
        assert b"syn" not in response.body
        assert response.truncated


async def test_half_a_secret_does_not_survive_a_time_out(client, serve):
    async def stalling(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n" + b"." * 200)
        writer.write(VALUE[:10].encode())
        await writer.drain()
        await asyncio.Event().wait()

    server = await serve({"/": stalling})

    with pytest.raises(ToolTimeout) as caught:
        await client.bound([bind(server)], reveal).request("GET", server.url(), timeout=0.5)

    assert caught.value.partial
    assert b"syn" not in caught.value.partial


async def test_an_error_does_not_show_the_secret(client, serve):
    async def broken(request, writer):
        writer.write(f"HTTP/1.1 {VALUE}\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await serve({"/": broken})

    with pytest.raises(ExternalService) as caught:
        await client.bound([bind(server)], reveal).request("GET", server.url())

    assert VALUE not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_a_secret_stays_with_its_host_over_redirects(client, serve):
    server = await serve({"/start": redirect("/same"), "/end": answer()})
    server.routes["/same"] = redirect(server.url("/away", host="b.example.com"))
    server.routes["/away"] = redirect(server.url("/end"))
    bindings = [bind(server), Binding("other", f"b.example.com:{server.port}")]

    await client.bound(bindings, reveal).request("GET", server.url("/start"), follow=True)

    carried = [got.target for got in server.received if "authorization" in got.headers]
    assert carried == ["/start", "/same"]


async def test_a_redirect_may_not_carry_the_secret_to_another_host(client, serve):
    server = await serve({"/next": answer()})
    server.routes["/"] = redirect(server.url(f"/?t={VALUE}", host="b.example.com"))
    server.routes["/here"] = redirect(f"/next?t={VALUE}")
    bound = client.bound([bind(server)], reveal)

    with pytest.raises(NotAuthorized, match="credential") as caught:
        await bound.request("GET", server.url(), follow=True)
    kept = await bound.request("GET", server.url("/here"), follow=True)

    assert VALUE not in str(caught.value)
    assert server.received[-1].target == f"/next?t={VALUE}"
    assert kept.url == server.url("/next?t=[REDACTED]")


async def test_a_secret_is_looked_up_only_for_judged_addresses(trusting, resolver, serve):
    asked = []

    async def note(name):
        asked.append(name)
        return VALUE

    async with PinnedClient(resolver=resolver, verify=trusting) as client:
        bound = client.bound([Binding("key", HOST)], note)
        with pytest.raises(NotAuthorized):
            await bound.request("GET", f"https://{HOST}/")

    assert asked == []


async def test_a_missing_secret_stops_the_request(client, serve):
    async def nothing(name):
        return None

    server = await serve({"/": answer()})

    with pytest.raises(NotAuthorized, match="'key'"):
        await client.bound([bind(server)], nothing).request("GET", server.url())

    assert server.received == []


async def test_a_hook_sees_each_hop_before_the_secret_is_there(client, serve):
    server = await serve({"/": redirect("/b"), "/b": answer()})
    seen = []

    async def look(request):
        seen.append((str(request.url), dict(request.headers)))
        if request.url.path == "/b":
            raise NotAuthorized("a leak")

    bound = client.bound([bind(server)], reveal, before_send=look)
    with pytest.raises(NotAuthorized, match="a leak"):
        await bound.request("GET", server.url(), headers={"X": "y"}, follow=True)

    assert seen == [(server.url("/"), {"X": "y"}), (server.url("/b"), {"X": "y"})]
    assert len(server.received) == 1


async def test_a_bound_client_says_which_bindings_apply(client, serve):
    server = await serve()
    binding = bind(server, methods="GET")
    bound = client.bound([binding], reveal)

    assert bound.matching("get", server.url()) == [binding]
    assert bound.matching("POST", server.url()) == []
    assert bound.matching("GET", "nonsense") == []


async def test_closing_a_bound_client_leaves_the_connections_open(client, serve):
    server = await serve({"/": answer()})

    async with client.bound() as bound:
        await bound.request("GET", server.url())
    await client.request("GET", server.url())

    assert server.connections == 1
