"""Find secret values by owner and name, and hand them to nobody but the injector and audited readers.

A reference is `NAME`, the user's own secret or else the system's, or `system:NAME`, the system's only.
No user ever gets another user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from hardpoint.config import Config
from hardpoint.errors import ConfigError, NotAuthorized
from hardpoint.interfaces.secrets import SYSTEM, SecretStore

SYSTEM_PREFIX: Final = "system:"
Learn = Callable[[str, str], None]


class Secrets:
    """The stores of one runtime, asked in their order."""

    def __init__(
        self,
        stores: Sequence[tuple[str, SecretStore]],
        audit: Any = None,
        learn: Learn | None = None,
    ) -> None:
        """Put stores together.

        Args:
            stores: By name, the first one that has a value gives it.
            audit: Where readings are written down.
            learn: Told every value that is handed out, so that the leak scan finds it.
        """
        self._stores = stores
        self._audit = audit
        self._learn = learn

    @classmethod
    def from_config(
        cls,
        config: Config,
        plugins: Mapping[str, SecretStore],
        audit: Any = None,
        learn: Learn | None = None,
    ) -> Secrets:
        """The stores that `[secrets] stores` names.

        Raises:
            ConfigError: A store is unknown, or its extra is not installed.
        """
        named = [(name, _open(name, config, plugins)) for name in config.secrets.stores]
        return cls(named, audit, learn)

    async def learn_all(self) -> None:
        """Tell the leak scan every value of the system that the stores give without a person."""
        for _, store in self._stores:
            for name in await store.names(SYSTEM):
                value = await store.get(SYSTEM, name)
                if value and self._learn is not None:
                    self._learn(name, value)

    async def exists(self, name: str, user_id: str) -> bool:
        """Whether the user, or the system, really has a non-empty secret of this name."""
        return await self._find(name, user_id) is not None

    async def names(self, owner: str) -> Sequence[str]:
        """The names that an owner has, sorted."""
        found: set[str] = set()
        for _, store in self._stores:
            found.update(await store.names(owner))
        return sorted(found)

    async def providers(self, owner: str) -> Sequence[tuple[str, str]]:
        """The names that an owner has, each with the store that gives it."""
        found: dict[str, str] = {}
        for place, store in self._stores:
            for name in await store.names(owner):
                found.setdefault(name, place)
        return sorted(found.items())

    async def set(self, owner: str, name: str, value: str) -> str:
        """Keep a value in the first store that can be written; the store's name.

        Raises:
            ConfigError: None can be, or the value is empty.
        """
        if not value or not name or name.startswith(SYSTEM_PREFIX):
            raise ConfigError("a secret needs a name and a value that is not empty")
        for place, store in self._stores:
            if store.writable:
                await store.set(owner, name.lower(), value)
                if self._learn is not None:
                    self._learn(name.lower(), value)
                return place
        raise ConfigError(
            f"no store can keep a secret: [secrets] stores is {[p for p, _ in self._stores]}",
            hint='add "keyring" or "file" to [secrets] stores',
        )

    async def delete(self, owner: str, name: str) -> bool:
        """Remove a value from every store that can be written; False when none had it."""
        removed = False
        for _, store in self._stores:
            if store.writable:
                removed = await store.delete(owner, name.lower()) or removed
        return removed

    async def resolve(self, reference: str, user_id: str | None) -> str:
        """The value for the injector.

        Raises:
            NotAuthorized: There is none; the hint says how to set it.
        """
        value = await self._find(reference, user_id)
        if value is None:
            name = reference.removeprefix(SYSTEM_PREFIX)
            system = user_id is None or reference.startswith(SYSTEM_PREFIX)
            owner = SYSTEM if system else user_id
            option = " --system" if system else f" --user {user_id}"
            raise NotAuthorized(
                f"the secret {name!r} is not set for {owner!r}",
                hint=f"run `hardpoint secrets set {name}{option}`",
            )
        if self._learn is not None:
            self._learn(reference, value)
        return value

    async def reveal(self, reference: str, user_id: str | None, reason: str) -> str:
        """The value for what cannot be injected; every reading is in the audit.

        Raises:
            NotAuthorized: There is none, or the reading cannot be written down.
        """
        value = await self.resolve(reference, user_id)
        if self._audit is not None:
            try:
                self._audit.write(
                    "secret_revealed", {"secret": reference, "user": user_id, "reason": reason}
                )
            except Exception as error:  # whatever stops the record stops the reading
                raise NotAuthorized(
                    f"the reading of a secret cannot be recorded: {error}"
                ) from error
        return value

    async def missing(self, references: Iterable[str] = ()) -> Sequence[str]:
        """The references to the system's secrets that lead nowhere."""
        return [
            reference
            for reference in sorted(set(references))
            if reference.startswith(SYSTEM_PREFIX) and await self._find(reference, None) is None
        ]

    async def _find(self, reference: str, user_id: str | None) -> str | None:
        name = reference.removeprefix(SYSTEM_PREFIX).lower()
        owners = [SYSTEM]
        if user_id not in (None, SYSTEM) and not reference.startswith(SYSTEM_PREFIX):
            owners.insert(0, str(user_id))
        for owner in owners:
            for _, store in self._stores:
                value = await store.get(owner, name)
                if value:
                    return value
        return None


def references_in(value: Any) -> frozenset[str]:
    """The secrets that a plugin's settings refer to, at any depth."""
    from hardpoint.net import Binding

    if isinstance(value, Binding):
        return frozenset((value.secret,))
    if attrs.has(type(value)):
        inner: Iterable[Any] = (getattr(value, f.name, None) for f in attrs.fields(type(value)))
    elif isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        inner = value
    else:
        return frozenset()
    return frozenset().union(*(references_in(each) for each in inner))


def _open(name: str, config: Config, plugins: Mapping[str, SecretStore]) -> SecretStore:
    if name == "env":
        from hardpoint.secrets.environment import EnvironmentStore

        return EnvironmentStore()
    if name == "keyring":
        from hardpoint.secrets.keyring import KeyringStore

        return KeyringStore()
    if name == "file":
        from hardpoint.folders import folder
        from hardpoint.secrets.file import EncryptedFileStore

        path = config.secrets.path or folder("data") / "secrets.json"
        return EncryptedFileStore(path, key=config.secrets.key)
    if name in plugins:
        return plugins[name]
    known = ", ".join(sorted({"env", "keyring", "file", *plugins}))
    raise ConfigError(f"[secrets] stores names {name!r}; there are {known}")
