"""Post a message to a URL, signed, so that the receiver knows who sent it and when."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from typing import TYPE_CHECKING, Any, Final

from hardpoint import ExternalService, JobContext
from hardpoint.interfaces import Channel, Delivery, Message
from hardpoint_builtin.channels.local import attachment_json

if TYPE_CHECKING:
    from hardpoint_builtin.channels.config import ChannelConfig

TIMEOUT: Final = 30.0


class WebhookChannel(Channel):
    """`POST` of JSON through the guarded client; anything but a 2xx answer is a failure.

    `X-Hardpoint-Signature` is `sha256=` and the HMAC of `TIMESTAMP.BODY` in hex, with the timestamp
    of `X-Hardpoint-Timestamp`. `id` stays the same should a message ever arrive twice.
    """

    def __init__(self, name: str, config: ChannelConfig) -> None:
        assert config.url is not None
        assert config.secret is not None
        self._name = name
        self._url = config.url
        self._secret = config.secret
        self._services: Any = None

    async def start(self, services: Any) -> None:
        self._services = services

    async def send(self, message: Message, context: JobContext) -> Delivery:
        services = self._services
        target = message.target or context.user_id
        body = json.dumps(
            {
                "id": str(uuid.uuid4()),
                "channel": self._name,
                "target": target,
                "content": message.content,
                "attachments": [attachment_json(blob) for blob in message.attachments],
            }
        ).encode()
        key = await services.secrets.reveal(self._secret, None, "signature of a webhook")
        at = str(int(services.clock.now()))
        async with services.http() as client:
            response = await client.request(
                "POST",
                self._url,
                headers=[
                    ("Content-Type", "application/json"),
                    ("X-Hardpoint-Timestamp", at),
                    ("X-Hardpoint-Signature", sign(key, at, body)),
                ],
                body=body,
                timeout=TIMEOUT,
                max_bytes=10_000,
            )
        if not 200 <= response.status < 300:
            raise ExternalService(f"the webhook answered {response.status}: {response.text[:200]}")
        return Delivery(self._name, target, detail=f"status {response.status}")


def sign(key: str, timestamp: str, body: bytes) -> str:
    """The signature of one message, for senders and receivers."""
    signed = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()
