"""`message`: reach a person, through channels that the configuration and plugins provide."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from hardpoint import (
    Blob,
    Effect,
    ExternalService,
    HardpointError,
    InvalidParameters,
    JobContext,
    NotAuthorized,
    Tool,
    ToolOutput,
    ToolRateLimitConfig,
)
from hardpoint.errors import Issue
from hardpoint.interfaces import Channel, Delivery, Message

MAX_ATTACHMENTS: Final = 10
MAX_ATTACHMENT: Final = 10_000_000
MAX_TOGETHER: Final = 20_000_000
SEND_TIMEOUT: Final = 60.0
_PAGE: Final = 1_000_000


class MessageTool(Tool):
    """Send text, and kept results as attachments."""

    name = "message"
    description = (
        "Send a message to a person. Without a channel it goes where this conversation's messages "
        "go, or else to all channels. Attachments are references from save_to or result_ref, or "
        "paths of memory documents."
    )
    provenance = "trusted"

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "content": {"type": "string", "description": "The text"},
                "channel": {"type": "string", "description": "Name of the channel"},
                "target": {"type": "string", "description": "Whom the channel should reach"},
                "attachments": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": MAX_ATTACHMENTS,
                    "description": "Result references (r_…), or paths of memory documents",
                },
            },
            "required": ["content"],
            "additionalProperties": False,
        }

    def rate_limit_config(self) -> ToolRateLimitConfig:
        return ToolRateLimitConfig(10, 100)

    def execution_timeout(self) -> timedelta:
        return timedelta(seconds=SEND_TIMEOUT + 30)

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("send", "network"))

    def requires_sanitization(self) -> bool:
        return False

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        if not params["content"].strip():
            raise _wrong("content", "some text", "the message is empty")
        channels = ctx.services.extensions("channel")
        named = params.get("channel") or _usual_channel(ctx, channels)
        attachments = await _attachments(params.get("attachments", ()), ctx)
        if named is not None:
            if named not in channels:
                known = ", ".join(sorted(channels)) or "none"
                raise _wrong("channel", known, f"there is no channel {named!r}; there are: {known}")
            target = params.get("target") or _usual_target(ctx, named)
            message = Message(params["content"], target, attachments)
            delivery = await _send(channels[named], message, ctx)
            return ToolOutput.text(
                f"Sent message to {named}:{delivery.target or target or ctx.user_id}"
            )
        message = Message(params["content"], params.get("target"), attachments)
        return ToolOutput.text(await _broadcast(channels, message, ctx))


def _usual_channel(ctx: JobContext, channels: Mapping[str, Channel]) -> str | None:
    """Where messages of this conversation go, as far as that is said and exists."""
    for key in ("channel", "notify_channel"):
        name = ctx.metadata.get(key)
        if isinstance(name, str) and name in channels:
            return name
    return None


def _usual_target(ctx: JobContext, channel: str) -> str | None:
    """Whom; an address of one channel means nothing to another."""
    pairs = (("channel", "target"), ("notify_channel", "notify_user"))
    for channel_key, target_key in pairs:
        target = ctx.metadata.get(target_key)
        if isinstance(target, str) and ctx.metadata.get(channel_key) == channel:
            return target
    return None


async def _send(channel: Channel, message: Message, ctx: JobContext) -> Delivery:
    """Deliver, or say why not: a channel that gives no proof has not delivered.

    Raises:
        ToolError: It did not arrive.
    """
    try:
        async with asyncio.timeout(SEND_TIMEOUT):
            delivery = await channel.send(message, ctx)
    except HardpointError:
        raise
    except TimeoutError as error:
        raise ExternalService("the channel did not take the message in time") from error
    except Exception as error:  # a channel is foreign code
        raise ExternalService(f"the channel failed: {type(error).__name__}: {error}") from error
    if not isinstance(delivery, Delivery):
        raise ExternalService("the channel did not confirm the message; count it as not sent")
    return delivery


async def _broadcast(channels: Mapping[str, Channel], message: Message, ctx: JobContext) -> str:
    if not channels:
        raise ExternalService(
            "there is no channel to send through",
            hint='configure one: [plugin.builtin.channels.NAME] type = "file"',
        )
    names = sorted(channels)
    results = await asyncio.gather(
        *(_send(channels[name], message, ctx) for name in names), return_exceptions=True
    )
    sent = [name for name, r in zip(names, results, strict=True) if isinstance(r, Delivery)]
    failed = [
        f"{name} ({result.message if isinstance(result, HardpointError) else result})"
        for name, result in zip(names, results, strict=True)
        if isinstance(result, BaseException)
    ]
    if not sent:
        raise ExternalService(f"the message was not sent: {'; '.join(failed)}")
    text = f"Broadcast message to {', '.join(sent)}"
    return f"{text}; NOT sent to {'; '.join(failed)}" if failed else text


# attachments -----------------------------------------------------------------------------------


async def _attachments(references: Sequence[str], ctx: JobContext) -> list[Blob]:
    """Read every attachment, or refuse the message: none is dropped.

    Raises:
        InvalidParameters: One does not exist or is too long.
        NotAuthorized: One holds what looks like a secret.
    """
    blobs: list[Blob] = []
    for place, reference in enumerate(references):
        blob = await _attachment(reference, place, ctx)
        found = {f.kind for f in ctx.services.leaks.scan(blob.data) if f.action == "block"}
        if found:
            kinds = ", ".join(sorted(found))
            raise NotAuthorized(
                f"attachment {reference!r} holds what looks like a secret ({kinds})",
                hint="nothing was sent; leave the secret out",
            )
        blobs.append(blob)
    together = sum(len(blob.data) for blob in blobs)
    if together > MAX_TOGETHER:
        raise _wrong(
            "attachments",
            f"{MAX_TOGETHER} bytes together",
            f"the attachments have {together} bytes; send them one by one",
        )
    return blobs


async def _attachment(reference: str, place: int, ctx: JobContext) -> Blob:
    where = f"attachments/{place}"
    if reference.startswith("r_"):
        return await _kept_result(reference, where, ctx)
    workspace = ctx.services.workspace
    text = None if workspace is None else await workspace.read(ctx.user_id, reference)
    if text is None:
        raise _wrong(
            where,
            "a result reference or a memory path",
            f"there is nothing to attach under {reference!r}; files of the workspace are sent by"
            " first keeping them: memory_write, or a tool that gives a result_ref",
        )
    return _blob(reference.rpartition("/")[2], text.encode("utf-8", "replace"), where)


async def _kept_result(reference: str, where: str, ctx: JobContext) -> Blob:
    pieces: list[bytes] = []
    offset: int | None = 0
    name = None
    while offset is not None:
        page = await ctx.services.results.read(reference, offset, _PAGE, user=ctx.user_id)
        if page["size"] > MAX_ATTACHMENT:
            raise _too_long(reference, page["size"], where)
        name = page.get("name")
        pieces.append(
            base64.b64decode(page["base64"])
            if "base64" in page
            else page["text"].encode("utf-8", "surrogatepass")
        )
        offset = page["next_offset"]
    return _blob(name or f"{reference}.txt", b"".join(pieces), where)


def _blob(name: str, data: bytes, where: str) -> Blob:
    if len(data) > MAX_ATTACHMENT:
        raise _too_long(name, len(data), where)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Blob(data, kind, name.replace("/", "_"))


def _too_long(name: str, size: int, where: str) -> InvalidParameters:
    return _wrong(
        where,
        f"{MAX_ATTACHMENT} bytes at most",
        f"{name!r} has {size} bytes; {MAX_ATTACHMENT} is the most",
    )


def _wrong(parameter: str, expected: str, message: str) -> InvalidParameters:
    issue = Issue(f"/{parameter}", "invalid_value", expected, "something else")
    return InvalidParameters(message, issues=[issue])
