"""The detector for random values that are assigned to a telling name: `api_key = "…"`.

Only here does the scan guess: by the name, by how the value is written, and by how random it looks.
"""

from __future__ import annotations

import re
from itertools import product

from hardpoint.output.detection import Detector, Finding, whole
from hardpoint.output.lazy import Lazy
from hardpoint.output.randomness import is_random, is_reference, is_stand_in, is_strong_password

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
_BARE_WORD = Lazy(
    rb"""(-?t?oken|-?s?ecret|redentials?|_?pass|wd)(?:[=:"'\\> ]|is)*\Z""", re.IGNORECASE
)
_NAME = Lazy(rb"[A-Za-z0-9_.-]*\Z")
# Random, but meant to be read and handed on: cursors, cache keys, public keys, counts.
_HARMLESS = Lazy(
    rb"(?:page|next|prev|previous|continuation|continue|sync|cursor|pagination|resume|csrf|xsrf"
    rb"|count|max|min|num|prompt|completion|total|input|output|per|public|cache|partition"
    rb"|primary|foreign|index|idempotency|progress|change|delta|skip|scroll|upload|watch|lock"
    rb"|starting|creation|action|update|object|design|blob|registry|row|column|sort|group)"
    rb"[_.-]?(?:token|key|secret)\Z",
    re.IGNORECASE,
)
_ASSIGN = Lazy(
    rb"""(?:[_.-]?(?:\d{1,3}|v\d|value|prod|production|live|test|dev|staging|base|base64|b64|hex))?"""
    rb"""(?:\\*["'`])?[\])]?"""
    rb"""(?:\s{0,8}(?:=>|:=|[:=]|%3[dD])\s{0,8}|>|(?P<word>[ \t]{1,4}(?:is[ \t])?))"""
    rb"""(?:[bBuUrR](?=["']))?(?P<quote>\\*["'`])?""",
    re.IGNORECASE,
)
_QUOTED = Lazy(rb"""[^"'`\\\s<>]{8,400}""")
_UNQUOTED = Lazy(rb"""[^\s"'`\\,;&<>(){}\[\]|]{8,400}""")
_PATH = Lazy(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
# A UUID is an identifier, unless its name says what it opens.
_UUID = Lazy(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_GRANTS = Lazy(rb"secret|key|auth|access|api|bearer|refresh")
_OPTION = Lazy(rb"(?:\A|[\s\"'=])--?[A-Za-z0-9_.-]*\Z")
_NETRC = Lazy(rb"\blogin\s+\S{1,100}\s+[a-z]*\Z")


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


def assignment_detectors() -> list[Detector]:
    """The detector of this module."""
    return [
        Detector(
            "generic_secret",
            "Random values assigned to a telling name; AWS secret keys (`aws_secret_key`, block)",
            "redact",
            _assigned_needles(),
            find_assigned,
        )
    ]
