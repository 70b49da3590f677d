"""Detectors for secrets known by what stands beside them: headers, names, URLs, key blocks."""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64decode
from binascii import Error as Base64Error
from itertools import product

from hardpoint.output.detection import Detector, Finding, at_boundary, whole
from hardpoint.output.randomness import (
    is_random,
    is_reference,
    is_stand_in,
    is_strong_password,
)

# private keys ----------------------------------------------------------------------------------

_BEGIN = re.compile(rb"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}\Z")
_END = re.compile(rb"-{4,5} ?END [A-Z0-9 ]{0,40}\Z")
_DASHES = re.compile(rb"(?: BLOCK)? ?-{4,5}")
_KEY_LINE = re.compile(rb"[A-Za-z0-9+/]{24}")
_KEY_HEAD = re.compile(
    rb"(?:(?:\s|\\+[nr])*+(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash)[^\n\\]{0,200}+)*+"
)
_KEY_LINES = re.compile(
    rb"(?:(?:[\s>|+]|\\+[nrt])*+[A-Za-z0-9+/=]{16,}+)*+"
    rb"(?:(?:\s|\\+[nr])++[A-Za-z0-9+/=]{1,76}+(?=\s|\\|[\"']|\Z))?"
)
_PUTTY = re.compile(rb"\s*\d+(?:\s|\\+[nr])*+(?:[A-Za-z0-9+/=]{16,}+(?:\s|\\+[nr])*+)++")
_BASE64_LINES = re.compile(rb"(?:[A-Za-z0-9+/=_-]++|(?:\s|\\+[nr])++(?=[A-Za-z0-9+/]{60}))*+")


def find_private_key(data: bytes, start: int, end: int) -> Finding | None:
    begin = _BEGIN.search(data, max(0, start - 60), start)
    dashes = _DASHES.match(data, end)
    if begin is None or dashes is None:
        return None
    body = dashes.end()
    following = data.find(b"PRIVATE KEY", body)
    limit = len(data) if following < 0 else following
    closing = _END.search(data, max(body, limit - 60), limit) if following >= 0 else None
    if closing is not None:
        stop = limit + len(b"PRIVATE KEY")
        dashes = _DASHES.match(data, stop)
        stop = dashes.end() if dashes else stop
        held = _KEY_LINE.search(data, body, closing.start())
    else:
        # Cut off, or two beginnings: as far as lines of a key go.
        head = _KEY_HEAD.match(data, body, limit)
        lines = _KEY_LINES.match(data, head.end() if head else body, limit)
        stop = lines.end() if lines else body
        held = _KEY_LINE.search(data, body, stop)
    # The words of the first line alone, as documentation has them, are no key.
    return Finding("private_key", "block", begin.start(), stop) if held else None


def find_putty_key(data: bytes, start: int, end: int) -> Finding | None:
    lines = _PUTTY.match(data, end)
    return Finding("private_key", "block", start, lines.end()) if lines else None


def find_encoded_private_key(data: bytes, start: int, end: int) -> Finding | None:
    if b"PRIVATE KEY" not in _decoded(data[start : start + 80]):
        return None
    lines = _BASE64_LINES.match(data, start)
    return Finding("private_key", "block", start, lines.end() if lines else end)


# tokens that tell what they are ----------------------------------------------------------------

_JWT = re.compile(
    rb"([A-Za-z0-9_-]{10,1000})\.(?:eyJ[A-Za-z0-9_-]{5,16000}\.[A-Za-z0-9_-]{16,4000}"
    rb"|[A-Za-z0-9_-]{0,800}(?:\.[A-Za-z0-9_-]{8,16000}){3})"
)


def find_jwt(data: bytes, start: int, end: int) -> Finding | None:
    token = _JWT.match(data, end)
    if token is None or b'"' not in _decoded(data[start : token.end(1)]):
        return None
    return Finding("jwt", "redact", start, token.end())


# headers ---------------------------------------------------------------------------------------

_SCHEME = re.compile(
    rb"""\\*["']?\]?\s*(?:=>|[:=,])\s*[\[({]?\s*\\*["'`]?(?:([A-Za-z][A-Za-z0-9-]{1,20})(?:\s|%20)+)?"""
    rb"""([^\s"'`\\<>,;]{8,4000})"""
)
_BEARER = re.compile(rb"""(?:\s|%20|\+|\\u0020)+\\*["']?([A-Za-z0-9._~+/=|:-]{16,4000})""")
_BASIC = re.compile(rb"(?:\s|%20)*([A-Za-z0-9+/_-]{8,4000}(?:=|%3[Dd]){0,2})")
_AUTH_FIELD = re.compile(rb"""(?:\\*["'])?\s*[:=]\s*(?:\\*["'])?([A-Za-z0-9+/]{8,4000}={0,2})""")
_SESSION = re.compile(rb"""([^\s"'`\\<>,;]{16,4000})""")


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
    text = _decoded(value.replace(b"%3D", b"=").replace(b"%3d", b"="))
    _, colon, password = text.partition(b":")
    return bool(colon and password) and len(text) >= 6 and all(32 <= c < 127 for c in text)


def _decoded(text: bytes) -> bytes:
    text = text.rstrip(b"=")
    text = text[: len(text) - (len(text) % 4 == 1)]
    padded = text + b"=" * (-len(text) % 4)
    try:
        return urlsafe_b64decode(padded) if b"-" in text or b"_" in text else b64decode(padded)
    except Base64Error:
        return b""


# URLs ------------------------------------------------------------------------------------------

_USER = re.compile(rb"""[^\s/?#@:"'<>,\\]{0,200}:([^\s/?#"'<>\\]{1,300})@[A-Za-z0-9\[]""")
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


# assignments -----------------------------------------------------------------------------------

_QUALIFIERS = frozenset(
    {
        *("api", "access", "secret", "private", "auth", "encryption", "signing", "master"),
        *("account", "storage", "subscription", "service", "license", "admin", "consumer"),
        *(
            "shared",
            "deploy",
            "webhook",
            "jwt",
            "session",
            "client",
            "app",
            "application",
            "server",
        ),
    }
)
_BARE_WORD = re.compile(
    rb"""(-?t?oken|-?s?ecret|redentials?|_?pass|wd)(?:[=:"'\\> ]|is)*\Z""", re.IGNORECASE
)
_NAME = re.compile(rb"[A-Za-z0-9_.-]*\Z")
# Random, but meant to be read and handed on: cursors, cache keys, public keys, counts.
_HARMLESS = re.compile(
    rb"(?:page|next|prev|previous|continuation|continue|sync|cursor|pagination|resume|csrf|xsrf"
    rb"|count|max|min|num|prompt|completion|total|input|output|per|public|cache|partition"
    rb"|primary|foreign|index|idempotency|progress|change|delta|skip|scroll|upload|watch|lock"
    rb"|starting|creation|action|update|object|design|blob|registry|row|column|sort|group)"
    rb"[_.-]?(?:token|key|secret)\Z",
    re.IGNORECASE,
)
_ASSIGN = re.compile(
    rb"""(?:[_.-]?(?:\d{1,3}|v\d|value|prod|production|live|test|dev|staging|base|base64|b64|hex))?"""
    rb"""(?:\\*["'`])?[\])]?"""
    rb"""(?:\s{0,8}(?:=>|:=|[:=]|%3[dD])\s{0,8}|>|(?P<word>[ \t]{1,4}(?:is[ \t])?))"""
    rb"""(?:[bBuUrR](?=["']))?(?P<quote>\\*["'`])?""",
    re.IGNORECASE,
)
_QUOTED = re.compile(rb"""[^"'`\\\s<>]{8,400}""")
_UNQUOTED = re.compile(rb"""[^\s"'`\\,;&<>(){}\[\]|]{8,400}""")
_PATH = re.compile(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
# A UUID is an identifier, unless its name says what it opens.
_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_GRANTS = re.compile(rb"secret|key|auth|access|api|bearer|refresh")
_OPTION = re.compile(rb"(?:\A|[\s\"'=])--?[A-Za-z0-9_.-]*\Z")
_NETRC = re.compile(rb"\blogin\s+\S{1,100}\s+[a-z]*\Z")


def find_assigned(data: bytes, start: int, end: int) -> Finding | None:
    bare = _BARE_WORD.match(data, start, end)
    if bare is not None:
        end = bare.end(1)
    assign = _ASSIGN.match(data, end)
    if assign is None:
        return None
    found = _NAME.search(data, max(0, end - 80), end)
    name = found[0].lower() if found else b""
    if _HARMLESS.search(name) or not _is_assigned(data, end, assign["word"]):
        return None
    # The parts of a longer name: arn:…:secret:prod-db, AWS::IAM::AccessKey
    front = data[max(0, end - len(name) - 2) : end - len(name)]
    if front == b"::" or (front[-1:] == b":" and data[end : end + 1] == b":"):
        return None
    quoted = assign["quote"] is not None
    value = (_QUOTED if quoted else _UNQUOTED).match(data, assign.end())
    if value is None or is_reference(value[0]):
        return None
    first, last = value.span()
    text = value[0].rstrip(b".,:")
    # What is called or indexed is code, and so is a path of names.
    if not quoted and (data[last : last + 1] in (b"(", b"[") or _PATH.fullmatch(text)):
        return None
    last = first + len(text)
    if b"secret" in name and b"access" in name and len(text) == 40:
        shown = is_stand_in(text) or text.endswith(b"EXAMPLEKEY")
        return None if shown else Finding("aws_secret_key", "block", first, last)
    if _is_secret_value(name, text):
        return Finding("generic_secret", "redact", first, whole(data, first, last))
    return None


def _is_assigned(data: bytes, end: int, word: bytes | None) -> bool:
    """A blank alone assigns only behind a command line option, and in `.netrc`."""
    if word is None or b"is" in word.lower():
        return True
    window = max(0, end - 120)
    return bool(_OPTION.search(data, window, end) or _NETRC.search(data, window, end))


def _is_secret_value(name: bytes, text: bytes) -> bool:
    if name.endswith((b"pwd", b"passwd", b"password", b"passphrase", b"pass")):
        return is_strong_password(text) and not text.startswith(b"/")
    if name.endswith(b"wd"):
        return False
    if _UUID.fullmatch(text) and not _GRANTS.search(name):
        return False
    return len(text) >= 16 and is_random(text)


def _assigned_needles() -> list[bytes]:
    """Names that hold secrets; a common word only where something could be assigned to it."""
    needles = {"assword", "ASSWORD", "asswd", "ASSWD", "assphrase", "ASSPHRASE"}
    for word, joiner in product(_QUALIFIERS, ("_", "-", "", " ", ".")):
        for first, second in (
            (word, "key"),
            (word.upper(), "KEY"),
            (word.title(), "Key"),
            (word, "Key"),
            (word.title(), "key"),
            (word.upper(), "Key"),
            (word.upper(), "key"),
        ):
            needles.add(first + joiner + second)
    bare = ("ecret", "ECRET", "oken", "OKEN", "wd", "WD", "_pass", "_PASS", "Pass")
    for word, suffix in product((*bare, "redential", "redentials", "REDENTIALS"), "=:\"'\\>"):
        needles.add(word + suffix)
        if suffix in "=:":
            needles.add(f"{word} {suffix}")
    needles |= {"-token ", "-secret ", "oken is ", "ecret is "}
    return [needle.encode() for needle in sorted(needles)]


def context_detectors() -> list[Detector]:
    """Every detector of this module."""
    return [
        Detector(
            "private_key",
            "Private keys: PEM, OpenSSH, PGP, SSH2",
            "block",
            [b"PRIVATE KEY"],
            find_private_key,
        ),
        Detector(
            "private_key", "Private keys of PuTTY", "block", [b"Private-Lines:"], find_putty_key
        ),
        Detector(
            "private_key",
            "Private keys in base64",
            "block",
            [b"LS0tLS1CRUdJTi"],
            find_encoded_private_key,
        ),
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
        Detector(
            "generic_secret",
            "Random values assigned to a telling name; AWS secret keys (`aws_secret_key`, block)",
            "redact",
            _assigned_needles(),
            find_assigned,
        ),
    ]
