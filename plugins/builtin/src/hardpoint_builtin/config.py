"""The `[plugin.builtin]` table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from hardpoint.errors import ConfigError
from hardpoint.net import Binding


@attrs.frozen
class Credential:
    """A stored secret that `http` puts into matching requests; no model sees it."""

    secret: str
    """Its name in a secret store."""
    hosts: tuple[str, ...]
    """`api.example.com`, `*.example.com` for every name below it, `:port` for another port."""
    methods: tuple[str, ...] = ()
    """Empty: any method."""
    paths: tuple[str, ...] = ()
    """Path prefixes that end at a segment; empty: any path."""
    location: Mapping[str, str] = attrs.field(factory=lambda: {"type": "bearer"})
    """`{ type = "bearer" }`, `{ type = "basic", username }`, `{ type = "header", name, prefix }`,
    `{ type = "query", name }` or `{ type = "url_path", placeholder }`."""

    def __attrs_post_init__(self) -> None:
        try:
            self.binding()
        except ConfigError as error:
            raise ValueError(str(error)) from error

    def binding(self) -> Binding:
        fields: dict[str, Any] = attrs.asdict(self)
        return Binding.from_json(fields)


@attrs.frozen
class BuiltinConfig:
    """What the operator can say about the first tools."""

    credentials: tuple[Credential, ...] = ()

    def bindings(self) -> list[Binding]:
        return [credential.binding() for credential in self.credentials]
