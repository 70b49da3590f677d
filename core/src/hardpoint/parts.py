"""What a tool returns: content parts and `ToolOutput`. Cap and cleaning are in `output`."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

import attrs

type_ = type  # `type` is a field name below
Provenance = Literal["trusted", "untrusted", "private"]

# content parts ---------------------------------------------------------------------------------


@attrs.frozen
class Text:
    """Text for the model."""

    text: str


@attrs.frozen
class Image:
    """An image as bytes with its media type, for example `image/png`."""

    data: bytes = attrs.field(repr=lambda data: f"<{len(data)} bytes>")
    media_type: str = "image/png"


@attrs.frozen
class Audio:
    """A sound as bytes with its media type, for example `audio/wav`."""

    data: bytes = attrs.field(repr=lambda data: f"<{len(data)} bytes>")
    media_type: str = "audio/wav"


@attrs.frozen
class Blob:
    """Any other bytes."""

    data: bytes = attrs.field(repr=lambda data: f"<{len(data)} bytes>")
    media_type: str = "application/octet-stream"
    name: str | None = None


@attrs.frozen
class Resource:
    """A document with an address of its own, embedded."""

    uri: str
    text: str | None = None
    data: bytes | None = None
    media_type: str | None = None


@attrs.frozen
class Link:
    """The address of a document that the reader may fetch."""

    uri: str
    name: str | None = None
    description: str | None = None
    media_type: str | None = None


Part = Text | Image | Audio | Blob | Resource | Link

_KINDS: dict[type, str] = {
    Text: "text",
    Image: "image",
    Audio: "audio",
    Blob: "blob",
    Resource: "resource",
    Link: "link",
}


def part_to_json(part: Part) -> dict[str, Any]:
    """The part as JSON: its `type`, its fields without the absent ones, bytes in base64."""
    fields: dict[str, Any] = {"type": _KINDS[type_(part)]}
    for field in attrs.fields(type_(part)):
        value = getattr(part, field.name)
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode("ascii")
        if value is not None:
            fields[field.name] = value
    return fields


# output ----------------------------------------------------------------------------------------


def _tuple(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(parts)


def _duration(value: timedelta | float) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(seconds=value)


@attrs.frozen
class ToolOutput:
    """What a tool gives back."""

    result: Any = None
    """A JSON value; what the model and structured clients read."""
    cost: Decimal | None = None
    """What the call cost, in the currency of the configured budget (US dollars by default)."""
    duration: timedelta = attrs.field(default=timedelta(0), converter=_duration)
    raw: str | None = attrs.field(default=None, repr=False)
    """The output before cleaning, for debugging; it never reaches a model, MCP or the audit."""
    parts: tuple[Part, ...] = attrs.field(default=(), converter=_tuple)
    """Content beside `result`: images, sounds, documents, links."""
    structured: bool = True
    """False when `result` is plain text made for reading and not a value of an output schema."""
    provenance: Provenance | None = None
    """Where the content comes from; None leaves the tool's default."""
    partial: bool = False
    """True when the tool was stopped before it finished."""
    meta: dict[str, Any] = attrs.field(factory=dict)
    """Facts about the run for hosts and clients (MCP `_meta`); never shown to the model."""

    @classmethod
    def success(cls, result: Any, duration: timedelta | float = timedelta(0)) -> ToolOutput:
        """A JSON result."""
        return cls(result=result, duration=duration)

    @classmethod
    def text(cls, text: str, duration: timedelta | float = timedelta(0)) -> ToolOutput:
        """A text result."""
        return cls(result=text, duration=duration, structured=False)

    def with_cost(self, cost: Decimal | str | int) -> ToolOutput:
        """A copy that carries a cost."""
        return attrs.evolve(self, cost=Decimal(cost))

    def with_raw(self, raw: str) -> ToolOutput:
        """A copy that carries the uncleaned output."""
        return attrs.evolve(self, raw=raw)

    def with_parts(self, *parts: Part) -> ToolOutput:
        """A copy with these parts added."""
        return attrs.evolve(self, parts=(*self.parts, *parts))
