"""Where secret values are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

SYSTEM = "system"
"""The owner of secrets that belong to the installation, not to a user."""


class SecretStore(ABC):
    """Named secret values by owner. Names are compared without regard to letter case."""

    writable: bool = True

    @abstractmethod
    async def get(self, owner: str, name: str) -> str | None:
        """The value, or None; never another owner's, never an empty string."""

    @abstractmethod
    async def names(self, owner: str) -> Sequence[str]:
        """The names that exist, sorted; never values."""

    async def owners(self) -> Sequence[str]:
        """Whose secrets there are, as far as the store can tell; for the leak scan."""
        return ()

    async def set(self, owner: str, name: str, value: str) -> None:
        raise PermissionError(f"{type(self).__name__} is read-only")

    async def delete(self, owner: str, name: str) -> bool:
        """Remove a secret; False when it was not there."""
        raise PermissionError(f"{type(self).__name__} is read-only")
