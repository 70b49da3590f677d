"""Recognise credentials that a caller wrote into a request; stored secrets never pass here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl

_HEADERS = frozenset(
    (
        "authorization",
        "proxy-authorization",
        "cookie",
        "x-api-key",
        "api-key",
        "x-auth-token",
        "x-token",
        "x-access-token",
        "x-session-token",
        "x-csrf-token",
        "x-secret",
        "x-api-secret",
    )
)
_QUERY_KEYS = frozenset(
    (
        "api_key",
        "apikey",
        "api-key",
        "access_token",
        "token",
        "key",
        "secret",
        "password",
        "auth",
        "auth_token",
        "session_token",
        "client_secret",
        "client_id",
        "app_key",
        "app_secret",
        "sig",
        "signature",
    )
)
# "author" is no credential, "authorize" and "oauth" belong to one.
_TELLING = re.compile(r"auth(?!or(?!i))|token|secret|credential|password")
_SCHEMES = re.compile(r"(bearer|basic|token|digest|hoba|mutual|aws4-hmac-sha256)\s", re.IGNORECASE)
_USERINFO = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*@")


def carries_credentials(url: str, headers: Iterable[tuple[str, str]]) -> bool:
    """Whether a request looks as if its caller put a credential into it.

    Works on any text, also on a URL that will be refused later.
    """
    if _USERINFO.match(url):
        return True
    query = url.partition("#")[0].partition("?")[2]
    keys = (key.lower() for key, value in parse_qsl(query) if value)
    if any(key in _QUERY_KEYS or _TELLING.search(key) for key in keys):
        return True
    return any(_is_credential(name.lower().strip(), value.strip()) for name, value in headers)


def _is_credential(name: str, value: str) -> bool:
    if not value:
        return False
    return name in _HEADERS or bool(_TELLING.search(name) or _SCHEMES.match(value))
