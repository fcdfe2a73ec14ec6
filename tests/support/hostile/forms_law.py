"""The law of forms: receivers of every protocol can be given whatever a client has sent, without the last resort."""

from __future__ import annotations

from typing import Final

from engine.sources.queue import Queue
from engine.values.delivery import Delivery
from engine.values.destination import QUEUE
from engine.values.errors import DATA_FAULTS
from engine.values.message import STOMP
from gateway.settings.conversions import CONVERTERS
from protocols.amqp.v1_0.mapping.outgoing_message import outgoing_sections
from protocols.map_message import FORMS
from protocols.openwire.mapping.destinations import wire_destination
from protocols.openwire.mapping.outgoing_message import outgoing_form
from protocols.openwire.mapping.stored_form import message_parts as openwire_parts
from protocols.openwire.wire.writer import encode_nested
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_2
from protocols.stomp.mapping.message_octets import message_parts
from protocols.stomp.mapping.transformations import transformed
from tests.support.engine.broker_view import BrokerView
from tests.support.world.bodies import Violation

BODY_MOST_BYTES: Final = 50_000  # larger ones take long
VERSIONS: Final = (VERSION_1_0, VERSION_1_2)


class FormsLaw:
    """Knows the messages that it has seen, by their octets."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, bytes, bytes, bytes]] = set()

    def check(self, gateway: BrokerView) -> None:
        """Look at what is in memory for queues and subscriptions.  Raises: Violation."""
        for queue in gateway.all_queues():
            found = [one for lane in queue.used_lanes for one in (*lane.ready, *lane.returned)]
            found += [one for consumer in queue.consumers.values() for one in consumer.ledger.values()]
            for delivery in found:
                message = delivery.message
                key = message.encoding, message.annotations, message.headers, message.body
                if not message.is_hollow() and len(message.body) <= BODY_MOST_BYTES and key not in self._seen:
                    self._seen.add(key)
                    _look(gateway, queue, delivery)


def _look(gateway: BrokerView, queue: Queue, delivery: Delivery) -> None:
    message = delivery.message
    context = gateway.broker.context
    destination = wire_destination(QUEUE, "q")
    made = "headers and body of STOMP"
    try:
        form = message if message.encoding == STOMP else CONVERTERS.stomp_form(message)[0]
        made = "a MESSAGE"
        for version in VERSIONS:
            message_parts(form, version, b"id-", b"serial-")
        made = "a map for STOMP"
        for name in FORMS:
            transformed(form, message, name, CONVERTERS)
        made = "sections of AMQP"
        outgoing_sections(delivery, queue, context, form)
        made = "a dispatch of OpenWire"
        headers, body = outgoing_form(message, form, CONVERTERS, destination, "store", context.message_id(message))
        openwire_parts(headers, body, 1, encode_nested(destination))
    except DATA_FAULTS as error:
        octets = f"{message.annotations!r}, {message.headers!r}, {message.body!r}"
        told = f"{made} cannot be made of a message of encoding {message.encoding}: {error!r}; {octets}"
        raise Violation(told) from error
