"""Replace what must not be shown, going by its name. What a text holds is for the leak scan."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final

REDACTED: Final = "[REDACTED]"

MAX_DEPTH: Final = 100


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = _words(
    "password passwd passphrase pwd secret secrets credential credentials authorization cookie"
    " cookies apikey apikeys apisecret"
)
# These name a secret only when a word beside them says which.
_CARRIERS = _words("token tokens jwt key keys")
_QUALIFIERS = _words(
    "auth oauth authorization api access refresh session bearer private client id app user"
    " application account csrf xsrf signing encryption master service"
)
_NESTED = (dict, list, tuple)
_NAMES = ("name", "key", "header")
# Facts about a secret, which may be shown: secret_name, password_policy, cookie_count.
_FACTS = _words(
    "name names count length size policy required type hint path file url uri expires expiry ttl"
    " version ref reference set exists enabled changed at age max min limit provider store"
    " location scope status"
)


def redact_params(params: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """A copy of the arguments with these top-level ones replaced."""
    return {name: REDACTED if name in names else value for name, value in params.items()}


def redact_sensitive_json(value: Any) -> Any:
    """A JSON value in which everything under a telling key is replaced; the same one without any.

    Also knows lists of pairs, as recorded headers have them: `{"name": "Cookie", "value": …}`.
    """
    return _redacted(value, 0) if _tells(value, 0) else value


def _tells(value: Any, depth: int) -> bool:
    """Whether there is a telling key; quick, because nearly always there is none."""
    if depth > MAX_DEPTH:
        return True
    if isinstance(value, dict):
        if "value" in value and not value.keys().isdisjoint(_NAMES):
            return True
        for key, item in value.items():
            if is_sensitive_key(str(key)):
                return True
            if isinstance(item, _NESTED) and _tells(item, depth + 1):
                return True
    elif isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, _NESTED) and _tells(item, depth + 1):
                return True
    return False


def _redacted(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return REDACTED
    if isinstance(value, dict):
        names = map(value.get, _NAMES)
        telling = any(is_sensitive_key(name) for name in names if isinstance(name, str))
        return {
            key: REDACTED
            if _hides(item) and (is_sensitive_key(str(key)) or (telling and key == "value"))
            else _redacted(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(item, depth + 1) for item in value]
    return value


@lru_cache(maxsize=4096)
def is_sensitive_key(key: str) -> bool:
    """Whether what stands under a key is a secret: `apiKey`, `X-Auth-Token`, `DB_PASSWORD2`."""
    if len(key) > 200:
        return False
    words = [word for word in map(str.lower, _WORDS.findall(key)) if not word.isdigit()]
    if not words or (len(words) > 1 and words[-1] in _FACTS):
        return False
    if not _SECRET_WORDS.isdisjoint(words):
        return True
    if words[-1] not in _CARRIERS:
        return False
    return words in (["token"], ["tokens"], ["jwt"]) or not _QUALIFIERS.isdisjoint(words[:-1])


def _hides(value: Any) -> bool:
    """Whether there is anything to hide; that a secret is unset may be seen."""
    return value is not None and not isinstance(value, bool) and value != ""
