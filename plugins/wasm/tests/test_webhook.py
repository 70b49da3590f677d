"""Webhooks: what proves a request, and what a proved one may start."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
import wasmtime
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from wasm_guests import wat

from hardpoint import Config, Runtime
from hardpoint.config import PolicyConfig, RuleEntry
from hardpoint.errors import ConfigError
from hardpoint.testing import FakeClock
from hardpoint_wasm import plugin
from hardpoint_wasm.capabilities import Capabilities
from hardpoint_wasm.describe import Interface
from hardpoint_wasm.names import digest
from hardpoint_wasm.store import Record, Store
from hardpoint_wasm.webhook import Unproven, Webhook
from hardpoint_wasm.webhook_server import MAX_BODY, Receiver, serve

NOW = 1_700_000_000
SHARED = "synthetic" + "-webhook-secret-0001"
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = PRIVATE.public_key().public_bytes_raw().hex()


def signed(text: bytes, key: str = SHARED) -> str:
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()


def by_secret(body: bytes) -> dict[str, str]:
    return {"X-Webhook-Secret": SHARED}


def by_own_header(body: bytes) -> dict[str, str]:
    return {"X-Hook-Token": SHARED}


def by_hmac(body: bytes) -> dict[str, str]:
    return {"X-Hub-Signature-256": f"sha256={signed(body)}"}


def by_bare_hmac(body: bytes) -> dict[str, str]:
    return {"Their-Signature": signed(body)}


def by_timed_hmac(body: bytes, stamp: int = NOW) -> dict[str, str]:
    signature = signed(f"v0:{stamp}:".encode() + body)
    return {"X-Slack-Signature": f"v0={signature}", "X-Slack-Request-Timestamp": str(stamp)}


def by_ed25519(body: bytes, stamp: int = NOW) -> dict[str, str]:
    signature = PRIVATE.sign(str(stamp).encode() + body).hex()
    return {"X-Signature-Ed25519": signature, "X-Signature-Timestamp": str(stamp)}


PROOFS: Mapping[str, tuple[dict[str, str], Callable[..., dict[str, str]]]] = {
    "secret": ({"secret_name": "hook"}, by_secret),
    "own header": ({"secret_name": "hook", "secret_header": "X-Hook-Token"}, by_own_header),
    "hmac": ({"hmac_secret_name": "hook"}, by_hmac),
    "bare hmac": (
        {
            "hmac_secret_name": "hook",
            "hmac_signature_header": "Their-Signature",
            "hmac_prefix": "",
        },
        by_bare_hmac,
    ),
    "timed hmac": (
        {"hmac_secret_name": "hook", "hmac_timestamp_header": "X-Slack-Request-Timestamp"},
        by_timed_hmac,
    ),
    "ed25519": ({"signature_key_secret_name": "public_key"}, by_ed25519),
}
VALUES = {"hook": SHARED, "public_key": PUBLIC}


def verify(asked: dict[str, str], headers: Mapping[str, str], body: bytes) -> None:
    webhook = Capabilities.from_json({"webhook": asked}).webhook
    assert webhook is not None
    lowered = {name.lower(): value for name, value in headers.items()}
    webhook.verify(lowered, body, VALUES, NOW)


# proofs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("proof", PROOFS)
def test_each_proof_holds_for_its_own_request_alone(proof: str) -> None:
    asked, prove = PROOFS[proof]
    headers = prove(b'{"a": 1}')

    verify(asked, headers, b'{"a": 1}')
    for name in headers:
        with pytest.raises(Unproven):
            verify(asked, {k: v for k, v in headers.items() if k != name}, b'{"a": 1}')
        with pytest.raises(Unproven):
            verify(asked, headers | {name: headers[name][:-1] + "\N{SNOWMAN}"}, b'{"a": 1}')
    if "secret_name" not in asked:
        with pytest.raises(Unproven):
            verify(asked, headers, b'{"a": 2}')


@pytest.mark.parametrize("prove", [by_timed_hmac, by_ed25519])
@pytest.mark.parametrize("stamp", [NOW - 301, NOW + 301, 0, -NOW])
def test_a_signature_of_another_time_is_refused(prove: Any, stamp: int) -> None:
    asked = next(asked for asked, known in PROOFS.values() if known is prove)

    with pytest.raises(Unproven, match="time stamp"):
        verify(asked, prove(b"x", stamp), b"x")


def test_every_proof_that_is_named_must_hold() -> None:
    asked = {"secret_name": "hook", "hmac_secret_name": "hook"}

    verify(asked, by_secret(b"x") | by_hmac(b"x"), b"x")
    with pytest.raises(Unproven):
        verify(asked, by_secret(b"x"), b"x")
    with pytest.raises(Unproven):
        verify(asked, by_hmac(b"x"), b"x")


def test_without_a_proof_nothing_is_let_in() -> None:
    with pytest.raises(Unproven, match="names no proof"):
        Webhook().verify({}, b"", {}, NOW)
    [warning] = Capabilities.from_json({"webhook": {}}).warnings
    assert "every request to it is refused" in warning


@pytest.mark.parametrize(
    "asked",
    [
        {"secret_header": "X-Hook"},
        {"secret_name": "hook", "hmac_prefix": "sha1="},
        {"secret_name": "hook", "hmac_timestamp_header": "X-Time"},
        {"signature_key_secret_name": "k", "hmac_signature_header": "X-Sig"},
        {"secret_name": "hook", "algorithm": "none"},
    ],
)
def test_a_key_that_would_do_nothing_is_refused(asked: Any) -> None:
    with pytest.raises(ConfigError, match=r"webhook"):
        Capabilities.from_json({"webhook": asked})


def test_it_is_granted_like_everything_else() -> None:
    asked = Capabilities.from_json({"webhook": {"secret_name": "hook"}})

    assert asked.permissions == ("webhook:",)
    assert asked.only(()).webhook is None
    assert asked.only(["webhook:"]).webhook == asked.webhook


# receiving -------------------------------------------------------------------------------------

T = wat.Text()
HOOKED = bytes(
    wasmtime.wat2wasm(
        wat.tool(
            "(call $log (i32.const 2) (local.get $p) (local.get $n)) (call $put "
            + T('{"emit_events":[{"source":"hook","event_type":"came","payload":{"a":1}}]}')
            + ")",
            text=T,
            schema='{"type":"object"}',
        )
    )
)
SILENT = bytes(
    wasmtime.wat2wasm(
        wat.tool(f"(call $put {(S := wat.Text())('{}')})", text=S, schema='{"type":"object"}')
    )
)


def add(
    folder: Path, name: str, asked: Any, wasm: bytes = SILENT, granted: Any = ("webhook:",)
) -> None:
    interface = Interface("hooked", {"type": "object", "properties": {}, "required": []})
    record = Record(
        name, digest(wasm), "world", asked=asked, granted=granted, interfaces={name: interface}
    )
    Store(folder / "tools").add(record, wasm)


@pytest.fixture(autouse=True)
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDPOINT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HARDPOINT_SECRET_HOOK", SHARED)
    monkeypatch.setenv("HARDPOINT_SECRET_PUBLIC_KEY", PUBLIC)


@contextlib.asynccontextmanager
async def receiving(
    tmp_path: Path, cache_dir: Path, *, installed: tuple[str, ...] = (), **config: Any
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a receiver on loopback."""
    table = {"folder": str(tmp_path / "tools"), "cache_dir": str(cache_dir)}
    async with Runtime(
        Config(
            plugin={"wasm": table}, load_only=frozenset(installed) if installed else None, **config
        ),
        plugins={} if installed else {"wasm": plugin},
        installed_plugins=bool(installed),
        clock=FakeClock(NOW),
        origin="gateway",
    ) as rt:
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        receiver = Receiver(rt, Store(tmp_path / "tools"), "ana")
        serving = asyncio.ensure_future(serve(receiver, "127.0.0.1", 0, address.set_result))
        base = (await address).removesuffix("NAME")
        async with httpx2.AsyncClient(base_url=base, trust_env=False) as client:
            yield client
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


@pytest.mark.parametrize("proof", PROOFS)
async def test_a_proved_request_reaches_the_tool_and_no_other_does(
    tmp_path: Path, cache_dir: Path, proof: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked, prove = PROOFS[proof]
    add(tmp_path, "hooked", {"webhook": asked})
    async with receiving(tmp_path, cache_dir) as client:
        body = b'{"event": "push"}'
        good = await client.post("hooked", content=body, headers=prove(body))
        bad = await client.post("hooked", content=b"other", headers={"X-Webhook-Secret": "guess"})
        bare = await client.post("hooked", content=body)

    assert (good.status_code, good.json()["status"]) == (202, "accepted")
    assert [bad.status_code, bare.status_code] == [401, 401]
    assert bad.json() == bare.json()
    assert SHARED not in caplog.text


async def test_the_tool_is_told_the_request_without_its_secret(
    tmp_path: Path, cache_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(tmp_path, "hooked", {"webhook": PROOFS["own header"][0]}, HOOKED)
    headers = by_own_header(b"") | {"X-Event": "push", "Cookie": "a=b", "Authorization": "Basic x"}
    with caplog.at_level("INFO", "hardpoint_wasm.guest"):
        async with receiving(tmp_path, cache_dir) as client:
            await client.post("hooked/room/7?x=1", content=b'{"a": [1]}', headers=headers)

    [line] = [r.getMessage() for r in caplog.records if r.name == "hardpoint_wasm.guest"]
    told = json.loads(line.partition(": ")[2])
    assert told["action"] == "handle_webhook"
    webhook = told["webhook"]
    assert webhook["method"] == "POST"
    assert webhook["path"] == "/webhook/tools/hooked/room/7"
    assert webhook["query"] == {"x": "1"}
    assert webhook["body_json"] == {"a": [1]}
    assert webhook["body_raw"] == '{"a": [1]}'
    assert webhook["headers"]["x-event"] == "push"
    assert not {"x-hook-token", "cookie", "authorization"} & webhook["headers"].keys()
    assert SHARED not in line


async def test_what_the_tool_makes_of_it_becomes_events(tmp_path: Path, cache_dir: Path) -> None:
    pytest.importorskip("hardpoint_builtin")
    add(tmp_path, "hooked", {"webhook": PROOFS["secret"][0]}, HOOKED)

    async with receiving(tmp_path, cache_dir, installed=("builtin", "wasm")) as client:
        answer = await client.post("hooked", content=b"{}", headers=by_secret(b""))

    assert answer.status_code == 202, answer.text
    assert answer.json() == {
        "status": "accepted", "tool": "hooked", "emitted_events": 1, "fired_routines": 0,
    }  # fmt: skip


async def test_without_somebody_to_take_events_the_sender_is_told_to_come_again(
    tmp_path: Path, cache_dir: Path
) -> None:
    add(tmp_path, "hooked", {"webhook": PROOFS["secret"][0]}, HOOKED)

    async with receiving(tmp_path, cache_dir) as client:
        answer = await client.post("hooked", content=b"{}", headers=by_secret(b""))

    assert answer.status_code == 503


async def test_a_rule_holds_for_webhooks_too(tmp_path: Path, cache_dir: Path) -> None:
    add(tmp_path, "hooked", {"webhook": PROOFS["secret"][0]})
    policy = PolicyConfig(rules=(RuleEntry("deny", "hooked"),))

    async with receiving(tmp_path, cache_dir, policy=policy) as client:
        answer = await client.post("hooked", content=b"{}", headers=by_secret(b""))

    assert (answer.status_code, answer.json()) == (403, {"error": "not_authorized"})


@pytest.mark.parametrize("proof", ["timed hmac", "ed25519"])
async def test_a_signed_request_works_once(tmp_path: Path, cache_dir: Path, proof: str) -> None:
    asked, prove = PROOFS[proof]
    add(tmp_path, "hooked", {"webhook": asked})
    async with receiving(tmp_path, cache_dir) as client:
        answers = [
            await client.post("hooked", content=body, headers=prove(body))
            for body in (b"one", b"one", b"two")
        ]

    assert [answer.status_code for answer in answers] == [202, 401, 202]


@pytest.mark.parametrize(
    ("proof", "changed"),
    [
        (
            "ed25519",
            lambda headers: {"X-Signature-Ed25519": headers["X-Signature-Ed25519"].upper()},
        ),
        ("ed25519", lambda headers: {"X-Signature-Ed25519": " ".join(_halves(headers))}),
        ("ed25519", lambda headers: {"X-Slack-Signature": "any"}),
        ("timed hmac", lambda headers: {"X-Signature-Ed25519": "any"}),
        ("timed hmac", lambda headers: {"X-Signature-Timestamp": "any"}),
    ],
)
async def test_a_repeated_request_is_told_however_it_is_dressed(
    tmp_path: Path, cache_dir: Path, proof: str, changed: Any
) -> None:
    asked, prove = PROOFS[proof]
    add(tmp_path, "hooked", {"webhook": asked})
    headers = prove(b"{}")
    async with receiving(tmp_path, cache_dir) as client:
        first = await client.post("hooked", content=b"{}", headers=headers)
        again = await client.post("hooked", content=b"{}", headers=headers | changed(headers))

    assert [first.status_code, again.status_code] == [202, 401]


def _halves(headers: Mapping[str, str]) -> tuple[str, str]:
    signature = headers["X-Signature-Ed25519"]
    return signature[:64], signature[64:]


async def test_what_is_no_webhook_is_not_there(tmp_path: Path, cache_dir: Path) -> None:
    hook = {"webhook": PROOFS["secret"][0]}
    add(tmp_path, "hooked", hook)
    add(tmp_path, "ungranted", hook, granted=())
    add(tmp_path, "plain", {})
    async with receiving(tmp_path, cache_dir) as client:
        names = ["ungranted", "plain", "nobody", "..%2F..%2Fetc", "", "a%00b", "x" * 300]
        answers = [await client.post(name, content=b"{}", headers=by_secret(b"")) for name in names]
        elsewhere = await client.post("/", content=b"{}")
        alive = await client.get("hooked")
        wrong = await client.put("hooked", content=b"{}", headers=by_secret(b""))

    assert {answer.status_code for answer in [*answers, elsewhere]} == {404}
    assert {answer.text for answer in [*answers, elsewhere]} == {'{"error": "no such webhook"}'}
    assert alive.json() == {"status": "ok", "tool": "hooked"}
    assert wrong.status_code == 405


async def test_a_grant_that_is_taken_back_counts_at_once(tmp_path: Path, cache_dir: Path) -> None:
    hook = {"webhook": PROOFS["secret"][0]}
    add(tmp_path, "hooked", hook)
    async with receiving(tmp_path, cache_dir) as client:
        before = await client.post("hooked", content=b"{}", headers=by_secret(b""))
        add(tmp_path, "hooked", hook, granted=())
        after = await client.post("hooked", content=b"{}", headers=by_secret(b""))

    assert [before.status_code, after.status_code] == [202, 404]


async def test_a_body_that_is_too_large_is_not_taken(tmp_path: Path, cache_dir: Path) -> None:
    add(tmp_path, "hooked", {"webhook": PROOFS["secret"][0]})

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY // 1024 + 2):
            yield b"x" * 1024

    async with receiving(tmp_path, cache_dir) as client:
        told = await client.post("hooked", content=b"x" * (MAX_BODY + 1), headers=by_secret(b""))
        untold = await client.post("hooked", content=pieces(), headers=by_secret(b""))
        most = await client.post("hooked", content=b"x" * MAX_BODY, headers=by_secret(b""))

    assert [told.status_code, untold.status_code, most.status_code] == [413, 413, 202]


@pytest.mark.parametrize(
    "begin", [b"", b"POST /a HTTP/1.1\r\nHost: a\r\n", b"GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /"]
)
async def test_a_connection_that_sends_no_whole_request_is_closed(begin: bytes) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        serve(answer, "127.0.0.1", 0, address.set_result, headers_within=0.05)  # type: ignore[arg-type]
    )
    port = int((await address).split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(begin)
    async with asyncio.timeout(30):
        told = await reader.read()
    writer.close()
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving

    assert told.startswith(b"HTTP/1.1 404") == begin.startswith(b"GET")


async def test_without_its_secret_nothing_is_let_in(
    tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARDPOINT_SECRET_HOOK")
    add(tmp_path, "hooked", {"webhook": PROOFS["hmac"][0]})

    async with receiving(tmp_path, cache_dir) as client:
        empty_key = {"X-Hub-Signature-256": f"sha256={signed(b'x', '')}"}
        answer = await client.post("hooked", content=b"x", headers=empty_key)

    assert answer.status_code == 401


# the command -----------------------------------------------------------------------------------


def environment(tmp_path: Path) -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    return kept | {
        "HARDPOINT_HOME": str(tmp_path / "home"),
        "HARDPOINT_LOAD_PLUGINS": "wasm",
        "HARDPOINT_SECRET_HOOK": SHARED,
    }


def test_the_command_receives_until_it_is_stopped(tmp_path: Path) -> None:
    add(tmp_path / "home/data/wasm", "hooked", {"webhook": PROOFS["hmac"][0]})
    with subprocess.Popen(
        [sys.executable, "-m", "hardpoint", "wasm", "webhooks", "--http", "127.0.0.1:0"],
        env=environment(tmp_path), cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+/webhook/tools/)NAME", line)
        assert found is not None, line + process.stderr.read()
        with httpx2.Client(trust_env=False) as client:
            url = found[1] + "hooked"
            good = client.post(url, content=b"x", headers=by_hmac(b"x"), timeout=60)
            bad = client.post(url, content=b"y", headers=by_hmac(b"x"))
        process.terminate()
        code = process.wait(30)

    assert [good.status_code, bad.status_code] == [202, 401]
    assert code in (0, -15, 143)


def test_without_a_granted_webhook_the_command_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hardpoint", "wasm", "webhooks"],
        env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip

    assert done.returncode == 78
    assert "hardpoint wasm grant NAME webhook:" in done.stderr
