"""Find secret values by owner and name, for nobody but the injector and audited readers.

A reference is `NAME`, the user's own secret or else the system's, or `system:NAME`, the system's
only. No user ever gets another user's.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from hardpoint.config import Config
from hardpoint.errors import ConfigError, NotAuthorized
from hardpoint.interfaces.secrets import SYSTEM, SecretStore

logger = logging.getLogger(__name__)

SYSTEM_PREFIX: Final = "system:"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
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
        self._learned: set[str] = set()

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
        """Tell the leak scan every value of the system, and of users whom the stores can list."""
        owners = {SYSTEM}
        for _, store in self._stores:
            owners.update(await store.owners())
        for owner in sorted(owners):
            await self._learn_owner(owner)

    async def learn_user(self, user_id: str) -> None:
        """Tell the leak scan a user's values, once; for stores that cannot list their users."""
        if user_id in self._learned:
            return
        try:
            await self._learn_owner(user_id)
        except ConfigError as error:
            # A store that cannot be opened now cannot give the value to anybody either.
            self._learned.add(user_id)
            logger.warning("the leak scan does not know the secrets of %s: %s", user_id, error)

    def knows(self, user_id: str) -> bool:
        """Whether `learn_user` would do nothing."""
        return user_id in self._learned

    async def _learn_owner(self, owner: str) -> None:
        for _, store in self._stores:
            for name in await store.names(owner):
                value = await store.get(owner, name)
                if value and self._learn is not None:
                    self._learn(name, value)
        self._learned.add(owner)

    def of(self, user_id: str) -> CallerSecrets:
        """What a running call sees: the secrets of its user."""
        return CallerSecrets(self, user_id)

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
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} cannot name a secret: letters, digits, `_`, `-` and `.`, at most 128"
            )
        if not value.strip() or not owner:
            raise ConfigError("a secret needs an owner, and a value that is not empty")
        for place, store in self._stores:
            if store.writable:
                await store.set(owner, name.lower(), value)
                if self._learn is not None:
                    self._learn(name.lower(), value)
                return place
            if await store.get(owner, name.lower()):
                raise ConfigError(
                    f"{place!r} has {name!r} already and is asked first, so a value that is kept"
                    " elsewhere would not be used",
                    hint=f"remove it from {place!r}, or change the order of [secrets] stores",
                )
        raise self._no_place()

    def require_place(self) -> None:
        """Refuse before anybody has typed a value that nothing could keep.

        Raises:
            ConfigError: No store can be written.
        """
        if not any(store.writable for _, store in self._stores):
            raise self._no_place()

    def _no_place(self) -> ConfigError:
        return ConfigError(
            f"no store can keep a secret: [secrets] stores is {[p for p, _ in self._stores]}",
            hint='write stores = ["env", "keyring"] in [secrets], or stores = ["env", "file"] with'
            ' key = "passphrase"; `hardpoint config show` names the file',
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


class CallerSecrets:
    """The secrets of one user as a running call sees them: no other user's, and no plain values.

    A value reaches a server through `services.http(bindings)`. What cannot be injected is revealed,
    and each reading is in the audit.
    """

    def __init__(self, secrets: Secrets, user_id: str) -> None:
        self._secrets = secrets
        self._user_id = user_id

    async def exists(self, name: str, user_id: str | None = None) -> bool:
        """Whether the caller, or the system, has a secret of this name."""
        return await self._secrets.exists(name, self._own(user_id))

    async def names(self, user_id: str | None = None) -> Sequence[str]:
        """The names that the caller has, sorted."""
        return await self._secrets.names(self._own(user_id))

    async def providers(self, user_id: str | None = None) -> Sequence[tuple[str, str]]:
        """The names that the caller has, each with the store that gives it."""
        return await self._secrets.providers(self._own(user_id))

    async def delete(self, name: str, user_id: str | None = None) -> bool:
        """Remove a secret of the caller; False when there was none."""
        return await self._secrets.delete(self._own(user_id), name)

    async def reveal(self, reference: str, user_id: str | None, reason: str) -> str:
        """The value, for what cannot be injected; the reading is in the audit.

        Raises:
            NotAuthorized: There is none, it is another user's, or it cannot be written down.
        """
        return await self._secrets.reveal(reference, self._own(user_id), reason)

    def _own(self, user_id: str | None) -> str:
        if user_id not in (None, self._user_id):
            raise NotAuthorized(f"a call of {self._user_id!r} has no secrets of {user_id!r}")
        return self._user_id


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
        from hardpoint.folders import folder
        from hardpoint.secrets.keyring import KeyringStore

        return KeyringStore(lock=folder("data") / "keyring.lock")
    if name == "file":
        from hardpoint.folders import folder
        from hardpoint.secrets.file import EncryptedFileStore

        path = config.secrets.path or folder("data") / "secrets.json"
        return EncryptedFileStore(path, key=config.secrets.key)
    if name in plugins:
        return plugins[name]
    known = ", ".join(sorted({"env", "keyring", "file", *plugins}))
    raise ConfigError(f"[secrets] stores names {name!r}; there are {known}")
