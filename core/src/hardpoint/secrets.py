"""Find secret values by owner and name, and hand them to nobody but the injector and audited readers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hardpoint.config import Config
from hardpoint.errors import ConfigError, NotAuthorized
from hardpoint.interfaces.secrets import SYSTEM, SecretStore

PREFIX: Final = "HARDPOINT_SECRET_"


class EnvironmentStore(SecretStore):
    """`HARDPOINT_SECRET_NAME` variables: secrets of the system, read-only."""

    writable = False

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    def values(self) -> Mapping[str, str]:
        """Every non-empty value by lower-case name."""
        return {
            variable.removeprefix(PREFIX).lower(): value
            for variable, value in self._environ.items()
            if variable.startswith(PREFIX) and value
        }

    async def get(self, owner: str, name: str) -> str | None:
        return self.values().get(name.lower()) if owner == SYSTEM else None

    async def names(self, owner: str) -> Sequence[str]:
        return sorted(self.values()) if owner == SYSTEM else []


class Secrets:
    """The stores of one runtime, asked in their order."""

    def __init__(self, stores: Sequence[tuple[str, SecretStore]], audit: Any = None) -> None:
        self._stores = stores
        self._audit = audit

    @classmethod
    def from_config(
        cls, config: Config, plugins: Mapping[str, SecretStore], audit: Any = None
    ) -> Secrets:
        """The stores that `[secrets] stores` names.

        Raises:
            ConfigError: A store is unknown.
        """
        stores: list[tuple[str, SecretStore]] = []
        for name in config.secrets.stores:
            if name == "env":
                stores.append((name, EnvironmentStore()))
            elif name in plugins:
                stores.append((name, plugins[name]))
            else:
                known = ", ".join(sorted({"env", *plugins}))
                raise ConfigError(f"[secrets] stores names {name!r}; there are {known}")
        return cls(stores, audit)

    def known_values(self) -> Mapping[str, str]:
        """The values that the leak scan looks for, as far as they are known without waiting."""
        found: dict[str, str] = {}
        for _, store in self._stores:
            if isinstance(store, EnvironmentStore):
                found.update(store.values())
        return found

    async def exists(self, name: str, user_id: str) -> bool:
        """Whether the user, or the system, really has a non-empty secret of this name."""
        return await self._find(name, user_id) is not None

    async def names(self, owner: str) -> Sequence[str]:
        """The names that an owner has, sorted."""
        found: set[str] = set()
        for _, store in self._stores:
            found.update(await store.names(owner))
        return sorted(found)

    async def resolve(self, name: str, user_id: str | None) -> str:
        """The value for the injector. A user's own comes first, then the system's; nobody else's.

        Raises:
            NotAuthorized: There is none; the hint says how to set it.
        """
        value = await self._find(name, user_id)
        if value is None:
            raise NotAuthorized(
                f"the secret {name!r} is not set for user {user_id or SYSTEM!r}",
                hint=f"run `hardpoint secrets set {name}`",
            )
        return value

    async def reveal(self, name: str, user_id: str | None, reason: str) -> str:
        """The value for what cannot be injected; every reading is in the audit.

        Raises:
            NotAuthorized: There is none.
        """
        value = await self.resolve(name, user_id)
        if self._audit is not None:
            self._audit.write(
                "secret_revealed", {"secret": name, "user": user_id, "reason": reason}, batch=False
            )
        return value

    async def _find(self, name: str, user_id: str | None) -> str | None:
        owners = [SYSTEM] if user_id in (None, SYSTEM) else [user_id, SYSTEM]
        for owner in owners:
            for _, store in self._stores:
                value = await store.get(str(owner), name)
                if value:
                    return value
        return None
