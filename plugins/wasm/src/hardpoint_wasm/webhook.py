"""What a capabilities file says of webhooks: how a request proves that it comes from the service.

Every proof that is named must hold; a file that names none lets nothing in. Receiving is the
business of `webhook_server`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

import attrs

WEBHOOK: Final = "webhook:"
"""The permission to be called by requests from outside."""
FRESH: Final = 300.0
"""Seconds in which a request with a time stamp has to arrive."""
_DISCORD_STAMP: Final = "x-signature-timestamp"
_DEFAULT_SECRET_HEADER: Final = "x-webhook-secret"  # noqa: S105  # a name


class Unproven(Exception):
    """A request does not prove where it comes from."""


@attrs.frozen
class Webhook:
    """The proofs that requests must carry. Secrets are named, never written here."""

    secret_header: str | None = None
    secret_name: str | None = None
    """A shared secret that stands in `secret_header`, by default `X-Webhook-Secret`."""
    signature_key_secret_name: str | None = None
    """The service's public key: Ed25519 over time stamp and body, as Discord signs."""
    hmac_secret_name: str | None = None
    """The key of an HMAC with SHA-256 over the body; with `hmac_timestamp_header` as Slack does."""
    hmac_signature_header: str | None = None
    hmac_timestamp_header: str | None = None
    hmac_prefix: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that the proofs need."""
        named = (self.secret_name, self.signature_key_secret_name, self.hmac_secret_name)
        return tuple(name for name in named if name)

    @property
    def stamp_headers(self) -> tuple[str, ...]:
        """The headers whose time stamps the proofs sign; without one a request may be repeated."""
        named = [_DISCORD_STAMP] if self.signature_key_secret_name else []
        if self.hmac_secret_name and self.hmac_timestamp_header:
            named.append(self.hmac_timestamp_header.lower())
        return tuple(named)

    @property
    def problems(self) -> list[str]:
        """Keys that another key would have to give a meaning."""
        problems = []
        if self.secret_header and not self.secret_name:
            problems.append("webhook.secret_header needs secret_name")
        problems += [
            f"webhook.{key} needs hmac_secret_name"
            for key in ("hmac_signature_header", "hmac_timestamp_header", "hmac_prefix")
            if getattr(self, key) and not self.hmac_secret_name
        ]
        return problems

    def verify(
        self, headers: Mapping[str, str], body: bytes, values: Mapping[str, str], now: float
    ) -> None:
        """Check every proof that is named.

        Args:
            headers: By lower-case name.
            values: The values of `secrets`.
            now: Unix time, for signatures with a time stamp.

        Raises:
            Unproven: One does not hold, or none is named.
        """
        if not self.secrets:
            raise Unproven("the capabilities file names no proof")
        if self.secret_name:
            given = headers.get((self.secret_header or _DEFAULT_SECRET_HEADER).lower())
            _compare(given, values[self.secret_name], "secret")
        if self.signature_key_secret_name:
            _check_ed25519(headers, body, values[self.signature_key_secret_name], now)
        if self.hmac_secret_name:
            self._check_hmac(headers, body, values[self.hmac_secret_name], now)

    def _check_hmac(self, headers: Mapping[str, str], body: bytes, key: str, now: float) -> None:
        if self.hmac_timestamp_header:
            stamp = _fresh(headers.get(self.hmac_timestamp_header.lower()), now)
            signed, header, prefix = b"v0:%s:%s" % (stamp, body), "x-slack-signature", "v0="
        else:
            signed, header, prefix = body, "x-hub-signature-256", "sha256="
        header = (self.hmac_signature_header or header).lower()
        prefix = prefix if self.hmac_prefix is None else self.hmac_prefix
        digest = hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()
        _compare(headers.get(header), prefix + digest, "signature")


def _check_ed25519(headers: Mapping[str, str], body: bytes, key: str, now: float) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    stamp = _fresh(headers.get(_DISCORD_STAMP), now)
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(headers.get("x-signature-ed25519", "")), stamp + body)
    except (InvalidSignature, ValueError) as error:
        raise Unproven("the signature is not right") from error


def _fresh(stamp: str | None, now: float) -> bytes:
    """A time stamp that is near; an old request may be a repeated one."""
    if not stamp or not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
        raise Unproven("the time stamp is missing")
    if abs(now - int(stamp)) > FRESH:
        raise Unproven("the time stamp is too old or too new")
    return stamp.encode("ascii")


def _compare(given: str | None, expected: str, what: str) -> None:
    if given is None:
        raise Unproven(f"the {what} is missing")
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise Unproven(f"the {what} is not right")
