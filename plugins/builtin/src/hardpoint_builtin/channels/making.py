"""The channels that the `[plugin.builtin.channels.NAME]` tables describe."""

from __future__ import annotations

from typing import Any

from hardpoint.interfaces import Channel
from hardpoint_builtin.channels.config import ChannelConfig


def make_channel(name: str, config: ChannelConfig) -> Channel:
    """The channel of one table."""
    made: Any
    match config.type:
        case "console":
            from hardpoint_builtin.channels.local import ConsoleChannel as made
        case "file":
            from hardpoint_builtin.channels.local import FileChannel as made
        case "desktop":
            from hardpoint_builtin.channels.desktop import DesktopChannel as made
        case "webhook":
            from hardpoint_builtin.channels.webhook import WebhookChannel as made
        case "smtp":
            from hardpoint_builtin.channels.smtp import SmtpChannel as made
    channel: Channel = made(name, config)
    return channel
