"""Detectors for secrets known by their form or their place: web tokens, headers, cookies, URLs."""

from __future__ import annotations

from hardpoint.output.detection import Detector, Finding, at_boundary, decoded, whole
from hardpoint.output.lazy import Lazy
from hardpoint.output.randomness import is_random, is_reference

# tokens that tell what they are ----------------------------------------------------------------

_JWT = Lazy(
    rb"([A-Za-z0-9_-]{10,1000})\.(?:eyJ[A-Za-z0-9_-]{5,16000}\.[A-Za-z0-9_-]{16,4000}"
    rb"|[A-Za-z0-9_-]{0,800}(?:\.[A-Za-z0-9_-]{8,16000}){3})"
)


def find_jwt(data: bytes, start: int, end: int) -> Finding | None:
    token = _JWT.match(data, end)
    if token is None or b'"' not in decoded(data[start : token.end(1)]):
        return None
    return Finding("jwt", "redact", start, token.end())


# headers ---------------------------------------------------------------------------------------

_SCHEME = Lazy(
    rb"""\\*["']?\]?\s*(?:=>|[:=,])\s*[\[({]?\s*\\*["'`]?(?:([A-Za-z][A-Za-z0-9-]{1,20})(?:\s|%20)+)?"""
    rb"""([^\s"'`\\<>,;]{8,4000})"""
)
_BEARER = Lazy(rb"""(?:\s|%20|\+|\\u0020)+\\*["']?([A-Za-z0-9._~+/=|:-]{16,4000})""")
_BASIC = Lazy(rb"(?:\s|%20)*([A-Za-z0-9+/_-]{8,4000}(?:=|%3[Dd]){0,2})")
_AUTH_FIELD = Lazy(rb"""(?:\\*["'])?\s*[:=]\s*(?:\\*["'])?([A-Za-z0-9+/]{8,4000}={0,2})""")
_SESSION = Lazy(rb"""([^\s"'`\\<>,;]{16,4000})""")


def find_authorization(data: bytes, start: int, end: int) -> Finding | None:
    # Not a longer word, such as EndpointAuthorization.
    if start >= 2 and chr(data[start - 2]).isalpha():
        return None
    header = _SCHEME.match(data, end)
    if header is None:
        return None
    scheme, value = header.groups()
    if (scheme or b"").lower() == b"basic":
        secret = _is_user_and_password(value)
    else:
        secret = len(value) >= 16 and not is_reference(value) and is_random(value)
    if not secret:
        return None
    first, last = header.span(2)
    return Finding("authorization_header", "redact", first, whole(data, first, last))


def find_bearer(data: bytes, start: int, end: int) -> Finding | None:
    if not at_boundary(data, start - 1):
        return None
    token = _BEARER.match(data, end)
    if token is None or is_reference(token[1]) or not is_random(token[1].rstrip(b".:")):
        return None
    return Finding("bearer_token", "redact", token.start(1), whole(data, *token.span(1)))


def find_basic(data: bytes, start: int, end: int) -> Finding | None:
    value = _BASIC.match(data, end)
    if value is None or not _is_user_and_password(value[1]):
        return None
    return Finding("authorization_header", "redact", *value.span(1))


def find_auth_field(data: bytes, start: int, end: int) -> Finding | None:
    """The registry passwords of Docker and npm configurations."""
    value = _AUTH_FIELD.match(data, end)
    if value is None or not _is_user_and_password(value[1]):
        return None
    return Finding("basic_credentials", "redact", *value.span(1))


def find_session_cookie(data: bytes, start: int, end: int) -> Finding | None:
    value = _SESSION.match(data, end)
    if value is None or not is_random(value[1]) or is_reference(value[1]):
        return None
    if data.rfind(b"ookie", max(0, start - 500), start) < 0:
        return None
    return Finding("session_cookie", "redact", *value.span(1))


def _is_user_and_password(value: bytes) -> bool:
    text = decoded(value.replace(b"%3D", b"=").replace(b"%3d", b"="))
    _, colon, password = text.partition(b":")
    return bool(colon and password) and len(text) >= 6 and all(32 <= c < 127 for c in text)


# URLs ------------------------------------------------------------------------------------------

_USER = Lazy(rb"""[^\s/?#@:"'<>,\\]{0,200}:([^\s/?#"'<>\\]{1,300})@[A-Za-z0-9\[]""")
_SHOWN = frozenset(
    b"password passwd passphrase pass pwd secret pw p token key xxx xxxx *** changeme example "
    b"mypassword yourpassword your_password my_password".split()
)


def find_url_password(data: bytes, start: int, end: int) -> Finding | None:
    # From the @ back to the scheme: there are many more URLs than URLs with passwords.
    first = max(0, start - 520)
    scheme = data.rfind(b"://", first, start) + 3
    if scheme < 3:
        scheme = data.rfind(b":\\/\\/", first, start) + 5
        if scheme < 5:
            return None
    user = _USER.match(data, scheme)
    if user is None or user.end() <= end:
        return None
    password = user[1]
    if password.lower() in _SHOWN or is_reference(password) or len(set(password)) == 1:
        return None
    return Finding("url_credentials", "redact", *user.span(1))


def context_detectors() -> list[Detector]:
    """Every detector of this module."""
    return [
        Detector(
            "jwt", "Signed or encrypted JSON web tokens", "redact", [b"eyJ"], find_jwt, bounded=True
        ),
        Detector(
            "authorization_header",
            "`Authorization` and `Proxy-Authorization`",
            "redact",
            [b"uthorization", b"UTHORIZATION"],
            find_authorization,
        ),
        Detector(
            "authorization_header",
            "`Basic` credentials",
            "redact",
            [b"Basic "],
            find_basic,
            bounded=True,
        ),
        Detector("bearer_token", "`Bearer` tokens", "redact", [b"earer", b"EARER"], find_bearer),
        Detector(
            "basic_credentials",
            "`auth` fields of Docker and npm configurations",
            "redact",
            [b'"auth', b"_auth"],
            find_auth_field,
        ),
        Detector(
            "session_cookie",
            "Session cookies",
            "redact",
            [
                b"ession=",
                b"essionid=",
                b"ESSIONID=",
                b"SESSID=",
                b"sessid=",
                b"sid=",
                b"ession_id=",
                b"auth=",
            ],
            find_session_cookie,
        ),
        Detector(
            "url_credentials",
            "Passwords in URLs",
            "redact",
            [b"@"],
            find_url_password,
        ),
    ]
