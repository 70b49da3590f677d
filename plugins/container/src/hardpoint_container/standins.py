"""Stand-ins for secrets: what commands hold, and where the core puts the real value in its place.

The value itself never comes here. A stand-in that is found in a request becomes a binding, and the
guarded client of the core injects the secret when the request leaves.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote_plus

import attrs

from hardpoint.errors import NotAuthorized
from hardpoint.net import Basic, Bearer, Binding, Header, Query, UrlPath
from hardpoint_container.config import SandboxSecret

MARK: Final = "hardpoint-stand-in-"
Pairs = tuple[tuple[str, str], ...]


@attrs.frozen
class Outgoing:
    """A request without its stand-ins, and the bindings that take their place."""

    url: str
    headers: Pairs
    bindings: tuple[Binding, ...] = ()


class StandIns:
    """The stand-ins of one sandbox."""

    def __init__(self, configured: Sequence[SandboxSecret]) -> None:
        self._by_text = {MARK + secrets.token_hex(16): secret for secret in configured}

    def environment(self) -> Mapping[str, str]:
        """The variables that hold them."""
        return {secret.env: text for text, secret in self._by_text.items()}

    def of(self, credentials: Mapping[str, str]) -> Mapping[str, str]:
        """The stand-ins of some secrets, by the variables that a caller wants them in.

        Raises:
            NotAuthorized: A secret is not one that commands may use.
        """
        texts = {secret.name: text for text, secret in self._by_text.items()}
        for secret in credentials.values():
            if secret not in texts:
                raise NotAuthorized(
                    f"commands may not use the secret {secret!r}",
                    hint="name it in [[plugin.container.egress.secrets]]",
                )
        return {env: texts[secret] for env, secret in credentials.items()}

    def replace(self, url: str, headers: Pairs, body: bytes | None) -> Outgoing:
        """Find the stand-ins of a request.

        Raises:
            NotAuthorized: One stands where no secret can be put.
        """
        outgoing = Outgoing(url, headers)
        for text, secret in self._by_text.items():
            outgoing = _replace_one(outgoing, text, secret)
            if body is not None and text.encode() in body:
                raise _misplaced(secret, "a request body")
        return outgoing


def _replace_one(outgoing: Outgoing, text: str, secret: SandboxSecret) -> Outgoing:
    kept: list[tuple[str, str]] = []
    bindings = list(outgoing.bindings)
    for name, value in outgoing.headers:
        location = _in_header(name, value, text)
        if location is None:
            kept.append((name, value))
            if text in value:
                raise _misplaced(secret, f"the middle of the header {name!r}")
        else:
            bindings.append(_binding(secret, location))
    url = outgoing.url
    head, question, query = url.partition("?")
    pairs = query.split("&")
    for pair in pairs:
        name, _, value = pair.partition("=")
        if value == text:
            bindings.append(_binding(secret, Query(unquote_plus(name))))
    if question:
        url = head + question + "&".join(pair for pair in pairs if pair.partition("=")[2] != text)
    authority_end = head.find("/", len("https://"))
    if text in head[authority_end:]:
        url = url.replace(text, "{standin}", 1)
        bindings.append(_binding(secret, UrlPath("standin")))
    if text in url:
        raise _misplaced(secret, "this part of the address")
    return Outgoing(url, tuple(kept), tuple(bindings))


def _binding(secret: SandboxSecret, location: Bearer | Basic | Header | Query | UrlPath) -> Binding:
    return Binding(secret.name, secret.hosts, location=location)


def _in_header(name: str, value: str, text: str) -> Bearer | Basic | Header | None:
    is_authorization = name.lower() == "authorization"
    scheme, _, rest = value.partition(" ")
    if is_authorization and scheme.lower() == "bearer" and rest.strip() == text:
        return Bearer()
    if is_authorization and scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(rest, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return Basic(user) if password == text else None
    if value.endswith(text) and text not in value.removesuffix(text):
        return Header(name, value.removesuffix(text))
    return None


def _misplaced(secret: SandboxSecret, where: str) -> NotAuthorized:
    return NotAuthorized(
        f"the stand-in for secret {secret.name!r} cannot be replaced in {where}",
        hint="send it as a bearer token, a header, the basic password or a query parameter",
    )
