"""One STOMP subscription: the octets before each of its messages, and its unsettled deliveries by name."""

from __future__ import annotations

from engine.consumers.consumer import AUTO, Consumer
from engine.sources.registry import Destinations
from engine.values.delivery import Delivery
from engine.values.options import SubscribeOptions
from protocols.stomp.codec import frames
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.escapes import escape
from protocols.stomp.codec.versions import VERSION_1_2
from protocols.stomp.mapping.destination_header import header_for


class Subscription:
    """prefix: the octets of MESSAGE up to the headers that differ from message to message.

    first_prefix: the same for a first delivery.
    is_mixed: its messages have several destinations; the prefixes are those of the latest, ``shown_id``.
    form: of MapMessages for it, "" for no change.
    is_plain: its messages are sent unchanged; otherwise each is examined first.
    unsettled: deliveries by the name that ACK uses.  In 1.2 that is the ``ack`` header, unique on the connection,
    and all subscriptions share one table; before 1.2 it is the message-id, unique in the subscription.
    """

    __slots__ = (
        "key",
        "id_header",
        "destination",
        "options",
        "version",
        "prefix",
        "first_prefix",
        "is_mixed",
        "form",
        "is_plain",
        "shown_id",
        "unsettled",
        "is_automatic",
    )

    def __init__(
        self,
        consumer: Consumer,
        id_header: str | None,
        destination: str,
        is_mixed: bool,
        options: SubscribeOptions,
        version: int,
        unsettled: dict[bytes, Delivery],
        form: str = "",
    ) -> None:
        self.key = options.name
        self.id_header = id_header
        self.destination = destination
        self.options = options
        self.version = version
        self.is_automatic = consumer.ack_mode == AUTO
        self.is_mixed = is_mixed
        self.form = form
        self.is_plain = not is_mixed and not form
        self.shown_id = 0
        self.prefix = b""
        self.first_prefix = b""
        self._show(destination)
        self.unsettled = unsettled if version == VERSION_1_2 else {}

    def turn_to(self, destination_id: int, destinations: Destinations, aliases: dict[str, str]) -> None:
        """Make the prefixes for the next message's destination.  aliases: ``Naming.aliases``."""
        if destination_id == self.shown_id:
            return
        self.shown_id = destination_id
        found = destinations.by_id.get(destination_id)
        if found is not None:  # if it has ended meanwhile: the destination of the SUBSCRIBE
            name = header_for(found.kind, found.name)
            self._show(aliases.get(name, name))
        else:
            self._show(self.destination)

    def end_of_browsing(self) -> bytes:
        """Return the MESSAGE that ends a browser."""
        headers = [] if self.id_header is None else [("subscription", self.id_header)]
        headers += [("browser", "end"), ("destination", self.destination), ("message-id", "0")]
        return encode(frames.MESSAGE, headers, b"", self.version)

    def _show(self, destination: str) -> None:
        id_header = self.id_header
        subscription = b"" if id_header is None else b"subscription:%b\n" % escape(id_header, self.version)
        self.prefix = b"MESSAGE\n%bdestination:%b\n" % (subscription, escape(destination, self.version))
        self.first_prefix = self.prefix + b"JMSXDeliveryCount:1\n"
