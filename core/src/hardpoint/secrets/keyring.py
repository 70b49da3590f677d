"""Secrets in the keyring of the operating system."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from hardpoint.errors import ConfigError
from hardpoint.interfaces.secrets import SecretStore
from hardpoint.threads import run_blocking

T = TypeVar("T")

SERVICE: Final = "hardpoint"
# A keyring cannot be listed, so the names of each owner are kept in an entry of their own.
_NAMES: Final = "hardpoint names"


class KeyringStore(SecretStore):
    """One entry a secret, under the service `hardpoint` and the user `OWNER/NAME`."""

    def __init__(self, backend: Any = None, *, lock: Path | None = None) -> None:
        """Use a keyring.

        Args:
            backend: A `keyring` backend; the operating system's when absent.
            lock: A file that processes lock while they change the list of names.

        Raises:
            ConfigError: The package `keyring`, or a keyring, is not there.
        """
        self._backend = backend if backend is not None else system_keyring()
        self._lock = lock

    async def get(self, owner: str, name: str) -> str | None:
        return await self._call(lambda: self._backend.get_password(SERVICE, _entry(owner, name)))

    async def names(self, owner: str) -> Sequence[str]:
        return await self._call(lambda: self._names(owner))

    async def set(self, owner: str, name: str, value: str) -> None:
        def work() -> None:
            with self._alone():
                # The name first: a secret that is not listed would never be scanned for.
                self._keep_names(owner, {*self._names(owner), name.lower()})
                self._backend.set_password(SERVICE, _entry(owner, name), value)

        await self._call(work)

    async def delete(self, owner: str, name: str) -> bool:
        def work() -> bool:
            with self._alone():
                known = set(self._names(owner))
                there = self._backend.get_password(SERVICE, _entry(owner, name)) is not None
                if there:
                    self._backend.delete_password(SERVICE, _entry(owner, name))
                if name.lower() in known:
                    self._keep_names(owner, known - {name.lower()})
                return there

        return await self._call(work)

    def _names(self, owner: str) -> list[str]:
        text = self._backend.get_password(_NAMES, owner)
        return sorted(json.loads(text)) if text else []

    def _keep_names(self, owner: str, names: Collection[str]) -> None:
        self._backend.set_password(_NAMES, owner, json.dumps(sorted(names)))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._lock is None:
            yield
            return
        from hardpoint.secrets.locking import locked

        with locked(self._lock):
            yield

    async def _call(self, work: Callable[[], T]) -> T:
        try:
            found: T = await run_blocking(work)
        except Exception as error:  # keyrings raise what their systems raise
            raise ConfigError(f"the keyring cannot be used: {error}") from error
        return found


def _entry(owner: str, name: str) -> str:
    # Quoted, so that nobody is named into somebody else's entry: `a/b` and `c`, `a` and `b/c`.
    return f"{quote(owner, safe='@.-_')}/{name.lower()}"


def system_keyring() -> Any:
    """The keyring of the operating system.

    Raises:
        ConfigError: The package `keyring`, or a keyring, is not there.
    """
    try:
        import keyring
        from keyring.backends.fail import Keyring as NoKeyring
    except ImportError as error:
        raise ConfigError(
            "[secrets] stores names 'keyring', which is not installed",
            hint="pip install 'hardpoint[secrets]'",
        ) from error
    backend = keyring.get_keyring()
    if isinstance(backend, NoKeyring):
        raise ConfigError(
            "this machine has no keyring that can be used",
            hint='write stores = ["env", "file"] and key = "passphrase" in [secrets]',
        )
    return backend
