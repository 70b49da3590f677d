"""Secrets in the keyring of the operating system."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from hardpoint.errors import ConfigError
from hardpoint.interfaces.secrets import SecretStore
from hardpoint.threads import run_blocking

T = TypeVar("T")

SERVICE: Final = "hardpoint"
# A keyring cannot be listed, so the names of each owner are kept in an entry of their own.
_NAMES: Final = "hardpoint names"


class KeyringStore(SecretStore):
    """One entry a secret, under the service `hardpoint` and the user `OWNER/NAME`."""

    def __init__(self, backend: Any = None) -> None:
        """Use a keyring.

        Args:
            backend: A `keyring` backend; the operating system's when absent.

        Raises:
            ConfigError: The package `keyring`, or a keyring, is not there.
        """
        self._backend = backend if backend is not None else _system_keyring()

    async def get(self, owner: str, name: str) -> str | None:
        return await self._call(
            lambda: self._backend.get_password(SERVICE, f"{owner}/{name.lower()}")
        )

    async def names(self, owner: str) -> Sequence[str]:
        return await self._call(lambda: self._names(owner))

    async def set(self, owner: str, name: str, value: str) -> None:
        def work() -> None:
            self._backend.set_password(SERVICE, f"{owner}/{name.lower()}", value)
            self._keep_names(owner, {*self._names(owner), name.lower()})

        await self._call(work)

    async def delete(self, owner: str, name: str) -> bool:
        def work() -> bool:
            known = set(self._names(owner))
            if name.lower() not in known:
                return False
            self._backend.delete_password(SERVICE, f"{owner}/{name.lower()}")
            self._keep_names(owner, known - {name.lower()})
            return True

        return await self._call(work)

    def _names(self, owner: str) -> list[str]:
        text = self._backend.get_password(_NAMES, owner)
        return sorted(json.loads(text)) if text else []

    def _keep_names(self, owner: str, names: set[str]) -> None:
        self._backend.set_password(_NAMES, owner, json.dumps(sorted(names)))

    async def _call(self, work: Callable[[], T]) -> T:
        try:
            found: T = await run_blocking(work)
        except Exception as error:  # keyrings raise what their systems raise
            raise ConfigError(f"the keyring cannot be used: {error}") from error
        return found


def _system_keyring() -> Any:
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
            hint='use "file" with key = "passphrase" in [secrets] stores',
        )
    return backend
