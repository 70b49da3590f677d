"""The `[plugin.builtin.channels.NAME]` tables."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import attrs

ChannelType = Literal["console", "file", "webhook", "smtp", "desktop"]

# Which settings a channel needs, and which it may have.
_SETTINGS: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    kind: (frozenset(needed.split()), frozenset(possible.split()))
    for kind, needed, possible in (
        ("console", "", ""),
        ("file", "", "path"),
        ("webhook", "url secret", ""),
        ("smtp", "host sender recipients", "port security username secret"),
        ("desktop", "", ""),
    )
}


@attrs.frozen
class ChannelConfig:
    """One way to reach a person."""

    type: ChannelType
    path: Path | None = None
    """`file`: where messages are appended, one JSON object a line; default: in the data folder."""
    url: str | None = None
    """`webhook`: where messages are posted."""
    secret: str | None = None
    """`webhook`: the key of the signature; `smtp`: the password. `system:NAME` of a store."""
    host: str | None = None
    port: int | None = None
    """`smtp`: default 587 with `starttls`, 465 with `tls`, 25 with `none`."""
    security: Literal["starttls", "tls", "none"] | None = None
    """`smtp`: default `starttls`."""
    username: str | None = None
    sender: str | None = None
    recipients: tuple[str, ...] = ()
    """`smtp`: who may be written to; the first one when a message names nobody."""

    def __attrs_post_init__(self) -> None:
        needed, possible = _SETTINGS[self.type]
        given = {
            field.name
            for field in attrs.fields(ChannelConfig)
            if field.name != "type" and getattr(self, field.name) not in (None, ())
        }
        problems = [f"needs {name}" for name in sorted(needed - given)]
        problems += [f"has no {name}" for name in sorted(given - needed - possible)]
        if problems:
            raise ValueError(f"channels: a {self.type} channel {', '.join(problems)}")
        if self.secret is not None and self.type == "smtp" and self.username is None:
            raise ValueError("channels: an smtp channel with a secret needs username")
