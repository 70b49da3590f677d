"""The lock file: what the whole surface was when a person looked at it, without any address.

Distributions by the hashes of their files, tools by what models are told, modules, images and
servers by their digests, with what they are allowed. `survey` says what there is now, `compare`
what differs, `guard` keeps what differs from being called.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from hardpoint.errors import ConfigError

FILE_NAME: Final = "hardpoint.lock"
MAX_BYTES: Final = 64 * 1024 * 1024


@attrs.frozen
class LockedDistribution:
    """An installed distribution that brings tools."""

    version: str
    record: str = ""
    """SHA-256 over the paths and hashes of its files; empty for an editable one."""
    editable: bool = False
    """Its files may change at any time, so only its version is compared."""


@attrs.frozen
class LockedTool:
    """What models are told about a tool, and whose it is."""

    owner: str
    definition: str
    """`ToolDefinition.hash`."""
    description: str
    """Hashes of two parts, so that a difference can say what changed."""
    parameters: str


@attrs.frozen
class LockedThing:
    """A module, an image, a server or a server's tool."""

    digest: str
    granted: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """The tools that are not used while it differs."""


@attrs.frozen
class Surface:
    """Everything that can be called, and what it is made of."""

    distributions: Mapping[str, LockedDistribution] = attrs.field(factory=dict)
    tools: Mapping[str, LockedTool] = attrs.field(factory=dict)
    things: Mapping[str, Mapping[str, LockedThing]] = attrs.field(factory=dict)
    """By kind and name: `wasm`, `image`, `mcp_tool` …"""


def read_lock(path: Path) -> Surface:
    """Read a lock file.

    Raises:
        ConfigError: There is none, or it is damaged.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"the lock file {path} cannot be read: {error.strerror}", hint="run `hardpoint lock`"
        ) from error
    try:
        if len(content) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the lock file {path} is damaged: {error}") from error
    checked = _check()(document, path.name)
    return Surface(
        {name: LockedDistribution(**each) for name, each in checked["distributions"].items()},
        {name: LockedTool(**each) for name, each in checked["tools"].items()},
        {
            kind: {name: _thing(each) for name, each in things.items()}
            for kind, things in checked["things"].items()
        },
    )


def write_lock(path: Path, surface: Surface) -> None:
    """Write a lock file, whole or not at all, in an order that makes differences short."""
    from hardpoint.config.edit import write_atomically

    document = {"lock_version": 1, **attrs.asdict(surface)}
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text + "\n")


@functools.cache
def _check() -> Callable[[Any, str], Any]:
    from hardpoint.schema import compile_document

    return compile_document(_SCHEMA)


def _thing(fields: Mapping[str, Any]) -> LockedThing:
    return LockedThing(fields["digest"], tuple(fields["granted"]), tuple(fields["tools"]))


_HASH: Final = {"type": "string", "pattern": r"^([0-9a-f]{64})?\Z"}
_NAMES: Final = {"type": "array", "items": {"type": "string"}, "default": []}


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _table(of: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": of}


_SCHEMA: Final = _object(
    ("lock_version", "distributions", "tools", "things"),
    lock_version={"const": 1},
    distributions=_table(
        _object(
            ("version", "record"),
            version={"type": "string"},
            record=_HASH,
            editable={"type": "boolean", "default": False},
        )
    ),
    tools=_table(
        _object(
            ("owner", "definition", "description", "parameters"),
            owner={"type": "string"},
            definition=_HASH,
            description=_HASH,
            parameters=_HASH,
        )
    ),
    things=_table(
        _table(_object(("digest",), digest={"type": "string"}, granted=_NAMES, tools=_NAMES))
    ),
)
