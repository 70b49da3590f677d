"""The `[plugin.redis]` table: which server counts, and how long to wait for it."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

import attrs

DEFAULT_URL: Final = "redis://localhost:6379/0"
SCHEMES: Final = ("redis", "rediss", "unix")


def _is_redis_url(_: Any, attribute: attrs.Attribute[Any], value: str) -> None:
    if urlsplit(value).scheme not in SCHEMES:
        raise ValueError(
            f"{attribute.name} is redis://HOST:PORT/DB, rediss:// for TLS, or unix:///PATH"
        )


@attrs.frozen
class RedisConfig:
    """Which server counts."""

    url: str = attrs.field(default=DEFAULT_URL, validator=_is_redis_url, repr=False)
    """With a password in it, better given as the variable HARDPOINT_PLUGIN__REDIS__URL."""
    prefix: str = attrs.field(default="hardpoint:limits", validator=attrs.validators.min_len(1))
    """What the names of all keys begin with; installations that share it share their limits."""
    timeout: float = attrs.field(default=2.0, validator=attrs.validators.gt(0))
    """Seconds to wait for the server; then the call is denied."""
    allow_eviction: bool = False
    """Use a server that may throw counts away when its memory is full, and limits with them."""

    @property
    def place(self) -> str:
        """The server as messages may name it: without user and password."""
        parts = urlsplit(self.url)
        if parts.scheme == "unix":
            return parts.path
        return f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
