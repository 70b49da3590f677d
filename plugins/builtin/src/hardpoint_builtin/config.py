"""The `[plugin.builtin]` table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from hardpoint.errors import ConfigError
from hardpoint.net import Binding
from hardpoint_builtin.channels.config import ChannelConfig


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
class EmbeddingsConfig:
    """The model that lets memory find by meaning."""

    provider: str | None = None
    """`local`, `endpoint`, another plugin's, or `none`; absent: the only one that is registered."""
    url: str | None = None
    """Of an OpenAI-compatible endpoint, to its end: `https://api.example.com/v1/embeddings`."""
    model: str | None = None
    dimension: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    """Sent along, for models that can shorten their vectors."""
    secret: str | None = None
    """The key's name in a secret store, `system:NAME`."""

    def __attrs_post_init__(self) -> None:
        if self.provider == "endpoint" and not (self.url and self.model):
            raise ValueError('embeddings: provider = "endpoint" needs url and model')


@attrs.frozen
class CatalogueSource:
    """Where `tool_search` and `tool_install` look for extensions."""

    location: str
    """An https address, or a path."""
    sha256: str | None = None
    """The hash that the catalogue itself must have."""

    def __attrs_post_init__(self) -> None:
        if "://" in self.location and not self.is_remote:
            raise ValueError(
                f"catalogues: {self.location!r} is neither a path nor an https address"
            )
        if self.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"catalogues: {self.sha256!r} is not a SHA-256 in lower-case hex")

    @property
    def is_remote(self) -> bool:
        return self.location.startswith("https://")


@attrs.frozen
class BuiltinConfig:
    """What the operator can say about the first tools."""

    credentials: tuple[Credential, ...] = ()
    embeddings: EmbeddingsConfig = EmbeddingsConfig()
    channels: Mapping[str, ChannelConfig] = attrs.field(factory=dict)
    """Ways to reach people, by name; none: the console of the process."""
    catalogues: tuple[str | CatalogueSource, ...] = attrs.field(default=())
    """Indexes of what can be installed: addresses and paths, or tables that also pin a hash."""

    @catalogues.validator
    def _check_catalogues(self, _: Any, value: tuple[str | CatalogueSource, ...]) -> None:
        for each in value:
            if isinstance(each, str):
                CatalogueSource(each)

    def bindings(self) -> list[Binding]:
        return [credential.binding() for credential in self.credentials]
