"""Send a message as mail. Only to the recipients that the operator named."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import TYPE_CHECKING, Any, Final

from hardpoint import ExternalService, InvalidParameters, JobContext
from hardpoint.errors import Issue
from hardpoint.interfaces import Channel, Delivery, Message

if TYPE_CHECKING:
    from hardpoint_builtin.channels.config import ChannelConfig

TIMEOUT: Final = 30.0
MAX_SUBJECT: Final = 100
_PORTS: Final = {"starttls": 587, "tls": 465, "none": 25}


class SmtpChannel(Channel):
    """A mail server that takes the message from us; what it does with it then is not known here."""

    def __init__(self, name: str, config: ChannelConfig) -> None:
        self._name = name
        self._config = config
        self._services: Any = None
        self.tls: ssl.SSLContext | None = None
        """Who is trusted; None: the authorities of the system."""

    async def start(self, services: Any) -> None:
        self._services = services

    async def send(self, message: Message, context: JobContext) -> Delivery:
        recipient = self._recipient(message.target, context)
        mail = self._mail(message, recipient)
        password = None
        if self._config.secret is not None:
            secrets = self._services.secrets
            password = await secrets.reveal(self._config.secret, None, "login at a mail server")
        try:
            await asyncio.to_thread(self._deliver, mail, recipient, password)
        except (smtplib.SMTPException, OSError) as error:
            raise ExternalService(
                f"the mail server did not take the message: {_told(error)}"
            ) from error
        return Delivery(self._name, recipient)

    def _recipient(self, target: str | None, context: JobContext) -> str:
        allowed = self._config.recipients
        if target is None or target == context.user_id:
            return allowed[0]
        for address in allowed:
            if address.casefold() == target.strip().casefold():
                return address
        issue = Issue("/target", "invalid_value", f"one of {', '.join(allowed)}", repr(target))
        raise InvalidParameters(
            f"{self._name!r} may not write to {target!r}; it may to {', '.join(allowed)}",
            issues=[issue],
        )

    def _mail(self, message: Message, recipient: str) -> EmailMessage:
        from datetime import UTC, datetime

        mail = EmailMessage()
        first = next(iter(message.content.strip().splitlines()), "")
        mail["Subject"] = first[:MAX_SUBJECT] or "Message"
        mail["From"] = self._config.sender
        mail["To"] = recipient
        mail["Date"] = format_datetime(datetime.fromtimestamp(self._services.clock.now(), UTC))
        mail["Message-ID"] = make_msgid(domain="hardpoint.invalid")
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.content.replace("\0", "\ufffd"))
        for blob in message.attachments:
            kind, _, rest = blob.media_type.partition("/")
            mail.add_attachment(
                blob.data,
                maintype=kind or "application",
                subtype=rest or "octet-stream",
                filename=blob.name or "attachment",
            )
        return mail

    def _deliver(self, mail: EmailMessage, recipient: str, password: str | None) -> None:
        security = self._config.security or "starttls"
        host, port = self._config.host or "", self._config.port or _PORTS[security]
        context = self.tls or ssl.create_default_context()
        server: smtplib.SMTP
        if security == "tls":
            server = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT, context=context)
        else:
            server = smtplib.SMTP(host, port, timeout=TIMEOUT)
        with server:
            if security == "starttls":
                server.starttls(context=context)
            if password is not None:
                server.login(self._config.username or "", password)
            refused = server.send_message(mail, to_addrs=[recipient])
        if refused:
            raise smtplib.SMTPRecipientsRefused(refused)


def _told(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code, said = next(iter(error.recipients.values()))
        return f"{code} {_text(said)}"
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{error.smtp_code} {_text(error.smtp_error)}"
    return str(error) or type(error).__name__


def _text(said: Any) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
