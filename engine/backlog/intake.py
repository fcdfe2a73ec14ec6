"""Changes that an address makes to each message on arrival, if its settings ask for any."""

from __future__ import annotations

from config.policies import AddressSettings, ExpiryPolicy
from engine.values.message import DEFAULT_PRIORITY, INGRESS, PRIORITY_SHIFT, Message

_ADDRESS_FLAGS = ~(INGRESS | -1 << PRIORITY_SHIFT)


class Intake:
    """expiry: bounds for the expiry that producers set.  rate: messages a second per producer, -1 for no limit.

    is_ordered: JMSPriority counts; else all messages take the lane of the default priority.
    ingress: flag of messages that show their store time, 0 for none.
    """

    __slots__ = ("expiry", "rate", "is_ordered", "ingress")

    def __init__(self, settings: AddressSettings) -> None:
        self.expiry: ExpiryPolicy = settings.expiry
        self.rate = settings.flow.producer_max_rate_per_second
        self.is_ordered = settings.queue.prioritized_messages
        self.ingress = INGRESS if settings.enable_ingress_timestamp else 0

    def stamp(self, message: Message, wall_ms: int) -> None:
        """Give a new message the expiry, lane and flags that its address wants."""
        message.expires_ms = self.expiry.effective_ms(message.expires_ms, wall_ms)
        self.mark(message)

    def mark(self, message: Message) -> None:
        """Do the same without the expiry, for messages that the engine itself moves here."""
        message.flags |= self.ingress
        if not self.is_ordered and message.priority != DEFAULT_PRIORITY:
            message.flags |= message.priority + 1 << PRIORITY_SHIFT
            message.priority = DEFAULT_PRIORITY


def intake_for(settings: AddressSettings) -> Intake | None:
    """Return None if the address changes nothing."""
    if (
        settings.expiry.is_unchanged
        and settings.flow.producer_max_rate_per_second <= 0
        and settings.queue.prioritized_messages
        and not settings.enable_ingress_timestamp
    ):
        return None
    return Intake(settings)


def moved(
    message: Message, destination_id: int, annotations: bytes, expires_ms: int, added: int, dropped: int
) -> Message:
    """Return a message that leaves its address for another one, as it was before its address marked it.

    added, dropped: flags.
    """
    return Message(
        destination_id,
        message.encoding,
        (message.flags & _ADDRESS_FLAGS & ~dropped) | added,
        message.jms_priority(),
        message.tag_hash,
        message.group_hash,
        expires_ms,
        annotations,
        message.headers,
        message.body,
    )
