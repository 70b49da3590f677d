"""Channels on this machine: the console of the process, and a file of messages."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpoint import ExternalService, JobContext, folder
from hardpoint.interfaces import Channel, Delivery, Message

if TYPE_CHECKING:
    from hardpoint_builtin.channels.config import ChannelConfig


class ConsoleChannel(Channel):
    """Standard error of the process; standard output may carry a protocol."""

    def __init__(self, name: str, config: ChannelConfig | None = None) -> None:
        self._name = name

    async def send(self, message: Message, context: JobContext) -> Delivery:
        target = message.target or context.user_id
        files = "".join(f"\n  [{_visible(blob.name or '')}]" for blob in message.attachments)
        text = f"[message to {_visible(target)}] {_visible(message.content)}{files}\n"
        try:
            print(text, end="", file=sys.stderr, flush=True)
        except (OSError, ValueError) as error:  # closed
            raise ExternalService(f"the console cannot be written to: {error}") from error
        return Delivery(self._name, target)


def _visible(text: str) -> str:
    """Text that cannot move the cursor or hide itself."""
    return "".join(
        char if char in "\n\t" or unicodedata.category(char)[0] != "C" else ascii(char)[1:-1]
        for char in text
    )


class FileChannel(Channel):
    """One JSON object a line, appended and on disk before the message counts as sent."""

    def __init__(self, name: str, config: ChannelConfig) -> None:
        self._name = name
        self._path = config.path

    async def send(self, message: Message, context: JobContext) -> Delivery:
        target = message.target or context.user_id
        line = {
            "at": time.time(),
            "user": context.user_id,
            "target": target,
            "content": message.content,
            "attachments": [attachment_json(blob) for blob in message.attachments],
        }
        path = self._path or folder("data") / "messages" / f"{self._name}.jsonl"
        try:
            await asyncio.to_thread(_append, path, json.dumps(line) + "\n")
        except OSError as error:
            raise ExternalService(f"{path.name} cannot be written: {error.strerror}") from error
        return Delivery(self._name, target)


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        data = line.encode()
        if os.write(descriptor, data) != len(data):
            raise OSError(28, "only a part fitted on the disk")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def attachment_json(blob: Any) -> dict[str, Any]:
    """An attachment as JSON."""
    return {
        "name": blob.name,
        "media_type": blob.media_type,
        "size": len(blob.data),
        "base64": base64.b64encode(blob.data).decode("ascii"),
    }
