"""A certificate authority for one sandbox: made when it starts, trusted only there."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

NAME: Final = "Hardpoint sandbox"
VALID: Final = datetime.timedelta(days=2)
LEAVES: Final = 256
"""Hosts whose certificates are kept; the oldest goes first."""


class SessionCA:
    """Signs a certificate for each host that a sandbox speaks to."""

    def __init__(self) -> None:
        self._key = _new_key()
        self._certificate = self._sign(NAME, self._key, authority=True)
        self._contexts: dict[str, ssl.SSLContext] = {}

    def pem(self) -> str:
        """The authority's certificate."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self._certificate.public_bytes(Encoding.PEM).decode()

    def context(self, host: str) -> ssl.SSLContext:
        """What a server needs to be this host."""
        made = self._contexts.get(host)
        if made is None:
            if len(self._contexts) >= LEAVES:
                del self._contexts[next(iter(self._contexts))]
            made = self._contexts[host] = self._make_context(host)
        return made

    def _make_context(self, host: str) -> ssl.SSLContext:
        from cryptography.hazmat.primitives import serialization as how

        key = _new_key()
        certificate = self._sign(host, key, authority=False)
        private = key.private_bytes(how.Encoding.PEM, how.PrivateFormat.PKCS8, how.NoEncryption())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # The ssl module takes keys from files only; this one is private and gone at once.
        with tempfile.NamedTemporaryFile("wb") as file:
            file.write(private + certificate.public_bytes(how.Encoding.PEM))
            file.flush()
            context.load_cert_chain(file.name)
        return context

    def _sign(
        self, name: str, key: EllipticCurvePrivateKey, *, authority: bool
    ) -> x509.Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import NameOID

        now = datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + VALID)
            .add_extension(
                x509.BasicConstraints(ca=authority, path_length=0 if authority else None), True
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
            )
        )
        if authority:
            flags = dict.fromkeys(_USES, False) | {"key_cert_sign": True, "crl_sign": True}
            builder = builder.add_extension(x509.KeyUsage(**flags), True)
        else:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(name)]), False
            )
        return builder.sign(self._key, hashes.SHA256())


_USES: Final = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
