"""A notification of the desktop, where this machine has one."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hardpoint import ExternalService, JobContext
from hardpoint.interfaces import Channel, Delivery, Message

if TYPE_CHECKING:
    from hardpoint_builtin.channels.config import ChannelConfig

TITLE: Final = "Hardpoint"
TIMEOUT: Final = 10.0
MAX_TEXT: Final = 1000
_MAC: Final = 'on run argv\ndisplay notification (item 1 of argv) with title "Hardpoint"\nend run'


class DesktopChannel(Channel):
    """`notify-send` on Linux, `osascript` on macOS. The text is an argument, never a command."""

    def __init__(self, name: str, config: ChannelConfig | None = None) -> None:
        self._name = name

    async def send(self, message: Message, context: JobContext) -> Delivery:
        command = _command(message.content[:MAX_TEXT])
        if message.attachments:
            raise ExternalService("a desktop notification carries no attachments")
        try:
            async with asyncio.timeout(TIMEOUT):
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                )
                try:
                    _, said = await process.communicate()
                except asyncio.CancelledError:
                    process.kill()
                    await process.wait()
                    raise
        except TimeoutError as error:
            raise ExternalService("the desktop did not take the notification") from error
        if process.returncode != 0:
            why = said.decode("utf-8", "replace").strip()[:200]
            raise ExternalService(f"the desktop refused the notification: {why}")
        return Delivery(self._name, message.target or context.user_id)


def _command(text: str) -> Sequence[str]:
    """What shows a notification here.

    Raises:
        ExternalService: Nothing does.
    """
    text = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if sys.platform == "darwin" and (osascript := shutil.which("osascript")):
        return [osascript, "-e", _MAC, "--", text]
    if notify := shutil.which("notify-send"):
        # Some notification servers read markup.
        shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return [notify, "--app-name", TITLE, "--", TITLE, shown]
    raise ExternalService(
        "this machine shows no desktop notifications",
        hint="install notify-send (Debian: libnotify-bin), or use another channel",
    )
