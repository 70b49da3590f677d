"""Secrets in one encrypted file: ChaCha20-Poly1305 (RFC 8439), a key from the keyring or a passphrase."""

from __future__ import annotations

import base64
import json
import os
import secrets as randomness
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from hardpoint.errors import ConfigError
from hardpoint.interfaces.secrets import SecretStore
from hardpoint.threads import run_blocking

PASSPHRASE_VARIABLE: Final = "HARDPOINT_PASSPHRASE"
# scrypt (RFC 7914) with the parameters that OWASP recommends: 128 MiB and about 0.3 s.
_SCRYPT: Final = {"n": 2**17, "r": 8, "p": 1}
_CHECK: Final = b"hardpoint"


class EncryptedFileStore(SecretStore):
    """A JSON file, 0600 in a folder 0700. Each value is bound to its owner and name."""

    def __init__(
        self,
        path: Path,
        *,
        key: Literal["keyring", "passphrase"] = "keyring",
        environ: Mapping[str, str] | None = None,
        keyring: Any = None,
    ) -> None:
        """Describe a file; nothing is read yet.

        Raises:
            ConfigError: The package `cryptography` is not installed.
        """
        try:
            import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
        except ImportError as error:
            raise ConfigError(
                "[secrets] stores names 'file', which needs the package cryptography",
                hint="pip install 'hardpoint[secrets]'",
            ) from error
        self._path = path
        self._source = key
        self._environ = os.environ if environ is None else environ
        self._keyring = keyring
        self._key: bytes | None = None

    async def get(self, owner: str, name: str) -> str | None:
        found: str | None = await run_blocking(lambda: self._get(owner, name.lower()))
        return found

    async def names(self, owner: str) -> Sequence[str]:
        return sorted((await run_blocking(self._read))["entries"].get(owner, {}))

    async def set(self, owner: str, name: str, value: str) -> None:
        def work() -> None:
            with self._changing() as document:
                sealed = self._seal(document, owner, name.lower(), value.encode())
                document["entries"].setdefault(owner, {})[name.lower()] = sealed

        await run_blocking(work)

    async def delete(self, owner: str, name: str) -> bool:
        def work() -> bool:
            with self._changing() as document:
                return document["entries"].get(owner, {}).pop(name.lower(), None) is not None

        removed: bool = await run_blocking(work)
        return removed

    def _get(self, owner: str, name: str) -> str | None:
        document = self._read()
        sealed = document["entries"].get(owner, {}).get(name)
        return None if sealed is None else self._open(document, owner, name, sealed).decode()

    # the file ----------------------------------------------------------------------------------

    def _read(self) -> dict[str, Any]:
        try:
            document: dict[str, Any] = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return {"version": 1, "salt": _text(randomness.token_bytes(16)), "entries": {}}
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self._path}: cannot be read: {error}") from error
        if document.get("version") != 1 or not isinstance(document.get("entries"), dict):
            raise ConfigError(f"{self._path}: is not a file of secrets that this version reads")
        return document

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The document, alone among all processes, written back in one step."""
        from hardpoint.store.private import make_private_folder

        make_private_folder(self._path.parent)
        with _lock(self._path.with_suffix(".lock")):
            document = self._read()
            if "check" not in document:
                document["check"] = self._seal(document, "", "", _CHECK)
            yield document
            fresh = self._path.with_suffix(f".{os.getpid()}.new")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                    json.dump(document, out)
                    out.flush()
                    os.fsync(out.fileno())
                os.replace(fresh, self._path)
            finally:
                fresh.unlink(missing_ok=True)

    # sealing -----------------------------------------------------------------------------------

    def _seal(self, document: dict[str, Any], owner: str, name: str, value: bytes) -> str:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        nonce = randomness.token_bytes(12)
        cipher = ChaCha20Poly1305(self._key_of(document))
        return _text(nonce + cipher.encrypt(nonce, value, _bound(owner, name)))

    def _open(self, document: dict[str, Any], owner: str, name: str, sealed: str) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        raw = base64.b64decode(sealed)
        try:
            return ChaCha20Poly1305(self._key_of(document)).decrypt(
                raw[:12], raw[12:], _bound(owner, name)
            )
        except InvalidTag as error:
            raise ConfigError(
                f"{self._path}: cannot be decrypted: the key is another one, or the file was changed"
            ) from error

    def _key_of(self, document: Mapping[str, Any]) -> bytes:
        if self._key is None:
            salt = base64.b64decode(document["salt"])
            made = self._from_keyring() if self._source == "keyring" else self._derived(salt)
            self._key = made
            if "check" in document:
                try:
                    self._open(dict(document), "", "", document["check"])
                except ConfigError:
                    self._key = None
                    raise
        return self._key

    def _derived(self, salt: bytes) -> bytes:
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        passphrase = self._environ.get(PASSPHRASE_VARIABLE) or _ask_passphrase(self._path)
        return Scrypt(salt=salt, length=32, **_SCRYPT).derive(passphrase.encode())

    def _from_keyring(self) -> bytes:
        from hardpoint.secrets.keyring import SERVICE, _system_keyring

        keyring = self._keyring or _system_keyring()
        entry = f"key of {self._path}"
        known = keyring.get_password(SERVICE, entry)
        if known is None:
            if self._path.exists():
                raise ConfigError(f"{self._path}: its key is not in this machine's keyring")
            known = _text(randomness.token_bytes(32))
            keyring.set_password(SERVICE, entry, known)
        return base64.b64decode(known)


def _bound(owner: str, name: str) -> bytes:
    """A value cannot be moved to another owner or name."""
    return json.dumps([owner, name]).encode()


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _ask_passphrase(path: Path) -> str:
    import getpass
    import sys

    if not sys.stdin.isatty():
        raise ConfigError(
            f"{path} needs its passphrase", hint=f"set {PASSPHRASE_VARIABLE}, or use a terminal"
        )
    entered = getpass.getpass(f"passphrase of {path}: ")
    if not entered:
        raise ConfigError("the passphrase is empty")
    return entered


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
