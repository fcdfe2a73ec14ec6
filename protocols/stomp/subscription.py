"""One STOMP subscription: what stands before each of its messages, and the names of what it has not settled."""

from __future__ import annotations

from engine.consumer import AUTO, Consumer
from engine.delivery import Delivery
from protocols.stomp.escapes import escape
from protocols.stomp.versions import VERSION_1_2


class Subscription:
    """prefix: the octets of MESSAGE up to the headers that differ from message to message.

    first_prefix: the same of a message that is delivered for the first time.

    unsettled: deliveries by the name that ACK uses.  In 1.2 that is the ``ack`` header, unique on the connection,
    and all subscriptions share one table; before, it is the message-id, unique in the subscription.
    """

    __slots__ = ("consumer", "key", "prefix", "first_prefix", "unsettled", "is_automatic")

    def __init__(
        self,
        consumer: Consumer,
        key: str,
        id_header: str | None,
        destination: str,
        version: int,
        unsettled: dict[bytes, Delivery],
    ) -> None:
        self.consumer = consumer
        self.key = key
        self.is_automatic = consumer.ack_mode == AUTO
        subscription = b"" if id_header is None else b"subscription:%b\n" % escape(id_header, version)
        self.prefix = b"MESSAGE\n%bdestination:%b\n" % (subscription, escape(destination, version))
        self.first_prefix = self.prefix + b"JMSXDeliveryCount:1\n"
        self.unsettled = unsettled if version == VERSION_1_2 else {}
