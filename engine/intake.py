"""What is done to each message as it comes to an address, where its settings ask for more than taking it."""

from __future__ import annotations

from config.policies import AddressSettings, ExpiryPolicy
from engine.message import Message


class Intake:
    """expiry: when messages expire, beyond what producers say.  rate: messages a second of a producer, -1: any."""

    __slots__ = ("expiry", "rate")

    def __init__(self, expiry: ExpiryPolicy, rate: int) -> None:
        self.expiry = expiry
        self.rate = rate

    def stamp(self, message: Message, wall_ms: int) -> None:
        """Give a message that has not been taken yet the expiry that its address wants."""
        message.expires_ms = self.expiry.effective_ms(message.expires_ms, wall_ms)


def intake_for(settings: AddressSettings) -> Intake | None:
    """Return None where messages are taken as they are."""
    rate = settings.flow.producer_max_rate_per_second
    if settings.expiry.is_unchanged and rate <= 0:
        return None
    return Intake(settings.expiry, rate)
