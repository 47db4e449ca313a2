"""A mail server on loopback that keeps what it gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, Final

from aiosmtpd.controller import Controller

from tools.machine import LOOPBACK, free_port

#: Each address of this domain is refused the first time, as a greylisting server does.
GREYLISTED: Final = "greylisted.example"


@dataclass
class MailCatcher:
    """An SMTP server on loopback that keeps what it gets.

    Attributes:
        port: where it listens.
        messages: what was delivered, in order.
        refused: addresses that were refused, once each.
    """

    port: int
    messages: list[EmailMessage] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        """Accept a recipient, or tell the sender to come back later."""
        if address.endswith(f"@{GREYLISTED}") and address not in self.refused:
            self.refused.append(address)
            return "451 4.7.1 Greylisted, try again later"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Keep a message."""
        self.messages.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 2.0.0 OK"


@contextmanager
def mail_catcher() -> Iterator[MailCatcher]:
    """Run a mail server."""
    catcher = MailCatcher(free_port())
    controller = Controller(catcher, hostname=LOOPBACK, port=catcher.port)
    controller.start()
    try:
        yield catcher
    finally:
        controller.stop()
