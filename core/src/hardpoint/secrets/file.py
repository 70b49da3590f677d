"""Secrets in one encrypted file: ChaCha20-Poly1305 (RFC 8439), key from keyring or passphrase."""

from __future__ import annotations

import base64
import json
import os
import secrets as randomness
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from hardpoint.errors import ConfigError
from hardpoint.interfaces.secrets import SecretStore
from hardpoint.secrets.locking import locked
from hardpoint.store.private import open_private
from hardpoint.threads import run_blocking

PASSPHRASE_VARIABLE: Final = "HARDPOINT_PASSPHRASE"  # noqa: S105  # a name
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
            ConfigError: The package `cryptography`, or the keyring for its key, is not installed.
        """
        try:
            import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
        except ImportError as error:
            raise ConfigError(
                "[secrets] stores names 'file', which needs the package cryptography",
                hint="pip install 'hardpoint[secrets]'",
            ) from error
        if key == "keyring" and keyring is None and find_spec("keyring") is None:
            raise ConfigError(
                "[secrets] key is 'keyring', as it is by default, and keyring is not installed",
                hint="""set key = "passphrase" in [secrets], or pip install 'hardpoint[secrets]'""",
            )
        self._path = path
        self._source = key
        self._environ = os.environ if environ is None else environ
        self._keyring = keyring
        # By what it was proved with: a file that was made anew has another salt.
        self._keys: dict[str, bytes] = {}

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
        if sealed is None:
            return None
        return self._unseal(self._key_of(document), owner, name, sealed).decode()

    async def owners(self) -> Sequence[str]:
        return sorted((await run_blocking(self._read))["entries"])

    # the file ----------------------------------------------------------------------------------

    def _read(self) -> dict[str, Any]:
        try:
            with os.fdopen(open_private(self._path, os.O_RDONLY), encoding="utf-8") as file:
                document: Any = json.load(file)
        except FileNotFoundError:
            return {"version": 1, "salt": _text(randomness.token_bytes(16)), "entries": {}}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{self._path}: cannot be read: {error}") from error
        if not _is_document(document):
            raise ConfigError(f"{self._path}: is not a file of secrets that this version reads")
        found: dict[str, Any] = document
        return found

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The document, alone among all processes, written back in one step."""
        with locked(self._path.with_suffix(".lock")):
            for left_over in self._path.parent.glob(f"{self._path.stem}.*.new"):
                left_over.unlink(missing_ok=True)  # of a process that was killed
            document = self._read()
            if "check" not in document:
                document["check"] = self._seal(document, "", "", _CHECK)
            yield document
            fresh = self._path.with_suffix(f".{randomness.token_hex(6)}.new")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(open_private(fresh, flags), "w", encoding="utf-8") as out:
                json.dump(document, out)
                out.flush()
                os.fsync(out.fileno())
            os.replace(fresh, self._path)
            _sync_folder(self._path.parent)

    # sealing -----------------------------------------------------------------------------------

    def _seal(self, document: dict[str, Any], owner: str, name: str, value: bytes) -> str:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        nonce = randomness.token_bytes(12)
        cipher = ChaCha20Poly1305(self._key_of(document))
        return _text(nonce + cipher.encrypt(nonce, value, _bound(owner, name)))

    def _unseal(self, key: bytes, owner: str, name: str, sealed: str) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        try:
            raw = base64.b64decode(sealed, validate=True)
            return ChaCha20Poly1305(key).decrypt(raw[:12], raw[12:], _bound(owner, name))
        except (InvalidTag, ValueError) as error:
            raise ConfigError(
                f"{self._path}: cannot be decrypted: the key or passphrase is another one, or the"
                " file was changed",
                hint=f"look at {PASSPHRASE_VARIABLE} and [secrets] key; whoever has lost them moves"
                " the file away and sets the secrets anew",
            ) from error

    def _key_of(self, document: Mapping[str, Any]) -> bytes:
        proof = f"{document['salt']} {document.get('check', '')}"
        if proof not in self._keys:
            salt = base64.b64decode(document["salt"])
            made = self._from_keyring() if self._source == "keyring" else self._derived(salt)
            if "check" in document:
                self._unseal(made, "", "", document["check"])
            self._keys = {proof: made}
        return self._keys[proof]

    def _derived(self, salt: bytes) -> bytes:
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        passphrase = self._environ.get(PASSPHRASE_VARIABLE) or _ask_passphrase(self._path)
        return Scrypt(salt=salt, length=32, **_SCRYPT).derive(passphrase.encode())

    def _from_keyring(self) -> bytes:
        from hardpoint.secrets.keyring import SERVICE, system_keyring

        keyring = self._keyring or system_keyring()
        entry = f"key of {self._path}"
        try:
            known = keyring.get_password(SERVICE, entry)
            if known is None and not self._path.exists():
                known = _text(randomness.token_bytes(32))
                keyring.set_password(SERVICE, entry, known)
        except Exception as error:  # keyrings raise what their systems raise
            raise ConfigError(f"the keyring cannot be used: {error}") from error
        if known is None:
            raise ConfigError(f"{self._path}: its key is not in this machine's keyring")
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
            f"{path} needs its passphrase at every start: the leak scan must know what is in it",
            hint=f"set {PASSPHRASE_VARIABLE}, or use a terminal",
        )
    entered = getpass.getpass(f"passphrase of {path}: ")
    if not entered:
        raise ConfigError("the passphrase is empty")
    return entered


def _is_document(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and document.get("version") == 1
        and isinstance(document.get("salt"), str)
        and isinstance(document.get("entries"), dict)
        # Without it a wrong passphrase would be taken for the right one.
        and ("check" in document or not document["entries"])
        and all(
            isinstance(named, dict) and all(isinstance(sealed, str) for sealed in named.values())
            for named in document["entries"].values()
        )
    )


def _sync_folder(folder: Path) -> None:
    """Make a rename last through the loss of power, where folders can be synced."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
