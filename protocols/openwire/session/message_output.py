"""Deliveries to an OpenWire connection, written as MessageDispatch.

size(4)  MessageDispatch(1) commandId(4) responseRequired(1)  consumerId  destination  1  message  redeliveryCounter(4)
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from engine.api import EngineApi
from engine.consumers.consumer import Consumer
from engine.values.delivery import Delivery
from engine.values.errors import DATA_FAULTS
from engine.values.message import OPENWIRE, STOMP, Message
from protocols.converter import items_in
from protocols.openwire.connection.inactivity import Inactivity
from protocols.openwire.connection.negotiation import Terms
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.connection.states import TRANSITIONS
from protocols.openwire.mapping.openwire_form import raw_form
from protocols.openwire.mapping.outgoing_message import outgoing_form
from protocols.openwire.mapping.stored_form import SAME_FORM_SINCE, message_parts, temporary_reply_to
from protocols.openwire.session.hand_overs import HandOvers
from protocols.openwire.session.open_consumer import NO_PULL, Head, OpenConsumer
from protocols.openwire.session.send_message import BlockedMessage
from protocols.openwire.wire.identities import ConsumerId
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.reader import decode
from protocols.openwire.wire.writer import encode
from protocols.outbox import DELIVERY_OVERHEAD_BYTES
from protocols.peer_socket import PeerSocket
from protocols.session.client_session import ClientSession
from protocols.session.frame_source import FrameSource
from protocols.session.states import NEGOTIATING

# Steps of a turn for a message that is converted.
FORM_STEPS: Final = 40
ITEM_STEPS: Final = 3  # for an item of a map or list that is read and written
READ_TIMES: Final = 2  # a map of AMQP is read once more for its types
_COUNTER_MOST: Final = 2**31 - 1


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageOutput(ClientSession[BlockedMessage]):
    """terms: of the connection.  store_id: in the ids of messages of other protocols.

    watching: consumers of advisories about temporary destinations, with the names of the topics.
    """

    __slots__ = ("settings", "terms", "store_id", "hand_overs", "watching")

    def __init__(
        self, engine: EngineApi, socket: PeerSocket, settings: OpenWireSettings, source: FrameSource, now_ms: int
    ) -> None:
        terms = Terms()
        times = Inactivity(settings, terms, now_ms)
        super().__init__(engine, socket, settings.session_limits, TRANSITIONS, NEGOTIATING, times, source)
        self.settings = settings
        self.terms = terms
        self.store_id = engine.store.store_id()
        self.hand_overs = HandOvers(engine.store.start_count())
        self.watching: dict[ConsumerId, str] = {}

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        try:
            counter = delivery.failed_attempts
            if delivery.is_redelivered and not counter:
                counter = 1  # it makes JMSRedelivered
            self._dispatch(consumer, delivery.message, delivery.tag, counter)
        except DATA_FAULTS as error:
            if not self.socket.take_fault(error):
                raise

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        try:
            self._dispatch(consumer, message, 0, delivery_count - 1)
        except DATA_FAULTS as error:
            if not self.socket.take_fault(error):
                raise

    def browse_ended(self, consumer: Consumer) -> None:
        try:
            self.outbox.parts.append(_open_consumer(consumer).nothing())
            self.outbox.touch()
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    # -- the steps

    def _dispatch(self, consumer: Consumer, message: Message, sequence: int, counter: int) -> None:
        found = _open_consumer(consumer)
        found.pull_ms = NO_PULL
        head = found.head(message.destination_id, self.engine.destinations)
        headers, body = self._form(message, head)
        if self.watching:
            reply_to = temporary_reply_to(headers)
            if reply_to is not None:
                self.settings.peers.tell(reply_to, self.client_number, self.engine.steps)
        before, after = message_parts(headers, body, self.hand_overs.base + sequence, head.field)
        if message.group_hash and consumer.seat is not None and consumer.seat.begins_group:
            after = after[:-1] + b"\1"  # JMSXGroupFirstForConsumer
        size = len(head.octets) + len(before) + len(body) + len(after) + 4
        tail = min(counter, _COUNTER_MOST).to_bytes(4, "big")
        outbox = self.outbox
        if self.terms.version < SAME_FORM_SINCE:
            whole = decode(head.octets + before + body + after + tail, VERSION)
            outbox.parts.append(encode(whole, self.terms.version))
        else:
            outbox.parts.append(size.to_bytes(4, "big") + head.octets + before)
            outbox.parts.append(body)
            outbox.parts.append(after + tail)
        outbox.size_bytes += message.size + DELIVERY_OVERHEAD_BYTES
        if outbox.size_bytes > outbox.limit_bytes:
            self.is_output_full = True
        if not outbox.is_touched:
            outbox.touch()

    def _form(self, message: Message, head: Head) -> tuple[bytes, bytes]:
        """Return headers and body in OpenWire's encoding."""
        if message.encoding == OPENWIRE and not message.annotations:
            return message.headers, message.body
        own_id = self.context.message_id(message)
        converter = self.settings.converter
        destination = head.destination
        form = message
        steps = FORM_STEPS
        try:
            if message.encoding not in (OPENWIRE, STOMP):
                form, taken = converter.stomp_form(message)
                steps += READ_TIMES * taken
            self.charge_form(steps + len(form.headers) // 16 + ITEM_STEPS * items_in(form))
            return outgoing_form(message, form, converter, destination, self.store_id, own_id)
        except DATA_FAULTS as error:
            self.socket.conversion_failed(f"{own_id} is sent unconverted: {type(error).__name__}: {error}")
        if message.encoding == OPENWIRE:
            return message.headers, message.body
        raw = raw_form(message, destination, self.store_id, own_id)
        return raw.headers, raw.body


def _open_consumer(consumer: Consumer) -> OpenConsumer:
    found = consumer.adapter
    assert isinstance(found, OpenConsumer), "a consumer of this session has an OpenConsumer"
    return found
