"""`http-request`: check what the guest asks, let the core send it, clean what comes back.

In this order: method, headers and size; leak scan of everything that the guest wrote; the
allow-list; then the core's client, which judges addresses, pins the connection and injects
credentials last. The guest sees the answer without injected values and without stored secrets.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from hardpoint.errors import (
    ExternalService,
    HardpointError,
    InvalidParameters,
    NotAuthorized,
    ToolTimeout,
)
from hardpoint.interfaces import JobContext, Services
from hardpoint_wasm.capabilities import Http
from hardpoint_wasm.execution import Execution
from hardpoint_wasm.logins import LoginEnded
from hardpoint_wasm.world import Failure, HttpResponse

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")
_WITH_BODY = ("POST", "PUT", "PATCH")


class Caller(Protocol):
    """What a request needs of the call that it is made in."""

    context: JobContext
    execution: Execution

    @property
    def services(self) -> Services | None: ...

    def redact(self, text: str) -> str: ...

    async def renew(self, secrets: Sequence[str], *, refused: bool = False) -> bool: ...


async def request(
    host: Caller,
    granted: Http,
    method: str,
    url: str,
    headers_json: str,
    body: bytes | None,
    timeout_ms: int | None,
) -> HttpResponse | Failure:
    """Carry out one request of a guest."""
    services = host.services
    assert services is not None
    method = method.upper()
    if method not in METHODS:
        return Failure(f"{method[:20]!r} is not one of {', '.join(METHODS)}", "input", "method")
    headers = _headers(headers_json)
    if isinstance(headers, Failure):
        return headers
    if body is not None and len(body) > granted.request_cap:
        return Failure(
            f"the body has {len(body)} bytes; this tool may send {granted.request_cap}",
            "input",
            "too_large",
        )
    if body is None and method in _WITH_BODY:
        body = b""  # servers want a Content-Length, if only of 0
    leak = _leak(services.leaks, url, headers, body)
    if leak is not None:
        return leak

    try:
        async with services.http(granted.bindings(await _unset(host, granted))) as client:

            async def send() -> Any:
                return await client.request(
                    method,
                    url,
                    headers=headers,
                    body=body,
                    timeout=_seconds(host, granted, timeout_ms),
                    max_bytes=granted.response_cap,
                    follow=False,
                    allow=granted.allow_list(),
                )

            secrets = [binding.secret for binding in client.matching(method, url)]
            answer = await _logged_in(host, secrets, send)
    except LoginEnded as error:
        return _failure(host, error, "auth-required", "login_ended")
    except NotAuthorized as error:
        return _failure(host, error, "network-denied", "denied")
    except InvalidParameters as error:
        return _failure(host, error, "input", "invalid")
    except ToolTimeout as error:
        return _failure(host, error, "operation-failed", "timeout", sent=True)
    except ExternalService as error:
        return _failure(host, error, "operation-failed", "unreachable", sent=True)
    except HardpointError as error:
        return _failure(host, error, "operation-failed", "failed")
    if answer.truncated:
        return Failure(
            f"the answer has more than the {granted.response_cap} bytes that this tool may read",
            "output-too-large",
            "too_large",
            request_sent=True,
        )
    received = json.dumps(_joined(answer.headers), ensure_ascii=False)
    return HttpResponse(answer.status, host.redact(received), _clean(host, answer.body))


async def _unset(host: Caller, granted: Http) -> list[str]:
    """The optional secrets that the user does not have."""
    assert host.services is not None, "the caller looked"
    secrets, user = host.services.secrets, host.context.user_id
    names = {c.secret_name for c in granted.credentials.values() if c.optional}
    return [name for name in sorted(names) if not await secrets.exists(name, user)]


async def _logged_in(
    host: Caller, secrets: Sequence[str], send: Callable[[], Awaitable[Any]]
) -> Any:
    """Send with tokens that are still good; once more when the service does not take one."""
    await host.renew(secrets)
    answer = await send()
    # A service that refuses a token has looked at nothing else, so this repeats nothing.
    if answer.status == 401 and await host.renew(secrets, refused=True):
        answer = await send()
    return answer


def _headers(text: str) -> dict[str, str] | Failure:
    if not text.strip():
        return {}
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return Failure("headers-json is not JSON", "input", "headers")
    if not isinstance(given, dict) or not all(isinstance(v, str | int) for v in given.values()):
        return Failure("headers-json must be an object of text values", "input", "headers")
    return {name: str(value) for name, value in given.items()}


def _leak(scanner: Any, url: str, headers: dict[str, str], body: bytes | None) -> Failure | None:
    # Decoded byte for byte where it is not UTF-8, so that nothing hides behind one bad byte.
    content = _text(body or b"")
    for where, text in (("URL", url), ("headers", json.dumps(headers)), ("body", content)):
        if any(finding.action == "block" for finding in scanner.scan(text)):
            return Failure(
                f"the {where} holds a secret, which must not leave; name it in http.credentials and"
                " the host will send it",
                "network-denied",
                "leak",
            )
    return None


def _clean(host: Caller, body: bytes) -> bytes:
    text = _text(body)
    cleaned = host.redact(text)
    if cleaned == text:
        return body
    return cleaned.encode("utf-8") if _is_utf8(body) else cleaned.encode("latin-1", "replace")


def _text(data: bytes) -> str:
    return data.decode("utf-8") if _is_utf8(data) else data.decode("latin-1")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _joined(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in pairs:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _seconds(host: Caller, granted: Http, timeout_ms: int | None) -> float:
    asked = granted.timeout_cap if timeout_ms is None else timeout_ms / 1000
    left = host.execution.deadline - time.monotonic()
    return max(0.001, min(asked, granted.timeout_cap, left))


def _failure(
    host: Caller, error: HardpointError, kind: str, code: str, *, sent: bool = False
) -> Failure:
    return Failure(host.redact(error.message), kind, code, sent)
